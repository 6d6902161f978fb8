package files

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/wire"
)

// stage is a hidden directory beside the tree that an archive is unpacked into.
type stage struct {
	root beneath.Dir // the directory that it is in
	name string
	dir  beneath.Dir
	lock *os.File // is locked while an agent uses the stage
	last int
}

// newStage removes the stages of killed agents, and makes a new one. Only one call at a
// time may do that: a new stage that is not locked yet looks like a killed agent's.
func (w *Workspace) newStage() (s *stage, err error) {
	w.staging.Lock()
	defer w.staging.Unlock()
	root := w.Dir
	sweepStages(root)
	s = &stage{root: root, name: core.HiddenName(wire.StagePrefix), dir: beneath.None}
	if err := unix.Mkdirat(root.FD(), s.name, 0o700); err != nil {
		return nil, err
	}
	if s.dir, err = root.Walk([]string{s.name}); err == nil {
		if s.lock, err = s.dir.List(); err == nil {
			err = unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		}
	}
	if err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// sweepStages removes the stages of agents that were killed: those that are not locked.
func sweepStages(root beneath.Dir) {
	f, err := root.List()
	if err != nil {
		return
	}
	defer f.Close()
	for err == nil {
		var names []string
		names, err = f.Readdirnames(core.NamesAtOnce)
		for _, name := range names {
			if strings.HasPrefix(name, wire.StagePrefix) {
				sweepStage(root, name)
			}
		}
	}
}

func sweepStage(root beneath.Dir, name string) {
	dir, err := root.Walk([]string{name})
	if err != nil {
		return
	}
	defer dir.Close()
	lock, err := dir.List()
	if err != nil {
		return
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		_ = removeTree(root, name, new(int64))
	}
}

func (s *stage) remove() {
	if s.dir.Valid() {
		_ = s.dir.Close()
	}
	_ = removeTree(s.root, s.name, new(int64))
	if s.lock != nil {
		_ = s.lock.Close()
	}
}

func (s *stage) next() string {
	s.last++
	return strconv.Itoa(s.last)
}

// file stages a file's content.
func (s *stage) file(content io.Reader, size int64, mode uint32) (string, error) {
	name := s.next()
	f, err := s.dir.OpenFile(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, mode)
	if err != nil {
		return "", err
	}
	err = core.CopyExactly(f, content, size)
	return name, errors.Join(err, f.Close())
}

// link stages a symbolic link.
func (s *stage) link(target string) (string, error) {
	name := s.next()
	if err := unix.Symlinkat(target, s.dir.FD(), name); err != nil {
		return "", &os.LinkError{Op: "symlink", Old: target, New: name, Err: err}
	}
	return name, nil
}

// changes lists the changes that were made to a tree, in order, so that they can be
// undone.
type changes struct {
	root  beneath.Dir
	stage *stage
	done  []change

	// The directory of the last change, which the next one often shares.
	parent beneath.Dir
	path   string
	opened bool
}

// change is one change.
type change struct {
	names []string
	made  bool   // a directory was made
	spare string // the name of the staged file or, later, of the file that it has replaced
	local bool   // the spare is in the directory itself, not in the stage
	swap  bool   // a file was replaced
}

// open returns the directory that a path is in, and makes it if it is missing.
func (c *changes) open(names []string) (beneath.Dir, error) {
	parents := names[:len(names)-1]
	if path := strings.Join(parents, "/"); !c.opened || path != c.path {
		c.close()
		dir, err := c.make(parents)
		if err != nil {
			return dir, err
		}
		c.parent, c.path, c.opened = dir, path, true
	}
	return c.parent, nil
}

func (c *changes) make(names []string) (beneath.Dir, error) {
	return c.root.MakeAll(names, defaultDirMode, func(_ beneath.Dir, depth int) {
		c.done = append(c.done, change{names: names[:depth+1], made: true})
	})
}

func (c *changes) makeDir(names []string) error {
	dir, err := c.make(names)
	if err != nil {
		return err
	}
	return dir.Close()
}

// close closes the open directory. The changes stay.
func (c *changes) close() {
	if c.opened {
		_ = c.parent.Close()
		c.opened = false
	}
}

// place moves a staged file to its place.
func (c *changes) place(staged string, names []string, m *tarMember) error {
	dir, err := c.open(names)
	if err != nil {
		return err
	}
	one := change{names: names, spare: staged}
	base := names[len(names)-1]
	err = c.put(&one, dir, base, m.kind)
	if errors.Is(err, unix.EXDEV) { // the directory is on another mount
		if one.spare, err = c.copy(staged, dir, m); err == nil {
			one.local = true
			if err = c.put(&one, dir, base, m.kind); err != nil {
				_ = unix.Unlinkat(dir.FD(), one.spare, 0)
			}
		}
	}
	switch {
	case err == nil:
		c.done = append(c.done, one)
	case errors.Is(err, errOccupied):
		err = &wire.Error{Code: wire.CodeConflict, Object: m.name, Message: m.kind + " conflicts with existing path: " + m.name}
	}
	return err
}

var errOccupied = errors.New("something else is there")

// source returns the directory that a change's spare is in.
func (c *changes) source(one *change, dir beneath.Dir) int {
	if one.local {
		return dir.FD()
	}
	return c.stage.dir.FD()
}

// put renames one.spare into place. If a file of the same kind is there, it exchanges
// the two.
func (c *changes) put(one *change, dir beneath.Dir, base, kind string) error {
	from := c.source(one, dir)
	err := unix.Renameat2(from, one.spare, dir.FD(), base, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL || err == unix.ENOSYS {
		if _, serr := dir.Lstat(base); errors.Is(serr, unix.ENOENT) {
			return unix.Renameat(from, one.spare, dir.FD(), base)
		}
		err = unix.EEXIST
	}
	if err != unix.EEXIST {
		return err
	}
	if st, err := dir.Lstat(base); err != nil || TypeOf(st) != kind {
		return errors.Join(errOccupied, err)
	}
	if err := exchange(from, one.spare, dir.FD(), base); err != nil {
		return err
	}
	one.swap = true
	var st unix.Stat_t // of the file that was really replaced
	if err := unix.Fstatat(from, one.spare, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || TypeOf(st) != kind {
		_ = exchange(from, one.spare, dir.FD(), base)
		return errOccupied
	}
	return nil
}

// exchange exchanges two files. If the file system cannot do that atomically
// (renameat2(2): EINVAL), a second name keeps the old file meanwhile.
func exchange(from int, name string, to int, base string) error {
	err := unix.Renameat2(from, name, to, base, unix.RENAME_EXCHANGE)
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	old := core.HiddenName(writePrefix)
	if err := unix.Linkat(to, base, from, old, 0); err != nil {
		return err
	}
	if err := unix.Renameat(from, name, to, base); err != nil {
		_ = unix.Unlinkat(from, old, 0)
		return err
	}
	return unix.Renameat(from, old, from, name)
}

// copy copies a staged file into the directory itself, under a hidden name.
func (c *changes) copy(staged string, dir beneath.Dir, m *tarMember) (string, error) {
	name := core.HiddenName(wire.StagePrefix)
	if m.kind == wire.TypeSymlink {
		target, err := c.stage.dir.Readlink(staged)
		if err != nil {
			return "", err
		}
		return name, unix.Symlinkat(target, dir.FD(), name)
	}
	from, err := c.stage.dir.OpenFile(staged, unix.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer from.Close()
	if info, err := from.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(errOccupied, err) // commands may have been there
	}
	to, err := dir.OpenFile(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, m.mode)
	if err != nil {
		return "", err
	}
	err = core.CopyExactly(to, from, m.size)
	if err = errors.Join(err, to.Close()); err != nil {
		_ = unix.Unlinkat(dir.FD(), name, 0)
	}
	return name, err
}

// commit removes the replaced files that are not in the stage.
func (c *changes) commit() {
	for _, one := range c.done {
		if !one.local || !one.swap {
			continue
		}
		if dir, err := c.root.Walk(one.names[:len(one.names)-1]); err == nil {
			_ = unix.Unlinkat(dir.FD(), one.spare, 0)
			_ = dir.Close()
		}
	}
}

// undo undoes the changes, the last one first.
func (c *changes) undo() {
	c.close()
	for i := len(c.done) - 1; i >= 0; i-- {
		one := c.done[i]
		base := one.names[len(one.names)-1]
		dir, err := c.root.Walk(one.names[:len(one.names)-1])
		if err != nil {
			continue // another process has changed the tree
		}
		switch from := c.source(&one, dir); {
		case one.made:
			_ = unix.Unlinkat(dir.FD(), base, unix.AT_REMOVEDIR)
		case one.swap:
			_ = exchange(from, one.spare, dir.FD(), base)
		default:
			_ = unix.Renameat(dir.FD(), base, from, one.spare)
		}
		if one.local {
			_ = unix.Unlinkat(dir.FD(), one.spare, 0)
		}
		_ = dir.Close()
	}
}
