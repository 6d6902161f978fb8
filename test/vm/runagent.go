package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/internal/stdiomux"
	"github.com/paddock-dev/paddock/wire"
)

// process1 is what the tests of the agent as process 1 are called.
const process1 = "process-1"

// agentPort is the virtio-serial port on which the agent listens, and
// agentVsock its other listener's port.
const (
	agentPort  = "agent.0"
	agentVsock = 5005
)

// agentFlags are those of the agent as process 1.
var agentFlags = []string{"--listen", "virtio://" + agentPort, "--listen", "vsock://", "--vsock-cid", "1",
	"--shell-root", "/run/shells", "--service-root", "/run/services", "--secret-root", "/run/secrets"}

// runAgent boots a machine whose process 1 is the agent, and asks it.
func runAgent(ctx context.Context, c machineConfig) error {
	started := time.Now()
	m, err := boot(ctx, c)
	if err != nil {
		return err
	}
	defer m.kill()
	p := c.packageOf(process1)
	h := &hostSide{m: m}
	defer h.hangUp()
	client := &wire.Client{Dial: h.dial}
	if _, err := client.Hello(ctx); err != nil {
		p.end(false)
		return fmt.Errorf("the agent says no hello: %w", errors.Join(err, m.state()))
	}
	booted := time.Since(started)
	good := p.ask(ctx, "virtio", client)
	good = p.askInside(ctx, client) && good
	good = p.verdict("hosts come and go", h.comeAndGo(ctx, client)) && good
	good = p.verdict("shutdown powers off", h.shutdown(ctx, client)) && good
	p.output(fmt.Sprintf("--- report: kernel %s, the agent as process 1: from power-on to hello in %.1f s\n--- end of report\n",
		c.kernel.release, booted.Seconds()))
	p.end(good)
	return nil
}

// verdict tells of one test.
func (p *packageRun) verdict(name string, err error) bool {
	p.test(name, err)
	return err == nil
}

// ask asks all questions over one transport.
func (p *packageRun) ask(ctx context.Context, transport string, client *wire.Client) bool {
	good := true
	for _, q := range questions {
		good = p.verdict(transport+", "+q.name, q.put(ctx, client)) && good
	}
	return good
}

// askInside has a client inside ask them, over vsock.
func (p *packageRun) askInside(ctx context.Context, client *wire.Client) bool {
	res, err := client.Exec(ctx, wire.ExecRequest{Argv: []string{"/init", askWord}})
	if err != nil {
		return p.verdict("vsock", err)
	}
	good, n := true, 0
	for lines := bufio.NewScanner(strings.NewReader(res.Stdout)); lines.Scan(); n++ {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return p.verdict("vsock", fmt.Errorf("the client inside said %q", lines.Text()))
		}
		var failed error
		if a.Failed != "" {
			failed = errors.New(a.Failed)
		}
		good = p.verdict("vsock, "+a.Name, failed) && good
	}
	if n != len(questions) {
		return p.verdict("vsock", fmt.Errorf("%d of %d questions were answered: %s%s", n, len(questions), res.Stdout, res.Stderr))
	}
	return good
}

// hostSide is the host's end of the agent's port.
type hostSide struct {
	m   *machine
	mux *stdiomux.Dialer
}

// dial opens a connection, over a new end where there is none.
func (h *hostSide) dial(ctx context.Context) (net.Conn, error) {
	if h.mux == nil {
		conn, err := h.m.port(ctx, agentPort)
		if err != nil {
			return nil, err
		}
		if h.mux, err = stdiomux.Dial(conn, conn); err != nil {
			return nil, err
		}
	}
	return h.mux.DialContext(ctx)
}

func (h *hostSide) hangUp() {
	if h.mux != nil {
		_ = h.mux.Close()
		h.mux = nil
	}
}

// comeAndGo hangs up in the middle of things: what was asked ends with the
// host that asked, and the next host is served.
func (h *hostSide) comeAndGo(ctx context.Context, client *wire.Client) error {
	for range 3 {
		err := h.again(ctx, func(ctx context.Context) error {
			_, err := start(ctx, client, wire.ExecRequest{Argv: []string{"sh", "-c", "sleep 1000 & yes"}})
			if err == nil {
				h.hangUp()
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("a stream: %w", err)
		}
		err = h.again(ctx, func(ctx context.Context) error {
			u, err := wire.Call(ctx, client, wire.Usage, wire.UsageRequest{})
			return first(err, differ("the number of the last host's commands", len(u.Trees), 0))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// again tries until it works, with a new connection each time. Between two it
// stays away for a while, longer and longer: nothing tells a host when the
// agent has noticed that it was away.
func (h *hostSide) again(ctx context.Context, try func(context.Context) error) error {
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := try(limited)
		cancel()
		if err == nil || pause > 5*time.Second {
			return err
		}
		h.hangUp()
		time.Sleep(pause)
	}
}

// shutdown ends the agent, and with it the machine.
func (h *hostSide) shutdown(ctx context.Context, client *wire.Client) error {
	if _, err := client.Start(ctx, wire.ExecRequest{Argv: []string{"sleep", "1000"}}, wire.Streams{}); err != nil {
		return err
	}
	res, err := wire.Call(ctx, client, wire.Shutdown, wire.ShutdownRequest{})
	switch {
	case err != nil:
		return err
	case !res.DeathProved:
		return fmt.Errorf("it proves nothing: %+v", res)
	}
	select {
	case <-h.m.ended:
	case <-time.After(20 * time.Second):
		return errors.New("the machine is still there")
	}
	if h.m.err != nil {
		return h.m.state()
	}
	return nil
}
