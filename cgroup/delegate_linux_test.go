package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestControllerState(t *testing.T) {
	const text = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t20\t1\nmemory\t0\t20\t0\nblkio\t7\t1\t1\n"
	tests := []struct {
		name               string
		known, v1, enabled bool
	}{
		{"cpu", true, false, true},
		{"memory", true, false, false},
		{"io", true, true, true},
		{"pids", false, false, false},
	}
	for _, tt := range tests {
		if known, v1, enabled := controllerState(text, tt.name); known != tt.known || v1 != tt.v1 || enabled != tt.enabled {
			t.Errorf("%s: got %v, %v, %v", tt.name, known, v1, enabled)
		}
	}
}

// Looking makes nothing, and says of every controller whether it can be had,
// else why not and what to do.
func TestProbeDelegate(t *testing.T) {
	p, err := ProbeDelegate()
	if err != nil {
		var e *Error
		if !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("no place, and nothing to do about it: %v", err)
		}
		if len(p.Controllers) > 0 {
			t.Errorf("controllers of no place: %v", p.Controllers)
		}
	}
	all := slices.Clone(p.Controllers)
	for _, m := range p.Missing {
		all = append(all, m.Controller)
		if m.Why == "" || m.Remedy == "" {
			t.Errorf("%+v", m)
		}
	}
	slices.Sort(all)
	want := slices.Sorted(slices.Values(Wanted))
	if !slices.Equal(all, want) && !errors.Is(err, ErrNotMounted) {
		t.Errorf("it tells of %v, want %v", all, want)
	}
	t.Logf("%+v, %v", p, err)
}

// Two that look at the same time find the same place.
func TestFindDelegate(t *testing.T) {
	found := make(chan Delegate)
	failed := make(chan error)
	const finders = 4
	for range finders {
		go func() {
			if p, err := FindDelegate(); err != nil {
				failed <- err
			} else {
				found <- p
			}
		}()
	}
	var places []Delegate
	var err error
	for range finders {
		select {
		case p := <-found:
			places = append(places, p)
		case err = <-failed:
		}
	}
	if err != nil {
		if len(places) > 0 {
			t.Errorf("%v, %v", places, err)
		}
		t.Skipf("no control groups with controllers here: %v", err)
	}
	for _, p := range places {
		if p.Dir != places[0].Dir || !slices.Equal(p.Controllers, places[0].Controllers) || filepath.Base(p.Dir) != delegateName {
			t.Errorf("%+v", p)
		}
	}
	if look, err := ProbeDelegate(); err != nil || look.Dir != places[0].Dir {
		t.Errorf("%+v, %v", look, err)
	}
	for _, c := range places[0].Controllers {
		g := controlled(t, c)
		if have, err := g.Controllers(); err != nil || !slices.Contains(have, c) {
			t.Errorf("a group there has %v, %v", have, err)
		}
	}
}

// A group that holds processes cannot delegate controllers; so those above it are tried.
func TestFindDelegatedAncestor(t *testing.T) {
	g := controlled(t)
	have, err := g.Controllers()
	if err != nil || len(have) == 0 {
		t.Skipf("no control groups with controllers here: %v, %v", have, err)
	}
	p, err := FindDelegate()
	if err != nil {
		t.Fatal(err)
	}
	inner, err := g.Create("inner")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	play(t, inner, "wait").hear(t)
	s := probe{mount: filepath.Dir(p.Dir)}
	dir := filepath.Join(p.Dir, g.Name())
	if err := s.findDelegatedAncestor(filepath.Join(dir, "inner")); err != nil {
		t.Fatal(err)
	}
	s.base.Close()
	if s.dir != dir {
		t.Errorf("found %s, want %s", s.dir, dir)
	}
	_, err = inner.delegable(dir)
	if e := (*Error)(nil); !errors.As(err, &e) || e.Hint == "" {
		t.Errorf("with processes: %v", err)
	}
}

func TestWritable(t *testing.T) {
	if writable("/proc") || writable(os.DevNull) {
		t.Error("what is no group is writable")
	}
}
