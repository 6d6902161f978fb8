package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Tree gives access to the groups and files of the mounted hierarchy by paths
// that are not trusted. It never leaves the hierarchy: a path is split as text,
// and then opened beneath a handle of the mount, without following links or
// entering other mounts (openat2(2), Linux 5.6). What it opens must be on a
// cgroup2 file system.
//
// It guards the groups and processes that are needed to go on: the root, the
// groups of this process and its ancestors with those above, and these processes
// themselves. See [GuardError].
type Tree struct {
	mount Mount
	root  int // a handle of the mount point
	guard guard
}

// PathError says that a path does not name anything in the hierarchy. Its text is
// a sentence.
type PathError struct {
	Reason string
	Hint   string // what to do about it; often empty
}

// Error returns the reason.
func (e *PathError) Error() string { return e.Reason }

// GuardError says that an operation would harm the machine or this process. It is
// refused for every user. Its text is a sentence.
type GuardError struct{ Reason string }

// Error returns the reason.
func (e *GuardError) Error() string { return e.Reason }

// usualMount is where people expect the hierarchy.
const usualMount = "/sys/fs/cgroup"

// OpenTree opens the mount that [Find] finds. It fails with ErrNotMounted.
func OpenTree() (*Tree, error) {
	m, err := Find()
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(m.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		if err = isGroup(fd); err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		return nil, &Error{Op: "open", Object: m.Path, Err: err}
	}
	return &Tree{mount: m, root: fd, guard: newGuard(m)}, nil
}

// Close closes the handle.
func (t *Tree) Close() error { return unix.Close(t.root) }

// Mount returns the hierarchy's mount point.
func (t *Tree) Mount() string { return t.mount.Path }

// Resolve returns the path relative to the mount that text names, "." for the
// mount itself. It opens nothing. Text is relative to the mount, or absolute and
// below it. If the mount is not at /sys/fs/cgroup (beside version 1), a path below
// /sys/fs/cgroup counts as below the mount unless something else has that name.
func (t *Tree) Resolve(text string) (rel string, err error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", &PathError{Reason: "Empty path."}
	case strings.IndexByte(text, 0) >= 0:
		return "", &PathError{Reason: "Could not resolve path: it holds a NUL byte"}
	case !path.IsAbs(text):
		text = t.mount.Path + "/" + text
	}
	clean := path.Clean(text)
	if rel, ok := t.below(clean); ok {
		return rel, nil
	}
	if rel, ok := t.belowUsual(text); ok {
		return rel, nil
	}
	found, err := realPath(text)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		cause := err // without the path
		if p := (*os.PathError)(nil); errors.As(err, &p) {
			cause = p.Err
		}
		return "", &PathError{Reason: "Could not resolve path: " + cause.Error()}
	}
	if rel, ok := t.below(found); ok {
		return rel, nil
	}
	e := &PathError{Reason: "Path must be under cgroup mount " + t.mount.Path + "."}
	if rel, ok := strings.CutPrefix(clean, usualMount+"/"); ok {
		name, _, _ := strings.Cut(rel, "/")
		e.Hint = usualMount + "/" + name + " is not part of the cgroup v2 hierarchy, which is mounted at " + t.mount.Path
	}
	return "", e
}

// below returns the path relative to the mount.
func (t *Tree) below(clean string) (rel string, ok bool) {
	if clean == t.mount.Path {
		return ".", true
	}
	return strings.CutPrefix(clean, strings.TrimSuffix(t.mount.Path, "/")+"/")
}

// belowUsual is below for a path below /sys/fs/cgroup when the hierarchy is mounted
// elsewhere below it, unless the path names something else that exists.
func (t *Tree) belowUsual(text string) (rel string, ok bool) {
	rel, ok = strings.CutPrefix(text, usualMount+"/")
	if !ok || !strings.HasPrefix(t.mount.Path, usualMount+"/") || slices.Contains(strings.Split(rel, "/"), "..") {
		return "", false
	}
	rel = path.Clean(rel)
	first, _, _ := strings.Cut(rel, "/")
	_, err := os.Lstat(usualMount + "/" + first)
	return rel, errors.Is(err, os.ErrNotExist)
}

