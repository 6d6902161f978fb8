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
	"slices"
	"time"

	"github.com/paddock-dev/paddock"
)

// serverEnv makes this program the two servers of [networkServers] on loopback, until its
// standard input ends. It prints their addresses as JSON.
const serverEnv = "PADDOCK_BENCH_PORTS"

func portServer() error {
	ask, stop, err := networkServers("127.0.0.1")
	if err != nil {
		return err
	}
	defer stop()
	if err := json.NewEncoder(os.Stdout).Encode(ask); err != nil {
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
	var told [2][]networkTold
	for range b.rounds(6, 2) {
		for i, ask := range []networkAsk{direct, published} {
			ask.Short, ask.AtOnce, ask.Bytes = b.rounds(1000, 100), b.rounds(500, 50), int64(b.rounds(1<<30, 1<<27))
			text, err := json.Marshal(ask)
			if err != nil {
				return err
			}
			t, err := toldBy(func(out io.Writer) error {
				cmd := exec.CommandContext(ctx, program)
				cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), clientEnv+"="+string(text)), out, os.Stderr
				return cmd.Run()
			})
			if err != nil {
				return err
			}
			told[i] = append(told[i], t)
		}
	}
	t := table{Title: fmt.Sprintf("connections of the host to a published port, %d rounds; × is to the same server on the host", len(told[0]))}
	for _, r := range []struct {
		name, unit string
		of         func(networkTold) float64
	}{
		{"TLS connection", "ms", func(t networkTold) float64 { return t.Short.Seconds() * 1e3 }},
		{"TLS connections at once, none failed", "ms", func(t networkTold) float64 { return t.AtOnce.Seconds() * 1e3 }},
		{"bulk over TLS", "MiB/s", func(t networkTold) float64 { return t.TLSBytes }},
		{"bulk, raw", "MiB/s", func(t networkTold) float64 { return t.RawRate }},
	} {
		var middle [2]float64
		for i, all := range told {
			values := make([]float64, len(all))
			for j, t := range all {
				values[j] = r.of(t)
			}
			slices.Sort(values)
			middle[i] = values[len(values)/2]
		}
		t.Rows = append(t.Rows, row{Name: r.name + ", direct", Median: middle[0], Unit: r.unit},
			row{Name: fmt.Sprintf("%s, published (%.2f ×)", r.name, middle[1]/middle[0]), Median: middle[1], Unit: r.unit})
	}
	b.add(t)
	return nil
}

// serverOutside starts this program's servers on the host.
func (b *bench) serverOutside(ctx context.Context, program string) (ask networkAsk, end func(), err error) {
	cmd := exec.CommandContext(ctx, program)
	cmd.Env, cmd.Stderr = append(os.Environ(), serverEnv+"=1"), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return ask, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return ask, nil, err
	}
	end = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	if err := readAsk(out, &ask); err != nil {
		end()
		return ask, nil, err
	}
	return ask, end, nil
}

// serverInside starts this program's servers in a sandbox, and publishes their ports.
func serverInside(ctx context.Context, box *paddock.Sandbox, program string) (ask networkAsk, err error) {
	cmd := box.Command(ctx, program)
	cmd.AddEnv, cmd.Stderr = []string{serverEnv + "=1"}, os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		return ask, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return ask, err
	}
	go func() { _ = cmd.Wait() }() // it ends with the sandbox
	if err := readAsk(out, &ask); err != nil {
		return ask, err
	}
	for _, at := range []*string{&ask.TLS, &ask.Raw} {
		_, port, err := net.SplitHostPort(*at)
		if err != nil {
			return ask, err
		}
		p, err := box.Publish(port, nil)
		if err != nil {
			return ask, err
		}
		*at = p.Address
	}
	return ask, nil
}

// readAsk reads the line that a server prints.
func readAsk(r io.Reader, ask *networkAsk) error {
	line := make(chan error, 1)
	go func() {
		text, err := bufio.NewReader(r).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(text, ask)
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
