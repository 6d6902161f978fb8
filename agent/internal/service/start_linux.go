package service

import (
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/wire"
)

// Start checks the request, starts the command, and waits until it is ready. It
// continues if the client disconnects.
func (t *Table) Start(q *wire.StartServiceRequest) (*wire.Service, error) {
	env, secrets, werr := t.box.WithSecrets(q.Env, q.SecretEnv)
	if werr != nil {
		return nil, werr
	}
	own, werr := core.CommandEnv(env)
	if werr != nil {
		return nil, werr
	}
	name, err := checkName(q.ServiceName)
	if err != nil {
		return nil, err
	}
	cwd, werr := core.ParsePath(string(q.Cwd))
	if werr != nil {
		return nil, werr
	}
	ready, err := t.parseReadiness(q.Readiness)
	if err != nil {
		return nil, err
	}
	hidden, werr := t.box.Redactor(slices.Concat(q.RedactValues, secrets), q.Redaction)
	if werr != nil {
		return nil, werr
	}
	if err := t.reserve(name); err != nil {
		return nil, err
	}
	if q.ReadyUnused && ready != nil {
		if werr := ready.unused(); werr != nil {
			t.release(name, nil)
			return nil, werr
		}
	}
	program, dir, werr := t.command(string(q.Command), cwd, own)
	var s *service
	if werr == nil {
		defer dir.Close()
		s, werr = t.spawn(name, program, hidden)
	}
	if werr != nil {
		t.release(name, nil)
		return nil, werr
	}
	s.writeRecord(string(q.Command), cwd, ready)
	t.release(name, s)
	go s.watch()
	if ready != nil {
		limit := time.Duration(min(max(0, q.ReadyTimeoutSeconds), math.MaxInt32) * float64(time.Second))
		interval := time.Duration(min(max(1, q.ReadyIntervalMS), math.MaxInt32)) * time.Millisecond
		s.awaitReady(ready, program, limit, interval)
	}
	return s.view(), nil
}

// command returns what the spawner needs, without the standard streams, and the
// handle of the working directory, to be closed after its last use.
func (t *Table) command(command string, cwd core.Path, own map[string]string) (*clone.Command, beneath.Dir, *wire.Error) {
	if strings.IndexByte(command, 0) >= 0 {
		return nil, beneath.None, &wire.Error{Code: wire.CodeBadRequest, Object: "command", Message: "cannot start the service: a NUL byte cannot be part of a command"}
	}
	handle, err := t.box.WorkspaceDir.Walk(cwd.Names)
	if err != nil {
		return nil, beneath.None, &wire.Error{Code: wire.CodeBadCwd, Object: cwd.Text, Message: "cannot use " + cwd.Text + " as working directory: " + err.Error()}
	}
	dir := t.box.RealPath(cwd)
	c := &clone.Command{Path: "/bin/sh", Dir: dir, DirFD: handle.FD(), Umask: 0o022, Rlimits: t.box.Rlimits(nil), Env: core.AsList(t.box.BaseEnv(dir, own))}
	c.Argv = t.box.ShellArgv(command, c.Env)
	return c, handle, nil
}

// spawn starts the process of a service, and begins to copy its output into its logs.
func (t *Table) spawn(name string, program *clone.Command, hidden *core.Redactor) (*service, *wire.Error) {
	streams, err := spawn.NewPipes(false, nil)
	if err != nil {
		return nil, wire.Errorf(wire.CodeStart, "cannot start the service: cannot make its standard streams: %v", err)
	}
	c := *program
	c.Env, c.Files = slices.Clone(c.Env), streams.Child[:]
	p, err := t.box.Spawner.Start(&c)
	streams.CloseChild()
	if err != nil {
		streams.CloseAll()
		return nil, core.StartError(c.Argv[0], c.Dir, err)
	}
	s := &service{
		name: name, table: t, box: t.box, process: p, stdio: streams, redactor: hidden,
		id:   t.box.Running.Add("service", name, p),
		logs: [2]*logFile{newLogFile(t.dir(), name+".stdout"), newLogFile(t.dir(), name+".stderr")}, drained: make(chan struct{}),
		stopping: make(chan struct{}), ended: make(chan struct{}),
	}
	var wg sync.WaitGroup
	for i, src := range []*os.File{streams.Stdout, streams.Stderr} {
		wg.Go(func() {
			hiding := hidden.Writer(s.logs[i])
			core.Drain(hiding, src)
			_ = hiding.Close()
		})
	}
	go func() {
		wg.Wait()
		close(s.drained)
	}()
	return s, nil
}

// writeRecord makes and saves the record of a service that has been started.
func (s *service) writeRecord(command string, cwd core.Path, ready *readiness) {
	pid, now := s.process.PID, core.UnixTime(s.process.Started)
	r := record{Service: wire.Service{ServiceName: s.name, Command: command, Cwd: wire.OSString(cwd.Text), State: stateRunning, StartedAt: now, PID: &pid}}
	if born := s.box.Trees.Born(pid); born != 0 {
		r.Born, r.Mark = born, s.process.Mark.Number
	}
	if ready != nil {
		r.Readiness = ready.text
	} else {
		r.ReadyAt = &now
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record = hideRecord(r, s.redactor.Text)
	s.table.removeFile(s.name + ".status") // of an earlier service with this name
	s.save()
}