// realPath resolves links in the part of a path that exists.
func realPath(text string) (string, error) {
	missing := ""
	for {
		found, err := filepath.EvalSymlinks(text)
		if err == nil {
			return path.Join(found, missing), nil
		}
		if !errors.Is(err, os.ErrNotExist) || text == "/" {
			return "", err
		}
		// Not cleaned: the directory before ".." may be a link.
		text = strings.TrimRight(text, "/")
		i := strings.LastIndexByte(text, '/')
		if text[i+1:] == ".." {
			return "", err
		}
		missing = path.Join(text[i+1:], missing)
		text = text[:i+1]
	}
}

// Path returns the absolute path of a resolved one.
func (t *Tree) Path(rel string) string { return path.Join(t.mount.Path, rel) }

// open opens a resolved path. It creates nothing.
func (t *Tree) open(rel string, flags uint64) (int, error) {
	how := unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	for {
		fd, err := unix.Openat2(t.root, rel, &how)
		// EAGAIN: something was renamed during the call.
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			return -1, err
		}
		if err := isGroup(fd); err != nil {
			_ = unix.Close(fd)
			return -1, err
		}
		return fd, nil
	}
}

const openDir = unix.O_PATH | unix.O_DIRECTORY

// fail returns an error about a resolved path.
func (t *Tree) fail(op, rel string, err error) error {
	dir := &Group{-1, t.Path(path.Dir(rel))}
	return dir.fail(op, path.Base(rel), err)
}

// guard holds the groups and processes that must not be harmed.
type guard struct {
	groups map[string]string // descriptions of directories
	pids   map[int]string    // descriptions of processes
}

// newGuard guards this process and its ancestors, among which is the shell or
// server that asks, and their groups.
func newGuard(m Mount) guard {
	g := guard{groups: map[string]string{m.Path: "the root of the hierarchy"}, pids: map[int]string{}}
	for pid := os.Getpid(); pid > 0 && g.pids[pid] == ""; pid = statusOf(pid, "PPid:") {
		what := "an ancestor of Paddock"
		switch pid {
		case os.Getpid():
			what = "Paddock itself"
		case 1:
			what = "the init process"
		}
		g.pids[pid] = what
		g.addGroup(m, pid, what)
	}
	if g.pids[1] == "" {
		g.pids[1] = "the init process"
		g.addGroup(m, 1, g.pids[1])
	}
	return g
}

// addGroup guards the group of a process, and those above. A group that the mount
// does not show cannot be harmed through it.
func (g *guard) addGroup(m Mount, pid int, what string) {
	group, err := Of(pid)
	if err != nil {
		return
	}
	dir, err := m.Dir(group)
	if err != nil {
		return
	}
	for why := "the group of " + what; len(dir) > len(m.Path); dir = dir[:strings.LastIndexByte(dir, '/')] {
		if g.groups[dir] == "" {
			g.groups[dir] = why
		}
		why = "above the group of " + what
	}
}

// move refuses to move a guarded process, by any of its threads. The guarded
// processes live as long as this one does, so their ids are not reused.
func (g *guard) move(pid int) error {
	if pid < 1 { // 0 would be this process
		return &PathError{Reason: "pid must be a positive integer."}
	}
	leader := statusOf(pid, "Tgid:") // pid may be a thread's
	if leader == 0 {
		leader = pid
	}
	what := g.pids[leader]
	if what == "" {
		own, err := os.Stat("/proc/self/exe")
		other, oerr := os.Stat("/proc/" + strconv.Itoa(pid) + "/exe")
		if err == nil && oerr == nil && os.SameFile(own, other) {
			what = "Paddock's own"
		}
	}
	if what != "" {
		return &GuardError{fmt.Sprintf("Refusing to move process %d: it is %s.", pid, what)}
	}
	return nil
}

// statusOf returns a number from /proc/PID/status, or 0.
func statusOf(pid int, key string) int {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), key); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(value))
			return n
		}
	}
	return 0
}
