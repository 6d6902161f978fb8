package cgroup

import (
	"errors"
	"fmt"
	"testing"
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
