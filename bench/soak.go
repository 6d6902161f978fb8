//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// measureSoak has sixteen clients execute for a minute and looks at whether
// the agent is afterwards as it was before.
func measureSoak(ctx context.Context, b *bench) (err error) {
	g, err := b.startGuest(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	span := time.Minute
	if b.short {
		span = 3 * time.Second
	}
	var warm, l load
	warm.slice(ctx, span/10, g.exec)
	before, err := g.settled(ctx)
	if err != nil {
		return err
	}
	l.slice(ctx, span, g.exec)
	after, err := g.settled(ctx)
	if err != nil {
		return err
	}
	grown := func(what string, before, after int64, unit string) row {
		return row{Name: what, Median: float64(after), Unit: unit, Note: fmt.Sprintf("before: %d", before)}
	}
	b.add(table{
		Title: fmt.Sprintf("%d clients at once that exec /bin/true without walls, for %v", clients, span),
		Rows: []row{
			{Name: "execs", Median: l.perSecond(), Unit: "/s", Note: fmt.Sprintf("%d runs, %d errors", len(l.sample), l.errors)},
			l.latency("one of them"),
			grown("descriptors afterwards", int64(before.Descriptors), int64(after.Descriptors), ""),
			grown("goroutines afterwards", int64(before.Goroutines), int64(after.Goroutines), ""),
			grown("memory afterwards", before.MemoryBytes>>10, after.MemoryBytes>>10, "KiB"),
		},
	},
		atMost("errors of 16 clients in a minute", float64(l.errors), 0, ""),
		atMost("descriptors more after it", float64(after.Descriptors-before.Descriptors), 0, ""),
		atMost("goroutines more after it", float64(after.Goroutines-before.Goroutines), 0, ""),
		atMost("memory more after it", mebibytes(after.MemoryBytes-before.MemoryBytes), 2, "MiB"),
		g.memoryPromise("served 16 clients"))
	if l.errors > 0 {
		return fmt.Errorf("%d of %d execs failed: %w", l.errors, l.errors+len(l.sample), l.first)
	}
	return nil
}

// restAfter is how long the agent is left alone before a look: by then it has
// given back what it does not need.
const restAfter = time.Second

// settled is what the agent takes once the requests before have gone: the
// least of some looks.
func (g *guest) settled(ctx context.Context) (wire.AgentUsage, error) {
	var least wire.AgentUsage
	time.Sleep(restAfter)
	for look := range 20 {
		u, err := wire.Call(ctx, &g.client, wire.Usage, wire.UsageRequest{})
		if err != nil {
			return least, err
		}
		if look == 0 {
			least = u.Agent
		}
		least.Descriptors = min(least.Descriptors, u.Agent.Descriptors)
		least.Goroutines = min(least.Goroutines, u.Agent.Goroutines)
		least.MemoryBytes = min(least.MemoryBytes, u.Agent.MemoryBytes)
		time.Sleep(5 * time.Millisecond)
	}
	return least, nil
}
