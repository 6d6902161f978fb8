package service

import (
	"context"
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

// Start checks all that can be checked, starts the command, and waits
// until it is ready. A client that goes away changes nothing.
func (t *Table) Start(q *wire.StartServiceRequest) (*wire.Service, error) {
	own, werr := core.CommandEnv(q.Env)
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
	hidden, werr := t.box.Redactor(q.RedactValues, q.Redaction)
	if werr != nil {
		return nil, werr
	}
	if err := t.claim(name); err != nil {
		return nil, err
	}
	if q.ReadyUnused && ready != nil {
		if werr := ready.unused(); werr != nil {
			t.release(name, nil)
			return nil, werr
		}
	}
	program, dir, werr := t.command(q.Command, cwd, own)
	var s *service
	if werr == nil {
		defer dir.Close()
		s, werr = t.spawn(name, program, hidden)
	}
	if werr != nil {
		t.release(name, nil)
		return nil, werr
	}
	s.begin(q.Command, cwd, ready)
	t.release(name, s)
	go s.watch()
	if ready != nil {
		limit := time.Duration(min(max(0, q.ReadyTimeoutSeconds), math.MaxInt32) * float64(time.Second))
		interval := time.Duration(min(max(1, q.ReadyIntervalMS), math.MaxInt32)) * time.Millisecond
		s.awaitReady(ready, program, limit, interval)
	}
	return s.view(), nil
}

// command returns what the spawner needs, standard streams aside, and the
// handle of its directory, to be closed after its last use.
func (t *Table) command(command string, cwd core.Path, own map[string]string) (*clone.Command, beneath.Dir, *wire.Error) {
	if strings.IndexByte(command, 0) >= 0 {
		return nil, beneath.None, &wire.Error{Code: wire.CodeBadRequest, Object: "command", Message: "cannot start the service: a NUL byte cannot be part of a command"}
	}
	handle, err := t.box.WorkspaceDir.Walk(cwd.Names)
	if err != nil {
		return nil, beneath.None, &wire.Error{Code: wire.CodeBadCwd, Object: cwd.Text, Message: "cannot use " + cwd.Text + " as working directory: " + err.Error()}
	}
	dir := t.box.RealPath(cwd)
	c := &clone.Command{Path: "/bin/sh", Dir: dir, DirFD: handle.FD(), Umask: 0o022, Rlimits: t.box.Rlimits(nil)}
	for k, v := range t.box.BaseEnv(dir, own) {
		c.Env = append(c.Env, k+"="+v)
	}
	slices.Sort(c.Env)
	c.Argv = t.box.ShellArgv(command, c.Env)
	return c, handle, nil
}

// spawn starts the process of a service and the pumps of its output.
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
	go s.pump()
	return s, nil
}

// pump copies the service's output into its logs until it ends. What cannot
// be kept is dropped: the service must not wait for that.
func (s *service) pump() {
	var wg sync.WaitGroup
	for i, src := range []*os.File{s.stdio.Stdout, s.stdio.Stderr} {
		wg.Go(func() {
			hiding := s.redactor.Writer(s.logs[i])
			core.Drain(hiding, src)
			_ = hiding.Close()
		})
	}
	wg.Wait()
	close(s.drained)
}

// begin makes the record.
func (s *service) begin(command string, cwd core.Path, ready *readiness) {
	pid, now := s.process.PID, core.UnixTime(s.process.Started)
	r := record{Service: wire.Service{ServiceName: s.name, Command: command, Cwd: wire.Path(cwd.Text), State: stateRunning, StartedAt: now, PID: &pid}}
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
	s.table.removeStatus(s.name)
	s.save()
}

// leastLook is what every look at readiness is given, so that a timeout of 0
// still is one look.
const leastLook = 100 * time.Millisecond

// awaitReady looks at the service until it is ready, its end begins or the
// time is over, which ends it.
func (s *service) awaitReady(ready *readiness, program *clone.Command, limit, interval time.Duration) {
	deadline := time.Now().Add(limit)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-s.process.Done:
		case <-s.stopping:
		case <-ctx.Done():
		}
	}()
	for {
		look, done := context.WithTimeout(ctx, min(ready.limit, max(leastLook, time.Until(deadline))))
		ok := ready.look(look, program)
		done()
		switch {
		case ok && s.setReady():
			return
		case ctx.Err() != nil:
			s.await()
			return
		case !time.Now().Before(deadline):
			s.stop(stateFailed, "readiness_timeout")
			s.await()
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(interval, max(0, time.Until(deadline)))):
		}
	}
}
