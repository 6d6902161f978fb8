//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/confine"
)

// control is a sandbox's own control group:
//
//	<id>/agent    the agent and the commands' init, unbounded
//	<id>/work     what bounds all commands; the agent makes a group for each in it
//
// A memory bomb then takes commands and not the agent.
type control struct {
	dir    string
	parent *cgroup.Group
	group  *cgroup.Group
	agent  *cgroup.Group
	work   *cgroup.Group
}

// groupName is the name of a sandbox's group.
func groupName(id string) string { return "paddock-" + id }

// newControl makes the groups, and gives to the sandbox's identity what it
// takes to make others in work and to start processes there. The limits
// themselves stay out of its hands.
func newControl(h hierarchy, name string, id identity) (c *control, err error) {
	c = &control{dir: filepath.Join(h.place.Dir, name)}
	defer func() {
		if err != nil {
			c.remove()
			c, err = nil, fail("cgroup", "create", filepath.Join(h.place.Dir, name), err, cgroupHint(err))
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
	if !isRoot() {
		return c, nil // all of it is the caller's, and so the sandbox's
	}
	for _, file := range []string{"cgroup.procs", confine.WorkGroup, confine.WorkGroup + "/cgroup.procs"} {
		if err = unix.Fchownat(c.group.FD(), file, int(id.uid), int(id.gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return c, fmt.Errorf("cannot hand over %s: %w", file, err)
		}
	}
	return c, nil
}

// settle bounds the commands, once the agent and its init have begun their
// lives in the group: a group that holds processes hands no controllers on, so
// they move into one of their own first.
func (c *control) settle(h hierarchy, limits cgroup.Limits) error {
	err := c.settleAll(h, limits)
	if err != nil {
		return fail("cgroup", "bound", c.dir, err, cgroupHint(err))
	}
	return nil
}

func (c *control) settleAll(h hierarchy, limits cgroup.Limits) error {
	agent, err := c.group.Vacate(confine.AgentGroup)
	if err != nil {
		return err
	}
	_ = agent.Close()
	for _, g := range []*cgroup.Group{c.group, c.work} {
		got, err := g.Enable(h.place.Controllers...)
		if len(got) < len(h.place.Controllers) {
			return errors.Join(err, fmt.Errorf("the group %s hands on %v, and %v is needed", g.Name(), got, h.place.Controllers))
		}
	}
	return c.work.Set(limits)
}

// kill ends every process of the sandbox, whatever the agent does.
func (c *control) kill() {
	if c != nil && c.group != nil {
		_ = c.group.Kill()
	}
}

// awaitEmpty says whether every process of the sandbox has ended, or does so
// within a time.
func (c *control) awaitEmpty(limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return c.group.WaitEmpty(ctx) == nil
}

// remove gives the groups back. A group in which a process still lives stays
// for the next start to remove.
func (c *control) remove() {
	if c == nil {
		return
	}
	if c.parent != nil && c.group != nil {
		_ = c.parent.Remove(c.group.Name())
	}
	for _, g := range []*cgroup.Group{c.work, c.agent, c.group, c.parent} {
		if g != nil {
			_ = g.Close()
		}
	}
}

// removeGroup removes the group that a killed process has left.
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

// cgroupHint is the advice that a cgroup error carries.
func cgroupHint(err error) string {
	var e *cgroup.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}
