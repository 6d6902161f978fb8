//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// guest is an agent without walls, as it serves in a virtual machine.
type guest struct {
	cmd       *exec.Cmd
	client    wire.Client
	workspace string
	problems  strings.Builder
}

// guestPatience is how long an agent may take to serve, or to end.
const guestPatience = 10 * time.Second

// startGuest starts an agent with directories of its own.
func (b *bench) startGuest(ctx context.Context) (*guest, error) {
	dir, err := os.MkdirTemp(b.dir, "guest-")
	if err != nil {
		return nil, err
	}
	g := &guest{workspace: filepath.Join(dir, "workspace")}
	socket := filepath.Join(dir, "sock")
	g.cmd = exec.CommandContext(ctx, b.agent, "--listen", "unix://"+socket, "--workspace", g.workspace,
		"--shell-root", dir+"/shells", "--service-root", dir+"/services", "--secret-root", dir+"/secrets")
	g.cmd.Stderr = &g.problems
	g.cmd.Cancel = func() error { return g.cmd.Process.Signal(os.Interrupt) }
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	var d net.Dialer
	g.client.Dial = func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) }
	for deadline := time.Now().Add(guestPatience); ; time.Sleep(time.Millisecond) {
		_, err := g.client.Hello(ctx)
		if err == nil {
			return g, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the agent does not serve: %w", errors.Join(err, g.stop()))
		}
	}
}

// stop ends the agent, which must not have complained.
func (g *guest) stop() error {
	_ = g.cmd.Process.Signal(os.Interrupt)
	err := g.cmd.Wait()
	if err == nil && g.problems.Len() > 0 {
		err = errors.New("it said " + g.problems.String())
	}
	return err
}

// exec runs /bin/true by one request on the wire.
func (g *guest) exec(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	r, err := g.client.Exec(ctx, wire.ExecRequest{Argv: []string{"/bin/true"}})
	took := time.Since(began)
	if err == nil && (r.ExitCode != 0 || r.Stdout != "" || r.Stderr != "") {
		err = fmt.Errorf("ended with %+v", r)
	}
	return took, err
}

// memory is the most that the agent has had, in bytes.
func (g *guest) memory() int64 { return peak(g.cmd.Process.Pid) }

// memoryPromise bounds the agent's memory in what was just measured.
func (g *guest) memoryPromise(while string) promise {
	return atMost("memory of the agent while it "+while, mebibytes(g.memory()), 32, "MiB")
}

const smallFile = 4096

// measureGuest compares the agent's shortest actions with what they do.
func measureGuest(ctx context.Context, b *bench) (err error) {
	g, err := b.startGuest(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	path := filepath.Join(g.workspace, "small")
	if err := os.WriteFile(path, make([]byte, smallFile), 0o644); err != nil {
		return err
	}
	base := &benchCase{name: "fork and exec from Go", run: forkExec}
	exec := &benchCase{name: "exec, one request", run: g.exec}
	read := &benchCase{name: "read_workspace_file of 4 KiB", run: func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		r, err := wire.Call(ctx, &g.client, wire.ReadWorkspaceFile, wire.ReadWorkspaceFileRequest{Path: "small"})
		took := time.Since(began)
		if err == nil && len(r.ContentB64) != smallFile {
			err = fmt.Errorf("got %d bytes", len(r.ContentB64))
		}
		return took, err
	}}
	rounds := b.rounds(1000, 200)
	if err := interleave(ctx, warmups, rounds, exec, base); err != nil {
		return err
	}
	if err := interleave(ctx, warmups, rounds, read); err != nil {
		return err
	}
	b.add(times(fmt.Sprintf("an agent without walls, over a Unix socket, %d rounds", rounds), time.Microsecond, base, exec, base, read),
		atMost("exec by an agent without walls, to fork and exec from Go", ratio(exec.sample.median(), base.sample.median()), 1.4, "×"),
		atMost("read_workspace_file of 4 KiB", float64(read.sample.median())/float64(time.Millisecond), 0.2, "ms"))
	return nil
}
