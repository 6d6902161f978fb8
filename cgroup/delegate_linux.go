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

// Wanted lists the controllers that a sandbox can use.
var Wanted = []string{"memory", "cpu", "pids", "io"}

// Delegate is a group in which this process may make others.
type Delegate struct {
	// Dir is its directory.
	Dir string
	// Controllers are the ones of Wanted that groups in it have.
	Controllers []string
	// Missing are the others.
	Missing []Missing
}

// Missing is a controller that is not available, and why.
type Missing struct {
	Controller, Why, Remedy string
}

// delegateName is the group in which others are made. It is made inside of one
// that exists, because the manager of that one may take controllers back from
// it, but not while a group inside of it delegates them.
const delegateName = "paddock"

// DelegationHint says what an ordinary user can do if no part of the hierarchy
// is delegated to them.
const DelegationHint = "start Paddock in a scope that is delegated to you (systemd-run --user --scope -p Delegate=yes …), and " + administratorHint

const administratorHint = "let the administrator delegate controllers to users: [Service] Delegate=cpu cpuset io memory pids in /etc/systemd/system/user@.service.d/delegate.conf"

// FindDelegate looks for a group in which this process may make others with
// controllers, and prepares it. For root that is below the top of the hierarchy.
// For an ordinary user it is in a subtree that was delegated to them, above
// their own group, because a group that holds processes cannot delegate
// controllers (the rule of no internal processes).
//
// If it finds none, the error says why and what to do.
func FindDelegate() (Delegate, error) {
	p, err := probeHierarchy()
	if err != nil {
		return Delegate{}, err
	}
	defer p.base.Close()
	_, failed := p.base.Enable(Wanted...)
	group, err := p.base.ensure(delegateName)
	if err != nil {
		return Delegate{}, err
	}
	defer group.Close()
	got, err := group.Enable(Wanted...)
	if len(got) == 0 {
		return Delegate{}, errors.Join(noControllers(p.dir, nil), failed, err)
	}
	return p.delegate(got), nil
}

// ProbeDelegate returns the result that FindDelegate would have, but changes nothing. The
// result has Missing even if the error says that there is no delegate.
func ProbeDelegate() (Delegate, error) {
	p, err := probeHierarchy()
	if err != nil {
		return p.delegate(nil), err
	}
	defer p.base.Close()
	return p.delegate(p.available), nil
}

// probe is what probeHierarchy finds.
type probe struct {
	mount     string
	dir       string   // of base
	base      *Group   // in which the delegate can be made; nil if there is none
	available []string // the wanted controllers that base can delegate
}

// probeHierarchy looks for a group in which the delegate can be made. It changes
// nothing.
func probeHierarchy() (probe, error) {
	m, err := Find()
	if err != nil {
		return probe{}, err
	}
	p := probe{mount: m.Path}
	if m.ReadOnly {
		return p, &Error{Op: "use", Object: m.Path, Err: ErrReadOnly,
			Hint: "let the container have its own cgroup writable (docker: --cgroupns private with a writable /sys/fs/cgroup; podman does so)"}
	}
	if isTop(m.Path) && writable(m.Path) {
		err := p.tryBase(m.Path)
		return p, err
	}
	own, err := Own()
	if err != nil {
		return p, err
	}
	dir, err := m.Dir(own)
	if err != nil {
		return p, err
	}
	err = p.findDelegatedAncestor(dir)
	return p, err
}

// isTop reports whether a directory is the root of the whole hierarchy. Only the
// root lacks some files, and only it may both hold processes and delegate
// controllers.
func isTop(dir string) bool {
	_, err := os.Lstat(path.Join(dir, "cgroup.type"))
	return errors.Is(err, os.ErrNotExist)
}

// findDelegatedAncestor tries a group and those above it. If none can be the
// base, the error is that of the first writable one.
func (p *probe) findDelegatedAncestor(dir string) error {
	var why error
	for {
		if writable(dir) {
			err := p.tryBase(dir)
			if err == nil {
				return nil
			}
			if why == nil {
				why = err
			}
		}
		if len(dir) <= len(p.mount) {
			break
		}
		dir = path.Dir(dir)
	}
	if why == nil {
		why = &Error{Op: "use", Object: p.mount, Err: ErrNoDelegate, Hint: DelegationHint}
	}
	return why
}

// tryBase makes a group the base if it can delegate controllers.
func (p *probe) tryBase(dir string) error {
	g, err := Open(dir)
	if err != nil {
		return err
	}
	available, err := g.delegable(dir)
	if err != nil {
		_ = g.Close()
		return err
	}
	p.base, p.dir, p.available = g, dir, available
	return nil
}

