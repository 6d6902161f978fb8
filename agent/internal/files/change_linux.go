package files

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/wire"
)

// Mkdir makes a directory and the missing ones above it.
func (w *Workspace) Mkdir(q *wire.MkdirRequest) (*wire.MkdirResult, error) {
	if err := checkMode(q.Mode); err != nil {
		return nil, err
	}
	p, werr := core.ParsePath(string(q.Path))
	if werr != nil {
		return nil, werr
	}
	created := false
	dir, err := w.Dir.MakeAll(p.Names, defaultDirMode, func(_ beneath.Dir, depth int) {
		created = created || depth == len(p.Names)-1
	})
	if err != nil {
		return nil, core.FileError("make", p, err)
	}
	defer dir.Close()
	if created && q.Mode != nil {
		f, err := dir.List()
		if err != nil {
			return nil, core.FileError("make", p, err)
		}
		defer f.Close()
		if err := unix.Fchmod(int(f.Fd()), *q.Mode); err != nil {
			return nil, core.FileError("make", p, err)
		}
	}
	return &wire.MkdirResult{Path: wire.OSString(p.Text), Created: created}, nil
}

// Move renames a file or a directory. It replaces a file only if the request allows
// that.
func (w *Workspace) Move(q *wire.MoveRequest) (*wire.MoveResult, error) {
	from, err := w.Find(q.Path)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to, werr := core.ParsePath(string(q.Target))
	if werr != nil {
		return nil, werr
	}
	refuse := func(code wire.Code, text string) (*wire.MoveResult, error) {
		return nil, &wire.Error{Code: code, Object: to.Text, Message: "cannot move " + from.Path.Text + " to " + to.Text + ": " + text}
	}
	if _, err := from.Lstat(); err != nil {
		return nil, err
	}
	switch n := len(from.Path.Names); {
	case n == 0 || len(to.Names) == 0:
		return refuse(wire.CodeConflict, "the workspace itself stays where it is")
	case len(to.Names) > n && slices.Equal(to.Names[:n], from.Path.Names):
		return refuse(wire.CodeConflict, "a directory cannot be moved into itself")
	}
	dir, err := w.Dir.MakeAll(to.Parent(), defaultDirMode, nil)
	if err != nil {
		return nil, core.FileError("move to", to, err)
	}
	defer dir.Close()
	if st, err := dir.Lstat(to.Base()); err == nil && q.Replace && TypeOf(st) == wire.TypeDirectory {
		return refuse(wire.CodeConflict, "a directory is there, and only files and links are replaced")
	}
	err = rename(from.dir, from.name, dir, to.Base(), q.Replace)
	switch {
	case errors.Is(err, unix.EEXIST):
		return refuse(wire.CodeExists, "something is there already")
	case err != nil:
		return nil, core.FileError("move", from.Path, err)
	}
	return &wire.MoveResult{Path: wire.OSString(from.Path.Text), Target: wire.OSString(to.Text)}, nil
}

// rename renames, and replaces only if it may. If the file system cannot guarantee
// that (renameat2(2): EINVAL), it checks before.
func rename(from beneath.Dir, name string, to beneath.Dir, target string, replace bool) error {
	if replace {
		return unix.Renameat(from.FD(), name, to.FD(), target)
	}
	err := unix.Renameat2(from.FD(), name, to.FD(), target, unix.RENAME_NOREPLACE)
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	if _, err := to.Lstat(target); err == nil {
		return unix.EEXIST
	}
	return unix.Renameat(from.FD(), name, to.FD(), target)
}

// Delete removes a file, or a directory with everything in it.
func (w *Workspace) Delete(q *wire.DeleteRequest) (*wire.DeleteResult, error) {
	p, err := w.Find(q.Path)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	st, err := p.Lstat()
	if err != nil {
		return nil, err
	}
	r := &wire.DeleteResult{Path: wire.OSString(p.Path.Text), Deleted: true}
	switch kind := TypeOf(st); {
	case kind == wire.TypeOther && !q.Recursive:
		return nil, Unsupported(p.Path)
	case kind == wire.TypeDirectory && (!q.Recursive || p.name == ""):
		return nil, p.Conflict("workspace file delete does not support directories")
	case kind == wire.TypeDirectory:
		err = removeTree(p.dir, p.name, &r.Entries)
	default:
		r.Entries = 1
		err = unix.Unlinkat(p.dir.FD(), p.name, 0)
	}
	if err != nil {
		return nil, core.FileError("delete", p.Path, err)
	}
	return r, nil
}

// removal is a tree that is being removed, and counted.
type removal struct {
	top   beneath.Dir // of the tree
	count *int64
}

// removeTree removes a directory and everything below, and counts it. Other processes
// may remove files meanwhile; files that they add are removed, too, as long as each
// round finds something to remove.
func removeTree(parent beneath.Dir, name string, count *int64) error {
	return (&removal{top: beneath.None, count: count}).tree(parent, name, 0)
}

func (r *removal) tree(parent beneath.Dir, name string, depth int) error {
	if depth > maxDepth {
		// Every level needs a descriptor, and a tree may have any number of levels: so a
		// directory that is too deep is moved to the top of the tree, where the walk finds
		// it again.
		err := unix.Renameat(parent.FD(), name, r.top.FD(), core.HiddenName(wire.StagePrefix))
		switch {
		case errors.Is(err, unix.EXDEV): // it is on another mount
			return errTooDeep
		case errors.Is(err, unix.ENOENT):
			return nil
		}
		return err
	}
	dir, err := parent.Walk([]string{name})
	if err != nil {
		return err
	}
	defer dir.Close()
	if depth == 0 {
		r.top = dir
	}
	for {
		names, err := sortedNames(dir, "", core.NamesAtOnce)
		if err != nil {
			return err
		}
		for _, child := range names {
			if err := r.entry(dir, child, depth); err != nil {
				return err
			}
		}
		err = unix.Unlinkat(parent.FD(), name, unix.AT_REMOVEDIR)
		switch {
		case err == nil:
			*r.count++
			return nil
		case errors.Is(err, unix.ENOENT):
			return nil
		case !errors.Is(err, unix.ENOTEMPTY) || len(names) == 0:
			return err
		}
	}
}

func (r *removal) entry(dir beneath.Dir, name string, depth int) error {
	err := unix.Unlinkat(dir.FD(), name, 0)
	switch err {
	case nil:
		*r.count++
		return nil
	case unix.ENOENT:
		return nil
	case unix.EISDIR:
		return r.tree(dir, name, depth+1)
	default:
		return err
	}
}
