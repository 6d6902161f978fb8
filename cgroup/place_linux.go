package cgroup

import (
	"errors"
	"fmt"
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
	// Missing are the others.
	Missing []Missing
}

// Missing is a controller that cannot be had, and why.
type Missing struct {
	Controller, Why, Remedy string
}

// placeName is the group that others are made in. It is made inside of one that
// exists, because whoever manages that one may take controllers back from it, but
// not while a group inside of it hands them on.
const placeName = "paddock"

// DelegationHint is what an ordinary user can do about a hierarchy that is not
// its own.
const DelegationHint = "start Paddock in a scope that is delegated to you (systemd-run --user --scope -p Delegate=yes …), and " + administratorHint

const administratorHint = "let the administrator delegate controllers to users: [Service] Delegate=cpu cpuset io memory pids in /etc/systemd/system/user@.service.d/delegate.conf"

// FindPlace looks for a group in which this process may make others with
// controllers, and makes it ready: root has the top of the hierarchy; an
// ordinary user a subtree that was delegated to it, above its own group,
// because a group that holds processes hands no controllers on (the rule of no
// internal processes).
//
// With none, the error says why and what to do.
func FindPlace() (Place, error) {
	s, err := survey()
	if err != nil {
		return Place{}, err
	}
	defer s.base.Close()
	return s.prepare()
}

// LookForPlace says what FindPlace would find, and changes nothing. Its
// Missing also tells of a place that has no controller at all.
func LookForPlace() (Place, error) {
	s, err := survey()
	if err != nil {
		return s.place(nil), err
	}
	defer s.base.Close()
	return s.place(s.available), nil
}

// surveyed is what there is before anything is changed.
type surveyed struct {
	mount     string
	dir       string
	base      *Group // nil where there is no place
	available []string
}

// survey looks for the base of a place.
func survey() (surveyed, error) {
	m, err := Find()
	if err != nil {
		return surveyed{}, err
	}
	s := surveyed{mount: m.Path}
	if m.ReadOnly {
		return s, &Error{Op: "use", Object: m.Path, Err: ErrReadOnly,
			Hint: "let the container have its own cgroup writable (docker: --cgroupns private with a writable /sys/fs/cgroup; podman does so)"}
	}
	if isTop(m.Path) && writable(m.Path) {
		err := s.try(m.Path)
		return s, err
	}
	own, err := Own()
	if err != nil {
		return s, err
	}
	dir, err := m.Dir(own)
	if err != nil {
		return s, err
	}
	err = s.climb(dir)
	return s, err
}

// isTop says whether a directory is the root of the whole hierarchy, which
// alone lacks some files, and alone may hold processes and hand controllers on.
func isTop(dir string) bool {
	_, err := os.Lstat(path.Join(dir, "cgroup.type"))
	return errors.Is(err, os.ErrNotExist)
}

// climb tries a group and those above it. The first that is found wanting for
// another reason than that it is somebody else's says why there is none.
func (s *surveyed) climb(dir string) error {
	var why error
	for {
		if writable(dir) {
			err := s.try(dir)
			if err == nil {
				return nil
			}
			if why == nil {
				why = err
			}
		}
		if len(dir) <= len(s.mount) {
			break
		}
		dir = path.Dir(dir)
	}
	if why == nil {
		why = &Error{Op: "use", Object: s.mount, Err: ErrNoPlace, Hint: DelegationHint}
	}
	return why
}

// try says whether a group could be the base of a place.
func (s *surveyed) try(dir string) error {
	g, err := Open(dir)
	if err != nil {
		return err
	}
	available, err := g.usable(dir, isTop(dir))
	if err != nil {
		_ = g.Close()
		return err
	}
	s.base, s.dir, s.available = g, dir, available
	return nil
}

// usable gives those of Wanted that the group could hand on.
func (g *Group) usable(dir string, top bool) ([]string, error) {
	have, err := g.Controllers()
	if err != nil {
		return nil, err
	}
	available := intersect(Wanted, have)
	if len(available) == 0 {
		return nil, noControllers(dir, have)
	}
	pids, err := g.Procs()
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // threads of a group above
		return nil, err
	}
	if len(pids) > 0 && !top {
		return nil, &Error{Op: "use", Object: dir, Err: errors.New("it holds processes, and so hands no controllers on"), Hint: DelegationHint}
	}
	return available, nil
}

func noControllers(where string, available []string) error {
	text := "none"
	if len(available) > 0 {
		text = strings.Join(available, ", ") + " alone"
	}
	return &Error{Op: "use", Object: where, Err: fmt.Errorf("%w: it has none of %s (it has %s)", ErrNoController, strings.Join(Wanted, ", "), text),
		Hint: "they may be bound to cgroup v1: start the kernel with systemd.unified_cgroup_hierarchy=1, or cgroup_no_v1=all"}
}

// intersect are the words that the list has, too.
func intersect(words, list []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !slices.Contains(list, w) })
}

// prepare makes the place and has controllers handed on to it, and by it.
func (s *surveyed) prepare() (Place, error) {
	_, failed := s.base.Enable(Wanted...)
	group, err := s.base.ensure(placeName)
	if err != nil {
		return Place{}, err
	}
	defer group.Close()
	got, err := group.Enable(Wanted...)
	if len(got) == 0 {
		return Place{}, errors.Join(noControllers(s.dir, nil), failed, err)
	}
	return s.place(got), nil
}

func (s *surveyed) place(got []string) Place {
	p := Place{Controllers: got}
	if s.base != nil {
		p.Dir = path.Join(s.dir, placeName)
	}
	for _, name := range Wanted {
		if !slices.Contains(got, name) {
			p.Missing = append(p.Missing, s.missing(name))
		}
	}
	return p
}

// ensure opens a group inside this one, and makes it where there is none. Somebody else
// may do so at the same time.
func (g *Group) ensure(name string) (*Group, error) {
	child, err := g.Create(name)
	if errors.Is(err, unix.EEXIST) {
		return g.Child(name)
	}
	return child, err
}

// writable says whether this process may make groups in a directory and move
// processes into them.
func writable(dir string) bool {
	for _, name := range []string{"", procsFile, subtreeFile} {
		if unix.Faccessat(unix.AT_FDCWD, path.Join(dir, name), unix.W_OK, unix.AT_EACCESS) != nil {
			return false
		}
	}
	return true
}