// delegable returns the controllers of Wanted that the group can delegate; dir is its
// directory.
func (g *Group) delegable(dir string) ([]string, error) {
	have, err := g.Controllers()
	if err != nil {
		return nil, err
	}
	available := intersect(Wanted, have)
	if len(available) == 0 {
		return nil, noControllers(dir, have)
	}
	pids, err := g.Procs()
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // a threaded group
		return nil, err
	}
	if len(pids) > 0 && !isTop(dir) {
		return nil, &Error{Op: "use", Object: dir, Err: errors.New("it holds processes, and so cannot delegate controllers"), Hint: DelegationHint}
	}
	return available, nil
}

// noControllers returns an error about a group without any wanted controller.
func noControllers(where string, available []string) error {
	text := "none"
	if len(available) > 0 {
		text = "only " + strings.Join(available, ", ")
	}
	return &Error{Op: "use", Object: where, Err: fmt.Errorf("%w: it has none of %s (it has %s)", ErrNoController, strings.Join(Wanted, ", "), text),
		Hint: "they may be bound to cgroup v1: start the kernel with systemd.unified_cgroup_hierarchy=1, or cgroup_no_v1=all"}
}

// intersect returns the words that are in the list, too.
func intersect(words, list []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !slices.Contains(list, w) })
}

// delegate returns the delegate in the base, with these controllers.
func (p *probe) delegate(controllers []string) Delegate {
	d := Delegate{Controllers: controllers}
	if p.base != nil {
		d.Dir = path.Join(p.dir, delegateName)
	}
	for _, name := range Wanted {
		if !slices.Contains(controllers, name) {
			d.Missing = append(d.Missing, p.missing(name))
		}
	}
	return d
}

// ensure opens a group inside this one, and makes it if it does not exist.
// Another process may do so at the same time.
func (g *Group) ensure(name string) (*Group, error) {
	child, err := g.Create(name)
	if errors.Is(err, unix.EEXIST) {
		return g.Child(name)
	}
	return child, err
}

// writable reports whether this process may make groups in a directory and move
// processes into them.
func writable(dir string) bool {
	for _, name := range []string{"", procsFile, subtreeFile} {
		if unix.Faccessat(unix.AT_FDCWD, path.Join(dir, name), unix.W_OK, unix.AT_EACCESS) != nil {
			return false
		}
	}
	return true
}

// missing returns why a controller is not available.
func (p *probe) missing(name string) Missing {
	m := Missing{Controller: name}
	text, _ := os.ReadFile("/proc/cgroups") // newer kernels may not have it
	known, v1, enabled := controllerState(string(text), name)
	top, atTop := p.top()
	switch {
	case known && v1:
		m.Why = "it is bound to a cgroup v1 hierarchy"
		m.Remedy = "start the kernel with systemd.unified_cgroup_hierarchy=1, or cgroup_no_v1=" + v1Name(name)
	case known && !enabled:
		m.Why = "it is disabled on the kernel's command line"
		m.Remedy = "remove cgroup_disable=" + v1Name(name) + " from the kernel's command line; if it is disabled by default, add cgroup_enable=" + v1Name(name)
	case atTop && !slices.Contains(top, name):
		m.Why = "this kernel does not offer it"
		m.Remedy = "use a kernel with " + kernelOption[name]
	case slices.Contains(p.available, name), p.base == nil && slices.Contains(top, name):
		m.Why = "no group here may delegate it"
		m.Remedy = DelegationHint
	default:
		m.Why = "the groups above do not delegate it"
		m.Remedy = administratorHint
	}
	return m
}

// top returns the controllers of the whole hierarchy, if the mount shows its root.
func (p *probe) top() ([]string, bool) {
	if p.mount == "" || !isTop(p.mount) {
		return nil, false
	}
	g, err := Open(p.mount)
	if err != nil {
		return nil, false
	}
	defer g.Close()
	have, err := g.Controllers()
	return have, err == nil
}

var kernelOption = map[string]string{
	"memory": "CONFIG_MEMCG", "cpu": "CONFIG_CGROUP_SCHED and CONFIG_CFS_BANDWIDTH", "pids": "CONFIG_CGROUP_PIDS", "io": "CONFIG_BLK_CGROUP",
}

// v1Name returns the name of a controller in version 1 and on the kernel's
// command line.
func v1Name(name string) string {
	if name == "io" {
		return "blkio"
	}
	return name
}

// controllerState finds a controller in the text of /proc/cgroups (cgroups(7)),
// whose lines have its name, the version 1 hierarchy that it is bound to or 0,
// the number of groups, and whether it is enabled.
func controllerState(text, name string) (known, v1, enabled bool) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == v1Name(name) {
			return true, f[1] != "0", f[3] == "1"
		}
	}
	return false, false, false
}
