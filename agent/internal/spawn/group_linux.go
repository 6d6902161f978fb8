package spawn

import (
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/wire"
)

// groups makes a control group for each command's tree, below the work group, on
// which the host side has set the limits of all commands together. The agent
// itself is in another group, so that the commands' limits do not apply to it.
type groups struct {
	work      *cgroup.Group
	throttled bool              // there is a limit of processor time per time
	filter    []unix.SockFilter // denies clone3(2), which only the spawner needs
	made      atomic.Uint64
}

// openGroups opens the work group if the plan has opened the sandbox's group. It must
// be called before the thread is confined: commands get all access that Landlock leaves
// to this thread.
func openGroups(a *confine.Applier, plan *confine.Plan) (*groups, *confine.Error) {
	if a.Cgroup == 0 {
		return nil, nil
	}
	root := cgroup.FromFD(a.Cgroup)
	defer root.Close()
	work, err := root.Child(confine.WorkGroup)
	if err != nil {
		return nil, &confine.Error{Stage: "setup", Op: "cgroup", Object: confine.WorkGroup, Cause: err.Error()}
	}
	return &groups{work: work, throttled: plan.Holds.Limits["cpus"] != "", filter: confine.NoClone3()}, nil
}

// treeGroup is the control group of one command's tree.
type treeGroup struct {
	*cgroup.Group
	all    *groups
	waited time.Duration // by all commands, before this one began
}

// create makes the group of the command that is cloned next.
func (g *groups) create() (*treeGroup, error) {
	child, err := g.work.Create("e" + strconv.FormatUint(g.made.Add(1), 10))
	if err != nil {
		return nil, err
	}
	// A kernel that cannot end a group as a whole ends its largest process.
	_ = child.Set(cgroup.Limits{OOMGroup: true})
	return &treeGroup{child, g, g.waited()}, nil
}

// waited returns how long all commands together have waited for processor time
// because of the limit, which the kernel counts in the group that has the limit.
func (g *groups) waited() time.Duration {
	if !g.throttled {
		return 0
	}
	s, err := g.work.Stats()
	if err != nil || s.CPU == nil || s.CPU.Waited == nil {
		return 0
	}
	return *s.CPU.Waited
}

// Stats returns the tree's use of resources. It is empty without a group.
func (m Mark) Stats() (s cgroup.Stats) {
	if m.group == nil {
		return s
	}
	s, _ = m.group.Stats()
	if waited := m.group.all.waited() - m.group.waited; s.CPU != nil && waited > 0 {
		s.CPU.Waited = &waited
	}
	return s
}

// Usage returns what all commands together use, as their group counts it, nil
// without a group.
func (s *Spawner) Usage() *wire.GroupUsage {
	g := s.groups
	if g == nil {
		return nil
	}
	stats, err := g.work.Stats()
	if err != nil {
		return nil
	}
	u := &wire.GroupUsage{}
	if m := stats.Memory; m != nil {
		u.MemoryBytes, u.OOMKills, u.MemoryHighEvents = &m.Current, &m.OOMKills, &m.High
		u.PeakMemoryBytes, u.SwapBytes = m.Peak, m.Swap
	}
	if c := stats.CPU; c != nil {
		user, system := c.User.Milliseconds(), c.System.Milliseconds()
		u.UserCPUMS, u.SystemCPUMS = &user, &system
		if c.Waited != nil {
			waited := c.Waited.Milliseconds()
			u.ThrottledMS = &waited
		}
	}
	if p := stats.Pids; p != nil {
		u.Processes, u.ProcessesPeak, u.ForksRefused = &p.Current, p.Peak, &p.Refused
	}
	if io := stats.IO; io != nil {
		u.IOReadBytes, u.IOWriteBytes = &io.ReadBytes, &io.WriteBytes
	}
	if p := stats.Pressure; p != nil {
		u.Pressure = map[string]wire.Stall{}
		for name, stall := range map[string]*cgroup.Stall{"cpu": p.CPU, "memory": p.Memory, "io": p.IO} {
			if stall != nil {
				u.Pressure[name] = wire.Stall{SomeAvg10: stall.SomeAvg10, SomeMS: int64(stall.SomeTotal / time.Millisecond),
					FullAvg10: stall.FullAvg10, FullMS: int64(stall.FullTotal / time.Millisecond)}
			}
		}
	}
	return u
}
