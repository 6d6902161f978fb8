//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/cgroup/systemd"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

// control is a sandbox's own control group:
//
//	<id>/agent    the agent and the commands' init, without limits
//	<id>/work     has the limits of all commands; the agent makes a group for each command in it
//
// So a memory bomb kills commands, but not the agent.
type control struct {
	dir    string
	parent *cgroup.Group
	group  *cgroup.Group
	agent  *cgroup.Group
	work   *cgroup.Group
}

// groupName returns the name of a sandbox's group.
func groupName(id string) string { return "paddock-" + id }

// newControl makes the groups. The sandbox's identity may then make groups in work
// and start processes there, but not change the limits.
func newControl(h hierarchy, name string, id identity) (c *control, err error) {
	c = &control{dir: filepath.Join(h.place.Dir, name)}
	defer func() {
		if err != nil {
			c.remove()
			c, err = nil, backend.Failed("cgroup", "create", filepath.Join(h.place.Dir, name), err, cgroupHint(err))
		}
	}()
	if c.parent, err = cgroup.Open(h.place.Dir); err != nil {
		return c, err
	}
	if c.group, err = c.parent.Create(name); err != nil {
		return c, err
	}
	if c.agent, err = c.group.Create(confine.AgentGroup); err != nil {
		return c, err
	}
	if c.work, err = c.group.Create(confine.WorkGroup); err != nil {
		return c, err
	}
	if os.Geteuid() != 0 {
		return c, nil // the caller's id, which is the sandbox's too, owns all of it
	}
	for _, file := range []string{"cgroup.procs", confine.WorkGroup, confine.WorkGroup + "/cgroup.procs"} {
		if err = unix.Fchownat(c.group.FD(), file, int(id.uid), int(id.gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return c, fmt.Errorf("cannot hand over %s: %w", file, err)
		}
	}
	return c, nil
}

// settle sets the commands' limits, once the agent and its init have started in the
// group. A group with processes in it cannot delegate controllers, so they first
// move into a separate one.
func (c *control) settle(h hierarchy, limits confine.GroupLimits) (err error) {
	defer func() {
		if err != nil {
			err = backend.Failed("cgroup", "bound", c.dir, err, cgroupHint(err))
		}
	}()
	agent, err := c.group.Vacate(confine.AgentGroup)
	if err != nil {
		return err
	}
	_ = agent.Close()
	for _, g := range []*cgroup.Group{c.group, c.work} {
		got, err := g.Enable(h.place.Controllers...)
		if len(got) < len(h.place.Controllers) {
			return errors.Join(err, fmt.Errorf("the group %s delegates %v, and %v is needed", g.Name(), got, h.place.Controllers))
		}
	}
	return c.work.Set(cgroup.Limits{MemoryMax: limits.MemoryMax, MemoryHigh: limits.MemoryHigh, SwapMax: limits.SwapMax,
		MilliCPUs: limits.MilliCPUs, Pids: limits.Pids})
}

// kill ends every process of the sandbox, whatever the agent does.
func (c *control) kill() {
	if c != nil && c.group != nil {
		_ = c.group.Kill()
	}
}

// awaitEmpty reports whether every process of the sandbox ends within the limit.
func (c *control) awaitEmpty(limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return c.group.WaitEmpty(ctx) == nil
}

// remove removes the groups. If a process still lives in one, the next start
// removes it.
func (c *control) remove() {
	if c == nil {
		return
	}
	if c.parent != nil && c.group != nil {
		_ = c.parent.Remove(filepath.Base(c.dir))
	}
	c.close()
}

// close closes the handles of the groups.
func (c *control) close() {
	for _, g := range []*cgroup.Group{c.work, c.agent, c.group, c.parent} {
		if g != nil {
			_ = g.Close()
		}
	}
}

// removeGroup removes the group that a killed process left behind.
func removeGroup(dir string) {
	parent, err := cgroup.Open(filepath.Dir(dir))
	if err != nil {
		return
	}
	defer parent.Close()
	if left, err := parent.Child(filepath.Base(dir)); err == nil {
		c := &control{group: left}
		c.kill()
		c.awaitEmpty(2 * time.Second)
		_ = left.Close()
	}
	_ = parent.Remove(filepath.Base(dir))
}

// cgroupHint returns the advice that a cgroup error carries.
func cgroupHint(err error) string {
	var e *cgroup.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// wantsScope reports whether to ask the service manager for a control group, which
// takes tens of milliseconds: if the caller has no part of the hierarchy, and the
// spec has limits that only a group can enforce.
func wantsScope(h hierarchy, l policy.Limits) bool {
	return errors.Is(h.why, cgroup.ErrNoDelegate) && (l.Memory > 0 || l.MemoryHigh > 0 || l.CPUs > 0)
}

// enterScope asks the service manager to move the new agent, which has not executed its
// program yet, into a new scope. If that fails, the limits that need a group are refused
// later, with the reason.
func (l *launch) enterScope(ctx context.Context, pid int) {
	unit := groupName(l.dir.ID) + ".scope"
	group, err := systemd.Start(ctx, systemd.Scope{Unit: unit, Description: "Paddock sandbox " + l.dir.ID, PIDs: []int{pid}})
	if err == nil {
		l.group, l.groups.place, err = controlOf(group)
	}
	if err != nil {
		l.groups.why = withoutScope(l.groups.why, err)
		return
	}
	l.groups.why = nil
	l.dir.group = l.group.dir
}

// withoutScope returns the error for a missing place for groups, with the reason why the
// service manager did not make one.
func withoutScope(why, err error) error {
	var place *cgroup.Error
	if !errors.As(why, &place) {
		return err
	}
	hint := place.Hint
	if more := cgroupHint(err); more != "" && more != hint {
		hint = more + "; or " + hint
	}
	return &cgroup.Error{Op: place.Op, Object: place.Object, Err: fmt.Errorf("%w; %w", place.Err, err), Hint: hint}
}

// controlOf makes a sandbox's groups in one that is delegated to this sandbox alone.
// The service manager removes that group when its last process has ended.
func controlOf(name string) (c *control, place cgroup.Delegate, err error) {
	m, err := cgroup.Find()
	if err != nil {
		return nil, place, err
	}
	dir, err := m.Dir(name)
	if err != nil {
		return nil, place, err
	}
	c = &control{dir: dir}
	defer func() {
		if err != nil {
			c.remove()
			c = nil
		}
	}()
	if c.group, err = cgroup.Open(dir); err != nil {
		return c, place, err
	}
	have, err := c.group.Controllers()
	if err != nil {
		return c, place, err
	}
	place.Dir = filepath.Dir(dir)
	place.Controllers = slices.DeleteFunc(slices.Clone(cgroup.Wanted), func(w string) bool { return !slices.Contains(have, w) })
	if len(place.Controllers) == 0 {
		return c, place, &cgroup.Error{Op: "use", Object: dir, Err: fmt.Errorf("%w: the service manager delegates none to users", cgroup.ErrNoController), Hint: cgroup.DelegationHint}
	}
	if c.agent, err = c.group.Create(confine.AgentGroup); err != nil {
		return c, place, err
	}
	c.work, err = c.group.Create(confine.WorkGroup)
	return c, place, err
}

// lookForScope returns the hierarchy that a scope would give, without asking for a
// scope: it has the controllers that are delegated to the user's service manager.
func lookForScope(h hierarchy) hierarchy {
	m, err := cgroup.Find()
	if err != nil {
		return h
	}
	uid := os.Getuid()
	manager, err := cgroup.Open(fmt.Sprintf("%s/user.slice/user-%d.slice/user@%d.service", m.Path, uid, uid))
	if err != nil {
		return h
	}
	defer manager.Close()
	have, err := manager.Controllers()
	if err != nil {
		return h
	}
	for _, c := range cgroup.Wanted {
		if slices.Contains(have, c) {
			h.place.Controllers = append(h.place.Controllers, c)
		}
	}
	if len(h.place.Controllers) > 0 {
		h.place.Dir, h.why = m.Path+"/user.slice (by a scope of the service manager)", nil
	}
	return h
}
