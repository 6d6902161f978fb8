package cgroup

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Tree reaches the groups and files of the mounted hierarchy by paths that
// somebody else names, and stays in it whatever these say: a path is taken
// apart as text, and then opened beneath a handle of the mount, over no link
// and into no other mount (openat2(2), Linux 5.6). What is found must be of a cgroup2 file system.
//
// It guards the groups and processes without which nobody could go on: the
// root, the groups that this process and its ancestors live in with those
// above, and these processes themselves. See [GuardError].
type Tree struct {
	mount Mount
	root  int // a handle of the mount point
	guard guard
}

// PathError is a path that does not name anything in the hierarchy. Its text
// is a sentence.
type PathError struct {
	Reason string
	Hint   string // what to do about it, where there is something to say
}

// Error gives the reason.
func (e *PathError) Error() string { return e.Reason }

// GuardError is something that would harm the machine, or this process, and
// is refused whoever asks. Its text is a sentence.
type GuardError struct{ Reason string }

// Error gives the reason.
func (e *GuardError) Error() string { return e.Reason }

// usualMount is where people expect the hierarchy, wherever it is.
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

// Close gives up the handle.
func (t *Tree) Close() error { return unix.Close(t.root) }

// Mount is the hierarchy's mount point.
func (t *Tree) Mount() string { return t.mount.Path }

// Resolve gives the place below the mount that a path names, "." for the mount
// itself, and touches nothing there. A path is relative to the mount, or
// absolute and below it. Where the mount is elsewhere (beside version 1), a
// path below /sys/fs/cgroup that names nothing outside of it is meant to be below it.
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
	if rel, ok := t.meant(text); ok {
		return rel, nil
	}
	found, err := realPath(text)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", &PathError{Reason: "Could not resolve path: " + cause(err).Error()}
	}
	if rel, ok := t.below(found); ok {
		return rel, nil
	}
	return "", t.outside(clean)
}

// outside says why a path is not below the mount.
func (t *Tree) outside(clean string) error {
	e := &PathError{Reason: "Path must be under cgroup mount " + t.mount.Path + "."}
	if rel, ok := strings.CutPrefix(clean, usualMount+"/"); ok {
		name, _, _ := strings.Cut(rel, "/")
		e.Hint = usualMount + "/" + name + " is no part of the cgroup v2 hierarchy, which is mounted at " + t.mount.Path
	}
	return e
}

// below gives the path relative to the mount.
func (t *Tree) below(clean string) (rel string, ok bool) {
	if clean == t.mount.Path {
		return ".", true
	}
	return strings.CutPrefix(clean, strings.TrimSuffix(t.mount.Path, "/")+"/")
}

// meant is below for a mount that is elsewhere than people expect it: what
// they write says so only as long as it cannot mean something else.
func (t *Tree) meant(text string) (rel string, ok bool) {
	rel, ok = strings.CutPrefix(text, usualMount+"/")
	if !ok || !strings.HasPrefix(t.mount.Path, usualMount+"/") || slices.Contains(strings.Split(rel, "/"), "..") {
		return "", false
	}
	rel = path.Clean(rel)
	first, _, _ := strings.Cut(rel, "/")
	_, err := os.Lstat(usualMount + "/" + first)
	return rel, errors.Is(err, os.ErrNotExist)
}

// realPath follows links in the part of a path that exists.
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
		// Not cleaned: what ".." leads up from may be behind a link.
		text = strings.TrimRight(text, "/")
		i := strings.LastIndexByte(text, '/')
		if text[i+1:] == ".." {
			return "", err
		}
		missing = path.Join(text[i+1:], missing)
		text = text[:i+1]
	}
}

// cause is what the system said, without the names that it said it about.
func cause(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Path is the whole path of a place below the mount.
func (t *Tree) Path(rel string) string { return path.Join(t.mount.Path, rel) }

// open opens what a resolved path leads to. It makes nothing.
func (t *Tree) open(rel string, flags uint64) (int, error) {
	how := unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	for {
		fd, err := unix.Openat2(t.root, rel, &how)
		// EAGAIN: something was renamed meanwhile.
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

// fail makes an error about a place.
func (t *Tree) fail(op, rel string, err error) error {
	dir := &Group{-1, t.Path(path.Dir(rel))}
	return dir.fail(op, path.Base(rel), err)
}
