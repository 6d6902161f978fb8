package cgroup

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// SweepEmpty removes the groups inside this one whose names begin with prefix,
// with all that is inside of them, where no process lives in them and nobody
// holds the handle that [Group.Create] gave. It returns the names of those.
func (g *Group) SweepEmpty(prefix string) ([]string, error) {
	var removed []string
	var failed []error
	for _, name := range g.Children() {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		gone, err := g.sweep(name)
		if err != nil && !Gone(err) { // another sweep was faster
			failed = append(failed, err)
		}
		if gone {
			removed = append(removed, name)
		}
	}
	return removed, errors.Join(failed...)
}

// sweep removes a group and what is inside of it, unless somebody needs it.
func (g *Group) sweep(name string) (bool, error) {
	child, err := g.Child(name)
	if err != nil {
		return false, err
	}
	defer child.Close()
	err = flock(child.fd, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, child.fail("lock", "", err)
	}
	if populated, err := child.Populated(); err != nil || populated {
		return false, err
	}
	for _, inner := range child.Children() {
		if _, err := child.sweep(inner); err != nil && !Gone(err) {
			return false, err
		}
	}
	err = unix.Unlinkat(g.fd, name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.EBUSY) {
		return false, nil // it has come to life, or something inside of it is held
	}
	if err != nil {
		return false, child.fail("remove", "", err)
	}
	return true, nil
}
