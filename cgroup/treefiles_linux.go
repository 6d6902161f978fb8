package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// slow is how long the kernel may take for one file before the caller gives up: a
// read or write may have to wait for memory to be reclaimed, or for locks.
const slow = 10 * time.Second

var errSlow = errors.New("the kernel did not answer within " + slow.String())

// Read returns at most limit bytes of an interface file, and whether there is more.
func (t *Tree) Read(rel string, limit int) (text []byte, more bool, err error) {
	fd, err := t.open(rel, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, false, t.missing("read", rel, err)
	}
	text = make([]byte, 0, limit+1)
	text, err = inTime(fd, slow, func() ([]byte, error) {
		for len(text) < cap(text) {
			n, err := unix.Pread(fd, text[len(text):cap(text)], int64(len(text)))
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || n == 0 {
				return text, err
			}
			text = text[:len(text)+n]
		}
		return text, nil
	})
	if err != nil {
		return nil, false, t.fail("read", rel, err)
	}
	return text[:min(len(text), limit)], len(text) > limit, nil
}

// inTime calls do, waits for it no longer than limit, and closes the descriptor
// when do has returned.
func inTime[T any](fd int, limit time.Duration, do func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		defer unix.Close(fd)
		value, err := do()
		done <- answer{value, err}
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case a := <-done:
		return a.value, a.err
	case <-late.C:
		var none T
		return none, errSlow
	}
}

// Write writes to an interface file in one call. It refuses files of guarded
// groups, and treats a write that moves a process as [Tree.Move] does.
func (t *Tree) Write(rel, text string) error {
	group, file := path.Dir(rel), path.Base(rel)
	if what := t.guard.groups[t.Path(group)]; what != "" {
		return &GuardError{fmt.Sprintf("Refusing to write to %s: it is %s.", t.Path(group), what)}
	}
	if file == procsFile || file == threadsFile {
		pid, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return t.fail("write to", rel, errors.New("the text must be one process id"))
		}
		if err := t.guard.move(pid); err != nil {
			return err
		}
		text = strconv.Itoa(pid) + "\n" // the kernel would read 010 as 8
	}
	fd, err := t.open(rel, unix.O_WRONLY|unix.O_NONBLOCK)
	if err != nil {
		return t.missing("write to", rel, err)
	}
	_, err = inTime(fd, slow, func() (struct{}, error) { return struct{}{}, writeOnce(fd, text) })
	switch {
	case err == nil:
		return nil
	case file == subtreeFile && errors.Is(err, unix.ENOENT):
		return t.missingController(rel, text)
	}
	return t.fail("write to", rel, err)
}

