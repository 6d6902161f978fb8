package agent

import (
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/wire"
)

// usage says what runs now, and what that and the agent take.
func (a *Agent) usage(*wire.UsageRequest) (*wire.UsageResult, error) {
	res := &wire.UsageResult{Trees: []wire.TreeUsage{}, Agent: a.trees.Own(), Sandbox: a.spawner.Usage()}
	res.Agent.Connections = a.connections.count()
	for _, e := range a.running.all() {
		e.with(func(p *spawn.Process) {
			t := wire.TreeUsage{ID: e.id, Kind: e.kind, Name: e.name, PID: a.trees.InnerPID(p.PID),
				StartedAt: unixTime(p.Started)}
			a.trees.Meter(p.Mark, &t)
			res.Trees = append(res.Trees, t)
		})
	}
	return res, nil
}
