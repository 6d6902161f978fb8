//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/cgroup/systemd"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

// wantsScope says whether the service manager is to be asked for a control
// group: where the caller has no part of the hierarchy, and the spec has limits
// that only a group keeps. It takes tens of milliseconds.
func wantsScope(h hierarchy, l policy.Limits) bool {
	return errors.Is(h.why, cgroup.ErrNoPlace) && (l.Memory > 0 || l.MemoryHigh > 0 || l.CPUs > 0)
}

// enterScope has the service manager move the new agent, which is held before
// its program, into a scope of its own. Where it does not, the limits that
// need it are refused, and say why.
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

// withoutScope is why there is no place for groups, and why the service manager
// did not make one.
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

// controlOf makes a sandbox's groups in one that is delegated to it alone. The
// service manager removes it with its last process.
func controlOf(name string) (c *control, place cgroup.Place, err error) {
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
		return c, place, &cgroup.Error{Op: "use", Object: dir, Err: fmt.Errorf("%w: the service manager hands none on to users", cgroup.ErrNoController), Hint: cgroup.DelegationHint}
	}
	if c.agent, err = c.group.Create(confine.AgentGroup); err != nil {
		return c, place, err
	}
	c.work, err = c.group.Create(confine.WorkGroup)
	return c, place, err
}

// lookForScope says what a scope would have, as far as that can be told
// without asking for one: what the user's own manager has been handed.
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
