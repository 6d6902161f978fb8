package audit

import (
	"os"
	"path/filepath"
	"testing"
)

// What one log knows of the file that it wrote last is only so until somebody else
// has written, begun a file, or put another in its place.
func TestSharedLog(t *testing.T) {
	mine, dir := newLog(t, 1)
	theirs := At(dir, mine.opts)
	t.Cleanup(func() { _ = theirs.Close() })
	for range 30 { // both begin files
		add(t, mine, 2, MaxRecord/3)
		add(t, theirs, 3, MaxRecord/3)
	}
	last := add(t, mine, 1, 1)
	if report := verify(t, dir, last.Hash); !report.OK || report.Seq < 152 || report.Pruned == 0 {
		t.Fatalf("%+v", report)
	}

	numbers, err := mine.dir.numbers()
	if err != nil {
		t.Fatal(err)
	}
	newest := filepath.Join(dir, fileName(numbers[len(numbers)-1]))
	before, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	copied := newest + ".copy"
	if err := os.WriteFile(copied, before, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(copied, newest); err != nil { // of the same size, and another file
		t.Fatal(err)
	}
	last = add(t, mine, 1, 1)
	if report := verify(t, dir, last.Hash); !report.OK {
		t.Errorf("in a file that took its place: %+v", report)
	}
	if err := os.Remove(newest); err != nil {
		t.Fatal(err)
	}
	add(t, mine, 1, 1)
	after, err := mine.dir.numbers()
	if err != nil || len(after) == 0 {
		t.Fatal(after, err)
	}
	if text := read(t, dir, after[len(after)-1]); len(text) == 0 {
		t.Error("a record went into a file that is gone")
	}
}
