//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/paddock-dev/paddock"
)

// serverEnv makes this program the two servers of [startServers] on loopback, until its
// standard input ends. It prints their addresses as JSON.
const serverEnv = "PADDOCK_BENCH_PORTS"

func portServer() error {
	at, _, stop, err := startServers("127.0.0.1")
	if err != nil {
		return err
	}
	defer stop()
	if err := json.NewEncoder(os.Stdout).Encode(at); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// measurePorts compares connections from the host to the published port of a server in a
// sandbox with those to the same server on the host.
func measurePorts(ctx context.Context, b *bench) error {
	program, err := b.ownProgram()
	if err != nil {
		return err
	}
	direct, end, err := b.serverOutside(ctx, program)
	if err != nil {
		return err
	}
	defer end()
	box, err := paddock.Open(ctx, paddock.Spec{Workspace: paddock.Workspace{Source: b.workspace}, Mounts: []paddock.Mount{{Source: b.dir + "/network"}}},
		paddock.Options{Agent: b.agent, StateDir: b.state})
	if err != nil {
		return err
	}
	defer func() { _ = box.Close() }()
	published, err := serverInside(ctx, box, program)
	if err != nil {
		return err
	}
	short, many, bulk := b.rounds(1000, 100), b.rounds(500, 50), int64(b.rounds(1<<30, 1<<27))
	first := func(t told) time.Duration { return t.Median }
	all := func(t told) time.Duration { return t.AtOnce }
	rounds := b.rounds(6, 2)
	t := table{Title: fmt.Sprintf("connections of the host to a published port, %d rounds; the ratio is to the same server on the host", rounds)}
	for _, r := range []struct {
		name   string
		errand errand
		took   func(told) time.Duration
	}{
		{fmt.Sprintf("a request over TLS, median of %d", short), errand{HTTPS: true, Times: short, Bytes: 1}, first},
		{fmt.Sprintf("%d requests at once, none failed", many), errand{HTTPS: true, AtOnce: many, Bytes: 1}, all},
		{fmt.Sprintf("%d MiB over TLS", bulk>>20), errand{HTTPS: true, AtOnce: 1, Bytes: bulk}, all},
		{fmt.Sprintf("%d MiB, raw", bulk>>20), errand{AtOnce: 1, Bytes: bulk}, all},
	} {
		var cases [2]*benchCase
		for i, at := range []servers{direct, published} {
			e := r.errand
			if e.Address = at.Raw; e.HTTPS {
				e.Address = at.HTTPS
			}
			cases[i] = &benchCase{name: r.name + []string{", direct", ", published"}[i], run: func(ctx context.Context) (time.Duration, error) {
				answer, err := b.outside(ctx, program, e)
				return r.took(answer), err
			}}
		}
		if err := interleave(ctx, 0, rounds, cases[:]...); err != nil {
			return err
		}
		t.Rows = append(t.Rows, times("", time.Millisecond, cases[0], cases[:]...).Rows...)
	}
	b.add(t)
	return nil
}

// serverOutside starts this program's servers on the host.
func (b *bench) serverOutside(ctx context.Context, program string) (at servers, end func(), err error) {
	cmd := exec.CommandContext(ctx, program)
	cmd.Env, cmd.Stderr = append(os.Environ(), serverEnv+"=1"), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return at, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return at, nil, err
	}
	end = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	if err := readServers(out, &at); err != nil {
		end()
		return at, nil, err
	}
	return at, end, nil
}

// serverInside starts this program's servers in a sandbox, and publishes their ports.
func serverInside(ctx context.Context, box *paddock.Sandbox, program string) (at servers, err error) {
	cmd := box.Command(ctx, program)
	cmd.AddEnv, cmd.Stderr = []string{serverEnv + "=1"}, os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		return at, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return at, err
	}
	go func() { _ = cmd.Wait() }() // it ends with the sandbox
	if err := readServers(out, &at); err != nil {
		return at, err
	}
	for _, address := range []*string{&at.HTTPS, &at.Raw} {
		_, port, err := net.SplitHostPort(*address)
		if err != nil {
			return at, err
		}
		p, err := box.Publish(port, nil)
		if err != nil {
			return at, err
		}
		*address = p.Address
	}
	return at, nil
}

// readServers reads the line that a server prints.
func readServers(r io.Reader, at *servers) error {
	line := make(chan error, 1)
	go func() {
		text, err := bufio.NewReader(r).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(text, at)
		}
		line <- err
	}()
	select {
	case err := <-line:
		return err
	case <-time.After(30 * time.Second):
		return errors.New("the server does not say where it listens")
	}
}
