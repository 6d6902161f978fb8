//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/docker"
	"github.com/paddock-dev/paddock/internal/testkit/engines"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// measureEngine compares an exec in a running container with what the engine
// itself offers for it.
func measureEngine(ctx context.Context, b *bench) (err error) {
	const promised = "exec in a running docker sandbox"
	e, err := engines.Docker(ctx)
	if err != nil {
		b.add(table{Title: "exec of /bin/true in a running container", Rows: []row{{Name: promised, Absent: err.Error()}}},
			promise{Name: promised, Bound: "≤", Limit: 5, Unit: "ms", Absent: err.Error()})
		return nil
	}
	defer e.Close()
	defer findable(e)()
	s, err := b.openContainer(ctx, e)
	if err != nil {
		return err
	}
	defer func() {
		_, stopErr := s.Stop(context.WithoutCancel(ctx), time.Second)
		err = errors.Join(err, stopErr)
	}()
	const name = "paddock-bench-peer"
	if _, err := e.Run(ctx, nil, "run", "--detach", "--rm", "--network", "none", "--name", name, engines.Shell, "/bin/sleep", "3600"); err != nil {
		return err
	}
	defer func() { _, _ = e.Run(context.WithoutCancel(ctx), nil, "rm", "--force", name) }()
	client := sandbox{client: wire.Client{Dial: s.Dial}}
	ours := &benchCase{name: promised, run: client.exec}
	peer := &benchCase{name: "docker exec", run: func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		out, err := exec.CommandContext(ctx, e.Binary, "exec", name, "/bin/true").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return time.Since(began), err
	}}
	rounds := b.rounds(200, 30)
	if err := interleave(ctx, warmups, rounds, ours, peer); err != nil {
		return err
	}
	b.add(times(fmt.Sprintf("exec of /bin/true in a running container, %d rounds", rounds), time.Microsecond, peer, ours, peer),
		atMost(promised, float64(ours.sample.median())/float64(time.Millisecond), 5, "ms"))
	return nil
}

// findable makes an engine the one that the backend finds, as a user's would
// be, until the function that it returns is called.
func findable(e *engines.Engine) (undo func()) {
	for _, kv := range e.Env {
		name, value, _ := strings.Cut(kv, "=")
		_ = os.Setenv(name, value)
	}
	return func() {
		for _, kv := range e.Env {
			name, _, _ := strings.Cut(kv, "=")
			_ = os.Unsetenv(name)
		}
	}
}

// openContainer starts a sandbox of the docker backend.
func (b *bench) openContainer(ctx context.Context, e *engines.Engine) (backend.Sandbox, error) {
	spec, err := paddock.Spec{Backend: policy.BackendDocker, Workspace: paddock.Workspace{Source: b.workspace},
		Docker: &policy.Docker{Binary: e.Binary, Image: engines.Shell, ExtraRunArgs: e.RunArgs}}.Resolve(policy.Base{Dir: "/"})
	if err != nil {
		return nil, err
	}
	return docker.New().Start(ctx, backend.Request{Spec: spec, Agent: b.agent, StateDir: b.state})
}
