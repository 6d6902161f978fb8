package cgroup

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Wanted are the controllers that a sandbox can make use of.
var Wanted = []string{"memory", "cpu", "pids", "io"}

// Place is a group in which others may be made.
type Place struct {
	// Dir is its directory.
	Dir string
	// Controllers are those of Wanted that groups in it get.
	Controllers []string
}

// topGroup is what root makes groups in: beside those of the service manager.
const topGroup = "paddock"

// FindPlace looks for a group in which this process may make others with
// controllers: root has the top of the hierarchy; an ordinary user a subtree
// that was delegated to it, above its own group, because a group that holds
// processes hands no controllers on (the rule of no internal processes).
//
// With none, the error says why and what to do. It enables controllers where
// it may.
func FindPlace() (Place, error) {
	m, err := Find()
	if err != nil {
		return Place{}, err
	}
	if m.ReadOnly {
		return Place{}, &Error{Op: "use", Object: m.Path, Err: ErrReadOnly,
			Hint: "let the container have its own cgroup writable (docker: --cgroupns private with a writable /sys/fs/cgroup; podman does so)"}
	}
	if os.Geteuid() == 0 && isTop(m.Path) {
		return topPlace(m.Path)
	}
	own, err := Own()
	if err != nil {
		return Place{}, err
	}
	dir, err := m.Dir(own)
	if err != nil {
		return Place{}, err
	}
	return placeAbove(m.Path, dir)
}

// isTop says whether a directory is the root of the whole hierarchy, which
// alone lacks some files.
func isTop(dir string) bool {
	_, err := os.Lstat(path.Join(dir, "cgroup.type"))
	return errors.Is(err, os.ErrNotExist)
}

// topPlace makes a group of our own below the top. It enables nothing on the
// top that is not there for anybody.
func topPlace(mount string) (Place, error) {
	top, err := Open(mount)
	if err != nil {
		return Place{}, err
	}
	defer top.Close()
	available, err := top.Controllers()
	if err != nil {
		return Place{}, err
	}
	if !slices.ContainsFunc(Wanted, func(c string) bool { return slices.Contains(available, c) }) {
		return Place{}, noControllers(mount, available)
	}
	if _, err := top.Enable(Wanted...); err != nil && errors.Is(err, unix.EACCES) {
		return Place{}, err
	}
	group, err := top.Child(topGroup)
	if errors.Is(err, unix.ENOENT) {
		if group, err = top.Create(topGroup); errors.Is(err, unix.EEXIST) {
			group, err = top.Child(topGroup)
		}
	}
	if err != nil {
		return Place{}, err
	}
	defer group.Close()
	got, err := group.Enable(Wanted...)
	if len(got) == 0 {
		return Place{}, errors.Join(noControllers(mount, available), err)
	}
	return Place{Dir: path.Join(mount, topGroup), Controllers: got}, nil
}

func noControllers(where string, available []string) error {
	text := "none"
	if len(available) > 0 {
		text = strings.Join(available, ", ") + " alone"
	}
	return &Error{Op: "use", Object: where, Err: errors.New("it has none of the controllers memory, cpu, pids and io (it has " + text + ")"),
		Hint: "they may be bound to cgroup v1: start the kernel with systemd.unified_cgroup_hierarchy=1, or cgroup_no_v1=all"}
}

// placeAbove climbs from a group as far as this process may write.
func placeAbove(mount, own string) (Place, error) {
	var last error = &Error{Op: "use", Object: own, Err: ErrNoPlace, Hint: DelegationHint}
	for dir := own; ; dir = path.Dir(dir) {
		if !writable(dir) {
			return Place{}, last
		}
		group, err := Open(dir)
		if err != nil {
			return Place{}, err
		}
		got, err := tryPlace(group, dir == own)
		_ = group.Close()
		switch {
		case len(got) > 0:
			return Place{Dir: dir, Controllers: got}, nil
		case err != nil:
			last = err
		}
		if dir == mount || len(dir) <= len(mount) {
			return Place{}, last
		}
	}
}

// tryPlace says which controllers groups inside of a group get.
func tryPlace(g *Group, own bool) ([]string, error) {
	got, err := g.Enable(Wanted...)
	if len(got) > 0 {
		return got, nil
	}
	if own && errors.Is(err, unix.EBUSY) {
		return nil, &Error{Op: "use", Object: g.name, Err: errors.New("it holds processes, and so hands no controllers on"), Hint: DelegationHint}
	}
	if err == nil {
		available, _ := g.Controllers()
		return nil, noControllers(g.name, available)
	}
	return nil, err
}

// DelegationHint is what an ordinary user can do about a hierarchy that is not
// its own.
const DelegationHint = "start Paddock in a scope that is delegated to you (systemd-run --user --scope -p Delegate=yes …), " +
	"and let the administrator delegate controllers to users: [Service] Delegate=cpu cpuset io memory pids in /etc/systemd/system/user@.service.d/delegate.conf"

// writable says whether this process may make groups in a directory and move
// processes into them.
func writable(dir string) bool {
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		if unix.Faccessat(unix.AT_FDCWD, path.Join(dir, name), unix.W_OK, unix.AT_EACCESS) != nil {
			return false
		}
	}
	return true
}
