//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paddock-dev/paddock"
)

// resident is a program that lives on and opens a sandbox for each task, as
// servers do.
type resident struct {
	bench             *bench
	open, exec, close *benchCase // what a life is made of
}

// life opens a sandbox, runs /bin/true in it, and closes it.
func (r *resident) life(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	spec := paddock.Spec{Workspace: paddock.Workspace{Source: r.bench.workspace}}
	box, err := paddock.Open(ctx, spec, paddock.Options{Agent: r.bench.agent, StateDir: r.bench.state})
	if err != nil {
		return 0, err
	}
	opened := time.Now()
	cmd := box.Command(ctx, "/bin/true")
	err = cmd.Run()
	if err == nil && !cmd.Result().DeathProved {
		err = errors.New("the end of every process is not proved")
	}
	done := time.Now()
	err = errors.Join(err, box.Close())
	ended := time.Now()
	r.open.sample = append(r.open.sample, opened.Sub(began))
	r.exec.sample = append(r.exec.sample, done.Sub(opened))
	r.close.sample = append(r.close.sample, ended.Sub(done))
	return ended.Sub(began), err
}

// measureResident compares whole lives of sandboxes in a program that was
// started before with bubblewrap, which is one program for each.
func measureResident(ctx context.Context, b *bench) error {
	plan, _, err := paddock.Plan(ctx, paddock.Spec{Workspace: paddock.Workspace{Source: b.workspace}}, paddock.Options{Agent: b.agent, StateDir: b.state})
	if err != nil {
		return err
	}
	peer, err := bubblewrap("bubblewrap", plan, b).isolated(ctx, plan.Namespaces)
	if err != nil {
		return err
	}
	r := &resident{bench: b, open: &benchCase{name: "  Open"}, exec: &benchCase{name: "  Command.Run, the first"}, close: &benchCase{name: "  Close"}}
	own := &benchCase{name: "Open, Command.Run, Close", run: r.life}
	rounds := b.rounds(200, 40)
	if err := interleave(ctx, warmups, rounds, own, peer); err != nil {
		return err
	}
	phases := []*benchCase{r.open, r.exec, r.close}
	for _, c := range phases {
		c.sample = c.sample[warmups:] // interleave has no eye on these
	}
	b.add(times(fmt.Sprintf("a sandbox for one /bin/true from a running program, %d rounds", rounds), time.Millisecond, peer, append([]*benchCase{own}, append(phases, peer)...)...),
		atMost("a sandbox from a running program, to bubblewrap", ratio(own.sample.median(), peer.sample.median()), 1, "×").unless(peer.absent))
	return nil
}
