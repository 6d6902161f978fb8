package namespace

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/paddock-dev/paddock/cgroup"
)

// groupPrefix begins the names of control groups of commands.
const groupPrefix = "paddock-namespace-"

// group is the control group of one command, inside of the caller's. It needs
// no controller: it is there to be killed as a whole.
type group struct {
	*cgroup.Group
	parent *cgroup.Group
}

// newGroup makes one; nil where none can be made. What killed processes left
// behind is removed.
func newGroup() *group {
	m, err := cgroup.Find()
	if err != nil {
		return nil
	}
	own, err := cgroup.Own()
	if err != nil {
		return nil
	}
	dir, err := m.Dir(own)
	if err != nil {
		return nil
	}
	parent, err := cgroup.Open(dir)
	if err != nil {
		return nil
	}
	_, _ = parent.SweepEmpty(groupPrefix) // another will
	g, err := parent.Create(groupPrefix + rand.Text())
	if err != nil {
		_ = parent.Close()
		return nil
	}
	return &group{g, parent}
}

// kill is for a helper that cannot do it any more. It says whether all are dead.
func (g *group) kill() bool {
	if g == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return g.Kill() == nil && g.WaitEmpty(ctx) == nil
}

// remove removes it. One that is not empty is left to the next sweep.
func (g *group) remove() {
	if g == nil {
		return
	}
	_ = g.Group.Close() // first: as long as it is held no sweep takes it
	deadline := time.Now().Add(time.Second)
	for g.parent.Remove(g.Name()) != nil && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond) // the kernel counts the dead a moment longer
	}
	_ = g.parent.Close()
}