// writeOnce writes a text in one call.
func writeOnce(fd int, text string) error {
	if text == "" {
		return nil
	}
	for {
		if _, err := unix.Write(fd, []byte(text)); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Mkdir makes a group, with parents also those above it. A group that exists is
// not an error.
func (t *Tree) Mkdir(rel string, parents bool) error {
	names := strings.Split(rel, "/")
	if rel == "." {
		names = nil
	}
	for i := range names {
		at := strings.Join(names[:i+1], "/")
		fd, err := t.open(at, openDir)
		if errors.Is(err, unix.ENOENT) && (parents || i == len(names)-1) {
			fd, err = t.make(path.Dir(at), names[i])
		}
		if errors.Is(err, unix.ENOTDIR) && i == len(names)-1 {
			err = unix.EEXIST // as something else
		}
		if err != nil {
			return t.fail("create", at, err)
		}
		_ = unix.Close(fd)
	}
	return nil
}

// make makes one group, and opens it.
func (t *Tree) make(parent, name string) (int, error) {
	at, err := t.open(parent, openDir)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	if err := unix.Mkdirat(at, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	return t.open(path.Join(parent, name), openDir)
}

// Rmdir removes a group without groups or processes inside.
func (t *Tree) Rmdir(rel string) error {
	dir := t.Path(rel)
	if dir == t.mount.Path {
		return &GuardError{"Refusing to remove the cgroup mount root."}
	}
	if what := t.guard.groups[dir]; what != "" {
		return &GuardError{fmt.Sprintf("Refusing to remove %s: it is %s.", dir, what)}
	}
	at, err := t.open(path.Dir(rel), openDir)
	if err == nil {
		err = unix.Unlinkat(at, path.Base(rel), unix.AT_REMOVEDIR)
		_ = unix.Close(at)
	}
	if errors.Is(err, unix.EBUSY) {
		return &Error{Op: "remove", Object: dir, Err: err, Hint: "processes live in it, or groups are inside of it"}
	}
	if err != nil {
		return t.fail("remove", rel, err)
	}
	return nil
}

// Group opens a group.
func (t *Tree) Group(rel string) (*Group, error) {
	fd, err := t.open(rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, t.fail("open", rel, err)
	}
	return &Group{fd, t.Path(rel)}, nil
}

// Move moves a process, with all its threads, into a group. It refuses to move
// guarded processes.
func (t *Tree) Move(rel string, pid int) error {
	if err := t.guard.move(pid); err != nil {
		return err
	}
	file := path.Join(rel, procsFile)
	fd, err := t.open(file, unix.O_WRONLY|unix.O_NONBLOCK)
	if err != nil {
		return t.fail("write to", file, err)
	}
	_, err = inTime(fd, slow, func() (struct{}, error) { return struct{}{}, writeOnce(fd, strconv.Itoa(pid)+"\n") })
	if err != nil {
		return t.fail("write to", file, err)
	}
	return nil
}

// IsGroup reports whether the path names a group.
func (t *Tree) IsGroup(rel string) bool {
	fd, err := t.open(rel, openDir)
	if err != nil {
		return false
	}
	return unix.Close(fd) == nil
}

// missing returns an error about a file that could not be opened. If the group
// exists and lacks the file's controller, the error says so.
func (t *Tree) missing(op, rel string, err error) error {
	controller, _, dotted := strings.Cut(path.Base(rel), ".")
	if !errors.Is(err, os.ErrNotExist) || !dotted || controller == "cgroup" || !t.IsGroup(path.Dir(rel)) {
		return t.fail(op, rel, err)
	}
	g, gerr := t.Group(path.Dir(rel))
	if gerr != nil {
		return gerr
	}
	defer g.Close()
	if have, herr := g.Controllers(); herr == nil && slices.Contains(knownControllers, controller) && !slices.Contains(have, controller) {
		return g.without(op, path.Base(rel), controller)
	}
	return t.fail(op, rel, err)
}

// knownControllers lists the controllers of version 2; file names begin with them.
var knownControllers = []string{"cpu", "cpuset", "io", "memory", "hugetlb", "pids", "rdma", "misc", "dmem"}

// without returns an error about a file whose controller the group lacks, with
// the reason.
func (g *Group) without(op, file, controller string) error {
	hint := "delegate it: write +" + controller + " to cgroup.subtree_control of the group above, and of those above that"
	text, _ := os.ReadFile("/proc/cgroups") // newer kernels may not have it
	known, v1, enabled := controllerState(string(text), controller)
	switch {
	case known && v1:
		hint = "it is bound to a cgroup v1 hierarchy: start the kernel with systemd.unified_cgroup_hierarchy=1, or cgroup_no_v1=" + v1Name(controller)
	case known && !enabled:
		hint = "it is disabled on the kernel's command line (cgroup_disable=" + v1Name(controller) + ")"
	}
	return &Error{Op: op, Object: path.Join(g.name, file), Err: fmt.Errorf("%w: %s", ErrNoController, controller), Hint: hint}
}

// missingController returns an error about a write to cgroup.subtree_control that
// names the first controller that the group lacks.
func (t *Tree) missingController(rel, text string) error {
	g, err := t.Group(path.Dir(rel))
	if err != nil {
		return err
	}
	defer g.Close()
	have, err := g.Controllers()
	if err != nil {
		return err
	}
	for word := range strings.FieldsSeq(text) {
		if name, ok := strings.CutPrefix(word, "+"); ok && !slices.Contains(have, name) {
			return g.without("write to", path.Base(rel), name)
		}
	}
	return t.fail("write to", rel, unix.ENOENT)
}
