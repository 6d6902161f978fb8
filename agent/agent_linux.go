package agent

import (
	"sync"
	"time"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/files"
	"github.com/paddock-dev/paddock/agent/internal/service"
	"github.com/paddock-dev/paddock/agent/internal/session"
	"github.com/paddock-dev/paddock/agent/internal/shell"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Bounds of one agent.
const (
	// maxConnections is how many connections are served at a time; one more
	// is told so and closed.
	maxConnections = 512
	// maxProcessors bounds the agent's own parallelism; the machine is for commands.
	maxProcessors = 4
	// requestTimeout is how long a client may take to send a request line.
	requestTimeout = 30 * time.Second
	// idleTimeout is how long a kept-alive connection may stay silent.
	idleTimeout = 5 * time.Minute
	// endGrace is how long what runs may take to end when the agent is to end.
	endGrace = 5 * time.Second
	// lastWords is how long answers may take to leave when the agent ends.
	lastWords = 2 * time.Second
)

// Agent serves the clients of one sandbox.
type Agent struct {
	*core.Sandbox
	files    *files.Workspace
	secrets  *files.Secrets
	shells   *shell.Table
	sessions *session.Table
	services *service.Table
	actions  map[string]handler // by name

	scratch     string // the private directory of a guest, if it has one
	isolation   policy.Isolation
	connections connections
	room        lineRoom
	decoding    sync.Mutex // held while a long request line is decoded
	token       []byte     // that requests must bring, nil where none is asked for
	life        *life      // of an agent on its own, nil inside walls
}

// newAgent returns an agent that runs commands in box and keeps the state of
// shells and services in the two directories.
func newAgent(box *core.Sandbox, workspace *files.Workspace, secrets *files.Secrets, shellState, serviceState core.StateDir) *Agent {
	a := &Agent{Sandbox: box, files: workspace, secrets: secrets,
		shells: shell.New(box, shellState), sessions: session.New(box), services: service.New(box, serviceState)}
	a.actions = a.table()
	return a
}

// usage returns what runs now, and what that and the agent itself use.
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
