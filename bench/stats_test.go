//go:build linux

package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

func upTo(n int) (s sample) {
	for i := n; i > 0; i-- {
		s = append(s, time.Duration(i))
	}
	return s
}

func TestSample(t *testing.T) {
	tests := []struct {
		name             string
		sample           sample
		median, p90, max time.Duration
	}{
		{"nothing", nil, 0, 0, 0},
		{"one", sample{7}, 7, 7, 7},
		{"two", sample{8, 4}, 6, 8, 8},
		{"three, unsorted", sample{9, 1, 5}, 5, 9, 9},
		{"ten", upTo(10), 5, 9, 10},
		{"eleven", upTo(11), 6, 10, 11},
		{"hundred", upTo(100), 50, 90, 100},
		{"an outlier moves neither", append(upTo(99), time.Hour), 50, 90, time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.sample)
			if got := tt.sample.median(); got != tt.median {
				t.Errorf("median = %d, want %d", got, tt.median)
			}
			if got := tt.sample.quantile(0.9); got != tt.p90 {
				t.Errorf("p90 = %d, want %d", got, tt.p90)
			}
			if got := tt.sample.max(); got != tt.max {
				t.Errorf("max = %d, want %d", got, tt.max)
			}
			if !slices.Equal(before, tt.sample) {
				t.Error("the sample was reordered")
			}
		})
	}
}

func TestQuantileBounds(t *testing.T) {
	s := upTo(4)
	for q, want := range map[float64]time.Duration{0: 1, 0.25: 1, 0.26: 2, 1: 4} {
		if got := s.quantile(q); got != want {
			t.Errorf("quantile(%v) = %d, want %d", q, got, want)
		}
	}
}

func TestRatio(t *testing.T) {
	if got := ratio(3*time.Second, 2*time.Second); got != 1.5 {
		t.Errorf("ratio = %v, want 1.5", got)
	}
	if got := ratio(time.Second, 0); got != 0 {
		t.Errorf("ratio to nothing = %v, want 0", got)
	}
}

// Cases take turns, and each comes after each of its neighbours.
func TestInterleave(t *testing.T) {
	var order string
	note := func(name string) *benchCase {
		return &benchCase{name: name, run: func(context.Context) (time.Duration, error) {
			order += name
			return time.Millisecond, nil
		}}
	}
	a, b, absent := note("a"), note("b"), missing("c", "not installed")
	if err := interleave(t.Context(), 0, 4, a, b, absent); err != nil {
		t.Fatal(err)
	}
	if want := "abbaabba"; order != want {
		t.Errorf("order = %q, want %q", order, want)
	}
	if len(a.sample) != 4 || len(b.sample) != 4 || len(absent.sample) != 0 {
		t.Errorf("samples of %d, %d and %d runs, want 4, 4 and 0", len(a.sample), len(b.sample), len(absent.sample))
	}
}

func TestInterleaveStopsAtAWrongResult(t *testing.T) {
	wrong := errors.New("exit status 1")
	c := &benchCase{name: "a", run: func(context.Context) (time.Duration, error) { return 0, wrong }}
	if err := interleave(t.Context(), 0, 4, c); !errors.Is(err, wrong) {
		t.Errorf("error = %v, want %v", err, wrong)
	}
}

func TestPromise(t *testing.T) {
	tests := []struct {
		name    string
		promise promise
		want    string
	}{
		{"below", atMost("x", 1.4, 1.5, "×"), "yes"},
		{"equal", atMost("x", 1.5, 1.5, "×"), "yes"},
		{"beyond", atMost("x", 1.51, 1.5, "×"), "NO"},
		{"fast enough", atLeast("x", 0.8, 0.8, "×"), "yes"},
		{"too slow", atLeast("x", 0.79, 0.8, "×"), "NO"},
		{"no peer", atMost("x", 0, 1.5, "×").unless("no peer"), "not measured: no peer"},
		{"a peer", atMost("x", 1, 1.5, "×").unless(""), "yes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.promise.verdict(); got != tt.want {
				t.Errorf("verdict = %q, want %q", got, tt.want)
			}
		})
	}
}
