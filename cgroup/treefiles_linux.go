package cgroup

import (
	"errors"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// slow is how long the kernel may take for one file, after which the caller
// goes on without an answer: what it reads or writes there may have to wait for
// memory that is reclaimed, or for locks.
const slow = 10 * time.Second

var errSlow = errors.New("the kernel gave no answer in " + slow.String())

// Read gives at most limit bytes of an interface file, and whether there is more.
func (t *Tree) Read(rel string, limit int) (text []byte, more bool, err error) {
	fd, err := t.open(rel, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, false, t.missing("read", rel, err)
	}
	text = make([]byte, 0, limit+1)
	text, err = inTime(fd, slow, func() ([]byte, error) { return readTo(fd, text) })
	if err != nil {
		return nil, false, t.fail("read", rel, err)
	}
	return text[:min(len(text), limit)], len(text) > limit, nil
}

// readTo fills what room there is.
func readTo(fd int, text []byte) ([]byte, error) {
	for len(text) < cap(text) {
		n, err := unix.Pread(fd, text[len(text):cap(text)], int64(len(text)))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, err
		case n == 0:
			return text, nil
		default:
			text = text[:len(text)+n]
		}
	}
	return text, nil
}

// inTime does something with a descriptor, which it closes at the end, and
// waits for it no longer than limit.
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

// Write writes to an interface file, in one call. Groups that are guarded
// refuse it; what moves a process is [Tree.Move] in other words.
func (t *Tree) Write(rel, text string) error {
	group, file := path.Dir(rel), path.Base(rel)
	if err := t.guard.change(t.Path(group)); err != nil {
		return err
	}
	if file == procsFile || file == threadsFile {
		pid, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return t.fail("write to", rel, errors.New("it takes one process id"))
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
		return t.lackingAny(rel, text)
	}
	return t.fail("write to", rel, err)
}

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

// Mkdir makes a group, with parents those above it too. One that exists is as
// good.
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
			err = unix.EEXIST // something else does
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

// Rmdir removes a group in which there is none, and no process.
func (t *Tree) Rmdir(rel string) error {
	if err := t.guard.remove(t.mount.Path, t.Path(rel)); err != nil {
		return err
	}
	at, err := t.open(path.Dir(rel), openDir)
	if err == nil {
		err = unix.Unlinkat(at, path.Base(rel), unix.AT_REMOVEDIR)
		_ = unix.Close(at)
	}
	if errors.Is(err, unix.EBUSY) {
		return &Error{Op: "remove", Object: t.Path(rel), Err: err, Hint: "processes live in it, or groups are inside of it"}
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

// Move moves a process, with all its threads, into a group. Processes that are
// guarded stay where they are.
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

// IsGroup says whether there is a group.
func (t *Tree) IsGroup(rel string) bool {
	fd, err := t.open(rel, openDir)
	if err != nil {
		return false
	}
	return unix.Close(fd) == nil
}

// missing makes an error of a file that could not be opened: where the group is
// there and its controller is not, that is why.
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
