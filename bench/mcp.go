//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// measureMCP compares the server for models with a bare one of the same SDK,
// whose only tool forks and executes true, without walls.
func measureMCP(ctx context.Context, b *bench) error {
	peer := filepath.Join(b.dir, "mcppeer")
	if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", peer, "./bench/mcppeer").CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the peer: %w: %s", err, out)
	}
	servers := []*mcpServer{
		{name: "paddock mcp", argv: []string{b.paddock, "mcp", "--workspace", b.workspace}, http: []string{"--no-auth"}},
		{name: "a bare server, no walls", argv: []string{peer}},
	}
	return errors.Join(b.mcpStart(ctx, servers), b.mcpCalls(ctx, servers), b.mcpLoad(ctx, servers))
}

// mcpStart measures from the start of a server to its first answer, and what
// memory it then has.
func (b *bench) mcpStart(ctx context.Context, servers []*mcpServer) error {
	var cases []*benchCase
	rss := make([]sample, len(servers)) // in KiB
	for i, s := range servers {
		cases = append(cases, &benchCase{name: s.name, run: func(ctx context.Context) (time.Duration, error) {
			began := time.Now()
			c, err := s.stdio(ctx)
			if err != nil {
				return 0, err
			}
			took := time.Since(began)
			if _, err = c.ask("tools/list", map[string]any{}); err == nil {
				rss[i] = append(rss[i], time.Duration(statusField(c.cmd.Process.Pid, "VmRSS")))
			}
			return took, errors.Join(err, c.close())
		}})
	}
	rounds := b.rounds(50, 10)
	if err := interleave(ctx, warmups, rounds, cases...); err != nil {
		return err
	}
	own := cases[0].sample.median()
	memory := table{Title: "memory of an idle MCP server, the tools listed"}
	mib := func(s sample, q float64) float64 { return float64(s.quantile(q)) / 1024 }
	for i, s := range servers {
		memory.Rows = append(memory.Rows, row{Name: s.name, Median: mib(rss[i], 0.5), P90: mib(rss[i], 0.9), Unit: "MiB", Ratio: mib(rss[i], 0.5) / mib(rss[1], 0.5)})
	}
	b.add(times(fmt.Sprintf("an MCP server from its start to its first answer, %d rounds", rounds), time.Millisecond, cases[1], cases...),
		atMost("start of paddock mcp to its first answer, p50", float64(own)/float64(time.Millisecond), 30, "ms"))
	b.add(memory, atMost("memory of an idle paddock mcp", mib(rss[0], 0.5), 40, "MiB"))
	return nil
}

// mcpCalls measures one call after the other over standard input and output.
func (b *bench) mcpCalls(ctx context.Context, servers []*mcpServer) (err error) {
	var cases []*benchCase
	for _, s := range servers {
		c, startErr := s.stdio(ctx)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, c.close()) }() //nolint:gocritic // two servers
		cases = append(cases, &benchCase{name: s.name, run: func(context.Context) (time.Duration, error) { return mcpTrue(c) }})
	}
	rounds := b.rounds(1000, 100)
	if err := interleave(ctx, 20, rounds, cases...); err != nil {
		return err
	}
	p50 := cases[0].sample.median()
	b.add(times(fmt.Sprintf("tools/call exec true over standard input and output, %d rounds", rounds), time.Microsecond, cases[1], cases...),
		atMost("tools/call exec true in a running sandbox, p50", float64(p50.Microseconds())/1000, 2, "ms"))
	return nil
}

// mcpLoad lets sixteen sessions call at once over HTTP, in slices that take turns.
func (b *bench) mcpLoad(ctx context.Context, servers []*mcpServer) error {
	loads := make([]load, len(servers))
	ready := make([]chan mcpAsker, len(servers)) // sessions that nobody uses now
	for i, s := range servers {
		url, end, err := s.listen(ctx)
		if err != nil {
			return err
		}
		defer end() //nolint:gocritic // two servers
		ready[i] = make(chan mcpAsker, clients)
		for range clients {
			session, err := openHTTP(ctx, url)
			if err == nil {
				_, err = mcpTrue(session) // with the first the sandbox starts
			}
			if err != nil {
				return err
			}
			ready[i] <- session
		}
	}
	slice := time.Second
	if b.short {
		slice /= 4
	}
	for range 4 {
		for i := range servers {
			loads[i].slice(ctx, slice, func(context.Context) (time.Duration, error) {
				session := <-ready[i]
				defer func() { ready[i] <- session }()
				return mcpTrue(session)
			})
		}
	}
	if loads[0].errors > 0 {
		return fmt.Errorf("%d of %d calls failed: %w", loads[0].errors, loads[0].errors+len(loads[0].sample), loads[0].first)
	}
	t := table{Title: fmt.Sprintf("%d MCP sessions at once over HTTP that call exec true, 4 × %v each", clients, slice)}
	for i, s := range servers {
		t.Rows = append(t.Rows, loads[i].rate(s.name, &loads[1]), loads[i].latency("one call"))
	}
	b.add(t, atLeast("calls of 16 MCP sessions at once", loads[0].perSecond(), 500, "/s"))
	return nil
}
