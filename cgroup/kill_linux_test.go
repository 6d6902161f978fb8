package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Both ways of killing reach processes in sessions of their own, in groups
// inside, frozen ones and those that are being made.
func TestKill(t *testing.T) {
	for name, kill := range map[string]func(*Group) error{"kill": (*Group).Kill, "each": (*Group).killEach} {
		t.Run(name, func(t *testing.T) {
			g := fresh(t)
			inner, err := g.Create("inner")
			if err != nil {
				t.Fatal(err)
			}
			defer inner.Close()
			const depth = 5
			var players []*player
			for _, in := range []*Group{g, inner} {
				p := play(t, in, fmt.Sprint("tree ", depth))
				for range depth {
					p.hear(t)
				}
				players = append(players, p)
			}
			storm := play(t, inner, "tree 1000")
			storm.hear(t)
			if err := inner.Freeze(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(kill(g), g.WaitEmpty(t.Context())); err != nil {
				t.Fatal(err)
			}
			for _, p := range players {
				p.silence(t)
			}
			if err := errors.Join(kill(g), kill(g)); err != nil {
				t.Errorf("nobody: %v", err)
			}
			if err := g.Thaw(t.Context()); err != nil {
				t.Errorf("left frozen: %v", err)
			}
		})
	}
}

// A storm of forks is killed while it goes on.
func TestKillStorm(t *testing.T) {
	for name, kill := range map[string]func(*Group) error{"kill": (*Group).Kill, "each": (*Group).killEach} {
		t.Run(name, func(t *testing.T) {
			g := fresh(t)
			p := play(t, g, "tree 1000")
			for range 10 {
				p.hear(t)
			}
			if err := errors.Join(kill(g), g.WaitEmpty(t.Context())); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func BenchmarkKill(b *testing.B) {
	for name, kill := range map[string]func(*Group) error{"kill": (*Group).Kill, "each": (*Group).killEach} {
		b.Run(name, func(b *testing.B) {
			g := fresh(b)
			for b.Loop() {
				if err := kill(g); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestWaitEmpty(t *testing.T) {
	g := fresh(t)
	if err := g.WaitEmpty(t.Context()); err != nil {
		t.Fatalf("an empty group: %v", err)
	}
	inner, err := g.Create("inner")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	p := play(t, inner, "wait")
	p.hear(t)
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 2)
	go func() { waited <- g.WaitEmpty(ctx) }()
	go func() { waited <- g.WaitEmpty(t.Context()) }()
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Fatalf("given up: %v", err)
	}
	p.in.Close()
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if populated, err := g.Populated(); err != nil || populated {
		t.Errorf("populated: %v, %v", populated, err)
	}
}

func TestWaitForWhatIsGone(t *testing.T) {
	g := fresh(t)
	child, err := g.Create("child")
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	p := play(t, child, "wait")
	p.hear(t)
	waited := make(chan error, 1)
	go func() { waited <- child.WaitEmpty(t.Context()) }()
	p.in.Close()
	for err = unix.EBUSY; errors.Is(err, unix.EBUSY); { // as fast as can be
		err = g.Remove("child")
	}
	if err := errors.Join(err, <-waited, child.WaitEmpty(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestFreeze(t *testing.T) {
	g := fresh(t)
	p := play(t, g, "echo")
	say := func(line string) {
		t.Helper()
		if _, err := p.in.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	say("before")
	if got := p.hear(t); got != "before" {
		t.Fatal(got)
	}
	for range 10 {
		if err := g.Freeze(t.Context()); err != nil {
			t.Fatal(err)
		}
		if frozen, err := g.Frozen(); err != nil || !frozen {
			t.Fatalf("frozen: %v, %v", frozen, err)
		}
		say("hello")
		if !p.keepsStill(t) {
			t.Fatal("an answer from a frozen process")
		}
		if err := g.Thaw(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := p.hear(t); got != "hello" {
			t.Fatal(got)
		}
	}
}

func TestFreezeNobody(t *testing.T) {
	p := play(t, fresh(t), "wait")
	p.hear(t)
	g := fresh(t)
	if err := errors.Join(g.Freeze(t.Context()), g.Freeze(t.Context())); err != nil {
		t.Fatal(err)
	}
	// A process that is added later is frozen, too; frozen processes can be killed.
	if err := errors.Join(g.Add(p.Process.Pid), g.await(t.Context(), "frozen", 1)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.Kill(), g.WaitEmpty(t.Context())); err != nil {
		t.Fatal(err)
	}
	p.silence(t)
	if err := errors.Join(g.Thaw(t.Context()), g.Thaw(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// A freeze that cannot be had in time is taken back.
func TestFreezeTakesTooLong(t *testing.T) {
	g := fresh(t)
	p := play(t, g, "wait")
	p.hear(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := g.Freeze(ctx)
	if err == nil { // it froze at once, before anybody could give up
		err = g.Thaw(t.Context())
	} else if errors.Is(err, context.Canceled) {
		err = g.await(t.Context(), "frozen", 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// While a group above is frozen, the one inside does not go on.
func TestThawBelow(t *testing.T) {
	g := fresh(t)
	inner, err := g.Create("inner")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	p := play(t, inner, "wait")
	p.hear(t)
	if err := g.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := inner.Thaw(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("thawed: %v", err)
	}
	if err := g.Thaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := inner.Thaw(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Many may wait for long: none of them holds a thread.
func TestWaitingHoldsNoThread(t *testing.T) {
	g := fresh(t)
	p := play(t, g, "wait")
	p.hear(t)
	const waiters = 50
	threads := pprof.Lookup("threadcreate").Count()
	waited := make(chan error)
	for range waiters {
		go func() { waited <- g.WaitEmpty(t.Context()) }()
	}
	for openFiles(t) < waiters { // each waits once it has its file
	}
	if more := pprof.Lookup("threadcreate").Count() - threads; more > waiters/2 {
		t.Errorf("%d threads more for %d waiters", more, waiters)
	}
	p.in.Close()
	for range waiters {
		if err := <-waited; err != nil {
			t.Error(err)
		}
	}
}

// openFiles counts the open files of the process.
func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// BenchmarkEnd measures how long it takes to notice the end of a killed process.
func BenchmarkEnd(b *testing.B) {
	for name, age := range map[string]time.Duration{"young": 0, "old": 20 * time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				g := fresh(b) // one that was killed is of no more use
				p := play(b, g, "wait")
				p.hear(b)
				time.Sleep(age)
				b.StartTimer()
				if err := errors.Join(g.Kill(), g.WaitEmpty(b.Context())); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
