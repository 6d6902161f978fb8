package agent

import (
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/exec"
	"github.com/paddock-dev/paddock/agent/internal/files"
	"github.com/paddock-dev/paddock/agent/internal/job"
	"github.com/paddock-dev/paddock/agent/internal/service"
	"github.com/paddock-dev/paddock/agent/internal/session"
	"github.com/paddock-dev/paddock/agent/internal/shell"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Agent serves the clients of one sandbox.
type Agent struct {
	*core.Sandbox
	files    *files.Workspace
	secrets  *files.Secrets
	jobs     *job.Table
	shells   *shell.Table
	sessions *session.Table
	services *service.Table
	actions  map[string]handler // by name

	scratch     string // the private directory of a guest, if it has one
	isolation   policy.Isolation
	connections connections
	lines       lineRoom
	decoding    sync.Mutex  // held while a long request line is decoded
	token       []byte      // that requests must bring, nil if none is required
	standalone  *standalone // nil inside walls
}

// newAgent returns an agent that runs commands in box and keeps the state of
// shells and services in the two directories.
func newAgent(box *core.Sandbox, workspace *files.Workspace, secrets *files.Secrets, shellState, serviceState core.StateDir) *Agent {
	a := &Agent{Sandbox: box, files: workspace, secrets: secrets,
		jobs: job.New(box), shells: shell.New(box, shellState), sessions: session.New(box), services: service.New(box, serviceState)}
	a.actions = a.table()
	return a
}

// hello returns what this agent is, can do and allows.
func (a *Agent) hello(*wire.HelloRequest) (*wire.HelloResult, error) {
	r := &wire.HelloResult{
		Version:  wire.Version,
		Build:    wire.Build,
		Features: wire.Features(),
		Limits: wire.Bounds{MaxLine: wire.MaxLine, MaxFrame: wire.MaxFrame, StdinWindow: wire.StdinWindow,
			MaxOutput: exec.MaxOutput, MaxConnections: maxConnections},
		Redaction: a.Rules.Names(), Kill: a.Trees.Means(),
	}
	if a.standalone == nil { // there are walls
		r.Isolation = a.isolation
	}
	return r, nil
}

// usage returns the running commands, and which resources they and the agent itself use.
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

// standalone is the state of a standalone agent, which a client may shut down.
type standalone struct {
	listeners []net.Listener
	ending    chan struct{} // closed when the shutdown begins
	once      sync.Once
	result    wire.ShutdownResult // of the once
}

// close stops accepting; sockets in the file system are removed.
func (s *standalone) close() {
	for _, ln := range s.listeners {
		_ = ln.Close()
	}
}

// shutdown serves the action shutdown. Its answer is written before the agent ends.
func (a *Agent) shutdown(*wire.ShutdownRequest) (*wire.ShutdownResult, error) {
	if a.standalone == nil {
		return nil, &wire.Error{Code: wire.CodeUnsupported, Object: wire.Shutdown.Name,
			Message: "cannot shut down: the sandbox belongs to who started it", Hint: "close the sandbox"}
	}
	r := a.end()
	return &r, nil
}

// endGrace is how long commands may take to end when the agent shuts down.
const endGrace = 5 * time.Second

// end stops accepting and ends every descendant of the agent, by SIGTERM first.
// Every caller waits for that and gets the same result.
func (a *Agent) end() wire.ShutdownResult {
	s := a.standalone
	s.once.Do(func() {
		close(s.ending)
		s.close()
		a.Reaper.Close()
		all := a.Trees.Everything()
		for _, e := range a.Running.All() {
			if e.Kind == "shell" { // interactive shells ignore SIGTERM
				e.With(func(p *spawn.Process) { _ = a.Reaper.Signal(p, p.PID, unix.SIGHUP) })
			}
		}
		deadline := time.Now().Add(endGrace)
		members, _, _ := a.Trees.Members(all)
		for _, p := range members {
			_ = unix.PidfdSendSignal(p.PIDFD, unix.SIGTERM, nil, 0)
			_ = unix.PidfdSendSignal(p.PIDFD, unix.SIGCONT, nil, 0) // a stopped process cannot end
			unix.Close(p.PIDFD)
		}
		if s.result.DeathProved = a.Trees.Await(all, deadline); !s.result.DeathProved {
			s.result.Killed, s.result.DeathProved = a.Trees.Kill(all)
		}
	})
	return s.result
}

// redactTexts replaces secrets in texts, as in everything that leaves the sandbox.
func (a *Agent) redactTexts(q *wire.RedactTextsRequest) (*wire.RedactTextsResult, error) {
	hidden := a.OnlySecrets()
	r := &wire.RedactTextsResult{Texts: make([]string, len(q.Texts))}
	for i, text := range q.Texts {
		r.Texts[i] = hidden.OnlyValues(text)
	}
	return r, nil
}
