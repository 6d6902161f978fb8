package cgroup

import (
	"slices"
	"strconv"
	"testing"
)

func TestSweepEmpty(t *testing.T) {
	g := fresh(t)
	create := func(in *Group, name string) *Group {
		t.Helper()
		child, err := in.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		return child
	}
	// What a killed owner leaves behind: nobody has it open.
	stale := create(g, "s-stale")
	inner := create(stale, "inner")
	create(inner, "exec").Close()
	inner.Close()
	stale.Close()
	create(g, "other").Close()
	held := create(g, "s-held")
	defer held.Close()
	// One of whom the owner is gone, but a process is alive, deep inside.
	alive := create(g, "s-alive")
	deep := create(alive, "deep")
	create(alive, "empty").Close()
	p := play(t, deep, "wait")
	p.hear(t)
	alive.Close()
	half := create(g, "s-half")
	heldInside := create(half, "held")
	half.Close()

	sweep := func(prefix string, removed, left []string) {
		t.Helper()
		got, err := g.SweepEmpty(prefix)
		slices.Sort(got)
		now := g.Children()
		slices.Sort(now)
		if err != nil || !slices.Equal(got, removed) || !slices.Equal(now, left) {
			t.Errorf("removed %v, left %v, %v", got, now, err)
		}
	}
	sweep("s-", []string{"s-stale"}, []string{"other", "s-alive", "s-half", "s-held"})
	if a, err := g.Child("s-alive"); err != nil || len(a.Children()) != 2 {
		t.Errorf("a living group lost something: %v, %v", a.Children(), err)
	} else {
		a.Close()
	}
	heldInside.Close()
	p.in.Close()
	if err := deep.WaitEmpty(t.Context()); err != nil {
		t.Fatal(err)
	}
	deep.Close()
	sweep("s-", []string{"s-alive", "s-half"}, []string{"other", "s-held"})
	sweep("x", nil, []string{"other", "s-held"})
	sweep("", []string{"other"}, []string{"s-held"})
}

// Several processes make groups, with groups in them, while two others sweep
// as fast as they can: no group vanishes under the hands of its maker.
func TestSweepWhileOthersMake(t *testing.T) {
	own, err := ownDir()
	if err != nil {
		t.Skipf("no control groups here: %v", err)
	}
	g := fresh(t)
	dir := own + "/" + g.Name()
	var makers []*player
	for range 2 {
		p := play(t, parent(t), "make "+dir)
		if said := p.hear(t); said != "begun" {
			t.Fatal(said)
		}
		makers = append(makers, p)
	}
	swept := 0
	for range 2000 {
		removed, err := g.SweepEmpty("made-")
		if err != nil {
			t.Fatal(err)
		}
		swept += len(removed)
	}
	for _, p := range makers {
		p.in.Close()
		said := p.hear(t)
		if n, err := strconv.Atoi(said); err != nil || n == 0 {
			t.Errorf("a maker says %q", said)
		}
		t.Logf("%s groups made", said)
	}
	t.Logf("%d swept meanwhile", swept)
	if _, err := g.SweepEmpty(""); err != nil || len(g.Children()) != 0 {
		t.Errorf("left %v, %v", g.Children(), err)
	}
}
