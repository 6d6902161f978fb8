//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/wire"
)

// sandbox is a running sandbox, with the wire to its agent beside the library.
type sandbox struct {
	*paddock.Sandbox
	client wire.Client
}

// tap keeps the wall that the library is given.
type tap struct {
	backend.Backend
	wall backend.Sandbox
}

// Start is the backend's own.
func (t *tap) Start(ctx context.Context, req backend.Request) (backend.Sandbox, error) {
	wall, err := t.Backend.Start(ctx, req)
	t.wall = wall
	return wall, err
}

func (b *bench) open(ctx context.Context) (*sandbox, error) {
	t := &tap{Backend: linux.New()}
	spec := paddock.Spec{Workspace: paddock.Workspace{Source: b.workspace}}
	s, err := paddock.Open(ctx, spec, paddock.Options{Backend: t, Agent: b.agent, StateDir: b.state})
	if err != nil {
		return nil, err
	}
	return &sandbox{s, wire.Client{Dial: t.wall.Dial}}, nil
}

// exec runs /bin/true by one request on the wire.
func (s *sandbox) exec(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	r, err := s.client.Exec(ctx, wire.ExecRequest{Argv: []string{"/bin/true"}})
	took := time.Since(began)
	if err == nil && (r.ExitCode != 0 || r.Stdout != "" || r.Stderr != "" || !r.DeathProved) {
		err = fmt.Errorf("ended with %+v", r)
	}
	return took, err
}

// command runs /bin/true through the library.
func (s *sandbox) command(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	cmd := s.Command(ctx, "/bin/true")
	err := cmd.Run()
	took := time.Since(began)
	if err == nil && !cmd.Result().DeathProved {
		err = errors.New("the end of every process is not proved")
	}
	return took, err
}

// forkExec runs /bin/true beside us, with no pipe to read: the least that
// package os/exec can do.
func forkExec(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := exec.CommandContext(ctx, "/bin/true").Run()
	return time.Since(began), err
}

// forkExecCaptured reads both streams, as the wire does.
func forkExecCaptured(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	out, err := exec.CommandContext(ctx, "/bin/true").CombinedOutput()
	took := time.Since(began)
	if err == nil && len(out) != 0 {
		err = fmt.Errorf("printed %q", out)
	}
	return took, err
}

// measureWarm compares an exec in a running sandbox with one outside.
func measureWarm(ctx context.Context, b *bench) (err error) {
	s, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	base := &benchCase{name: "fork and exec from Go", run: forkExec}
	over := &benchCase{name: "exec over the wire", run: s.exec}
	cases := []*benchCase{
		over,
		{name: "Command.Run of the library, streamed", run: s.command},
		base,
		{name: "fork and exec from Go, output captured", run: forkExecCaptured},
	}
	rounds := b.rounds(1000, 200)
	if err := interleave(ctx, warmups, rounds, cases...); err != nil {
		return err
	}
	b.add(times(fmt.Sprintf("exec of /bin/true in a running sandbox, %d rounds", rounds), time.Microsecond, base, cases...),
		atMost("exec over the wire, to fork and exec from Go", ratio(over.sample.median(), base.sample.median()), 1.5, "×"))
	return nil
}
