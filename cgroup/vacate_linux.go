package cgroup

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Vacate moves the group's own processes into one inside of it, which it makes
// if there is none, so that the group can hand controllers on. A scope that a
// service manager delegates begins with its processes in itself.
func (g *Group) Vacate(name string) (*Group, error) {
	child, err := g.ensure(name)
	if err != nil {
		return nil, err
	}
	for {
		pids, err := g.Procs()
		if err == nil && len(pids) == 0 {
			return child, nil
		}
		for _, pid := range pids {
			if err == nil {
				err = child.move(pid)
			}
		}
		if err != nil {
			_ = child.Close()
			return nil, err
		}
	}
}

// move adds a process, if it still lives. One that cannot be named cannot be moved.
func (g *Group) move(pid int) error {
	if pid == 0 { // which would be the caller itself
		return g.fail("move a process into", "", errForeign)
	}
	err := g.Add(pid)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

var errForeign = errors.New("it is in a pid namespace that cannot be seen from here")
