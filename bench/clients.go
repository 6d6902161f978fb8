//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const clients = 16

// load is what many clients at once got done.
type load struct {
	sample sample
	busy   time.Duration // all slices together
	first  error
	errors int
}

func (l *load) perSecond() float64 { return float64(len(l.sample)) / l.busy.Seconds() }

// measureClients lets sixteen clients execute at once, in slices that take
// turns with as many fork and execs outside.
func measureClients(ctx context.Context, b *bench) (err error) {
	s, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	slice := time.Second
	if b.short {
		slice /= 4
	}
	var wire, plain load
	for range 4 {
		wire.slice(ctx, slice, s.exec)
		plain.slice(ctx, slice, forkExec)
	}
	if plain.errors > 0 {
		return fmt.Errorf("cannot fork and exec: %w", plain.first)
	}
	b.add(table{
		Title: fmt.Sprintf("%d clients at once that exec /bin/true, 4 × %v each", clients, slice),
		Rows:  []row{wire.rate("execs over the wire", &plain), wire.latency("one of them"), plain.rate("fork and execs from Go", &plain), plain.latency("one of them")},
	}, atMost("errors of 16 clients at once", float64(wire.errors), 0, ""))
	if wire.errors > 0 {
		return fmt.Errorf("%d of %d execs failed: %w", wire.errors, wire.errors+len(wire.sample), wire.first)
	}
	return nil
}

func (l *load) rate(name string, base *load) row {
	return row{Name: name, Median: l.perSecond(), Unit: "/s", Ratio: l.perSecond() / base.perSecond(),
		Note: fmt.Sprintf("%d runs, %d errors", len(l.sample), l.errors)}
}

func (l *load) latency(name string) row {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return row{Name: "  " + name, Median: ms(l.sample.median()), P90: ms(l.sample.quantile(0.9)), Unit: "ms"}
}

// slice has every client work until the time is up.
func (l *load) slice(ctx context.Context, d time.Duration, run func(context.Context) (time.Duration, error)) {
	began := time.Now()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for time.Since(began) < d && ctx.Err() == nil {
				took, err := run(ctx)
				mu.Lock()
				l.note(took, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	l.busy += time.Since(began)
}

func (l *load) note(took time.Duration, err error) {
	if err == nil {
		l.sample = append(l.sample, took)
		return
	}
	l.errors++
	if l.first == nil {
		l.first = err
	}
}
