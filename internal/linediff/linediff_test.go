package linediff

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// apply makes the new text of the old one and the edits, and counts what they change.
func apply(t testing.TB, a, b Text, edits []Edit) (text string, changed int) {
	t.Helper()
	var out strings.Builder
	at, newAt := 0, 0
	for _, e := range edits {
		if e.OldStart < at || e.OldEnd < e.OldStart || e.NewEnd < e.NewStart || e.OldStart-at != e.NewStart-newAt {
			t.Fatalf("the edits are %v", edits)
		}
		for ; at < e.OldStart; at++ {
			out.Write(a.Line(at))
		}
		for i := e.NewStart; i < e.NewEnd; i++ {
			out.Write(b.Line(i))
		}
		changed += e.OldEnd - e.OldStart + e.NewEnd - e.NewStart
		at, newAt = e.OldEnd, e.NewEnd
	}
	for ; at < a.Len(); at++ {
		out.Write(a.Line(at))
	}
	return out.String(), changed
}

func TestDiff(t *testing.T) {
	tests := []struct{ old, new, want string }{
		{"", "", "[]"},
		{"a\n", "a\n", "[]"},
		{"", "a\n", "[{0 0 0 1}]"},
		{"a\nb\n", "", "[{0 2 0 0}]"},
		{"a", "a\n", "[{0 1 0 1}]"},
		{"a\nb\nc\n", "a\nx\nc\n", "[{1 2 1 2}]"},
		{"a\nb\nc\nd\ne\n", "x\na\nc\nd\ny\ne\n", "[{0 0 0 1} {1 2 2 2} {4 4 4 5}]"},
		{"\n\n\n", "\n\n", "[{2 3 2 2}]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(Diff(Split([]byte(tt.old)), Split([]byte(tt.new)))); got != tt.want {
			t.Errorf("%q to %q: got %s, want %s", tt.old, tt.new, got, tt.want)
		}
	}
}

// shortest returns the length of the shortest edit script, by a table of all.
func shortest(a, b Text) int {
	row := make([]int, b.Len()+1)
	for j := range row {
		row[j] = j
	}
	for i := range a.Len() {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b.Len() {
			best := min(row[j], row[j+1]) + 1
			if string(a.Line(i)) == string(b.Line(j)) {
				best = diagonal
			}
			diagonal, row[j+1] = row[j+1], best
		}
	}
	return row[b.Len()]
}

func TestShortestDiff(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() []byte {
		var b []byte
		for range random.IntN(60) {
			b = append(b, byte('a'+random.IntN(5)), '\n')
		}
		return b
	}
	for range 2000 {
		a, b := Split(text()), Split(text())
		got, changed := apply(t, a, b, Diff(a, b))
		if got != string(b.text) {
			t.Fatalf("%q to %q makes %q", a.text, b.text, got)
		}
		if want := shortest(a, b); changed != want {
			t.Fatalf("%q to %q changes %d lines, want %d", a.text, b.text, changed, want)
		}
	}
}

// Texts whose shortest difference would take hours have a longer one.
func TestCostlyDiff(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	text := func(n int) []byte {
		var b []byte
		for range n {
			b = append(b, byte('a'+random.IntN(3)), '\n')
		}
		return b
	}
	for _, n := range []int{50_000, mostLines + 10} {
		a, b := Split(text(n)), Split(text(n))
		if got, _ := apply(t, a, b, Diff(a, b)); got != string(b.text) {
			t.Errorf("the edits of %d lines do not make the new text", n)
		}
	}
}

func FuzzDiff(f *testing.F) {
	f.Add("a\nb\nc\nd\n", "a\nc\nb\nd")
	f.Add("\n\n\x00", "\xff\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		a, b := Split([]byte(before)), Split([]byte(after))
		if got, _ := apply(t, a, b, Diff(a, b)); got != after {
			t.Errorf("%q to %q makes %q", before, after, got)
		}
	})
}
