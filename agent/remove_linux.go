package agent

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/beneath"
)

// removal is a tree that is being removed, and counted.
type removal struct {
	top   beneath.Dir // of the tree
	count *int64
}

// removeTree removes a directory and everything below, and counts it. What
// others remove meanwhile is fine; what they add is removed, too, as long as
// each look finds something that can be.
func removeTree(parent beneath.Dir, name string, count *int64) error {
	return (&removal{top: beneath.None, count: count}).tree(parent, name, 0)
}

func (r *removal) tree(parent beneath.Dir, name string, depth int) error {
	if depth > maxDepth {
		return r.lift(parent, name)
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
		names, err := sortedNames(dir, "", namesAtOnce)
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

// lift moves a directory that is too deep to the top of the tree, where it is
// met again: every level costs a descriptor, and a tree may have any number.
func (r *removal) lift(parent beneath.Dir, name string) error {
	err := unix.Renameat(parent.FD(), name, r.top.FD(), hiddenName(stagePrefix))
	switch {
	case errors.Is(err, unix.EXDEV): // a mount of its own
		return errTooDeep
	case errors.Is(err, unix.ENOENT):
		return nil
	}
	return err
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
