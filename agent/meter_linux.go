package agent

import (
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/wire"
)

// usage says what runs now, and what that and the agent take.
func (a *Agent) usage(*wire.UsageRequest) (*wire.UsageResult, error) {
	res := &wire.UsageResult{Trees: []wire.TreeUsage{}, Agent: a.Trees.Own(), Sandbox: a.Spawner.Usage()}
	res.Agent.Connections = a.connections.count()
	for _, e := range a.Running.All() {
		e.With(func(p *spawn.Process) {
			t := wire.TreeUsage{ID: e.ID, Kind: e.Kind, Name: e.Name, PID: a.Trees.InnerPID(p.PID),
				StartedAt: core.UnixTime(p.Started)}
			a.Trees.Meter(p.Mark, &t)
			res.Trees = append(res.Trees, t)
		})
	}
	return res, nil
}
