package patch

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestDiff: a diff, applied, makes the second text of the first.
func TestDiff(t *testing.T) {
	for seed := range uint64(300) {
		d := dice{rand.New(rand.NewPCG(seed, 1))}
		before := d.text(d.IntN(80))
		after := d.edit(before)
		if seed%10 == 0 {
			after = d.text(d.IntN(900)) // nothing of it stays
		}
		diff := Diff(before, after)
		if string(before) == string(after) {
			if diff != "" {
				t.Errorf("seed %d: the same has a diff:\n%s", seed, diff)
			}
			continue
		}
		header := "--- a/f\n+++ b/f\n"
		if len(before) == 0 {
			header = "--- /dev/null\n+++ b/f\n"
		}
		tree := memory{"f": {before, 0o644}}
		if len(before) == 0 {
			tree = memory{}
		}
		got, r, err := applied(tree, header+diff, Options{})
		if err != nil || string(got["f"].Content) != string(after) {
			t.Fatalf("seed %d: %v\n%q\n%q\n%s", seed, err, before, after, diff)
		}
		for _, h := range r.Changes[0].Hunks {
			if h.Offset != 0 {
				t.Errorf("seed %d: a hunk is %d lines from where it says", seed, h.Offset)
			}
		}
	}
}

func TestDiffIsShort(t *testing.T) {
	before := numbered(2000)
	after := strings.ReplaceAll(before, "line 1000\n", "line M\n")
	after = strings.ReplaceAll(after, "line 1500\n", "")
	want := "@@ -997,7 +997,7 @@\n line 997\n line 998\n line 999\n-line 1000\n+line M\n line 1001\n line 1002\n line 1003\n" +
		"@@ -1497,7 +1497,6 @@\n line 1497\n line 1498\n line 1499\n-line 1500\n line 1501\n line 1502\n line 1503\n"
	if got := Diff([]byte(before), []byte(after)); got != want {
		t.Errorf("the diff is\n%s", got)
	}
	if got := Diff([]byte("a"), []byte("a\n")); got != "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n" {
		t.Errorf("the diff of an end is\n%s", got)
	}
}
