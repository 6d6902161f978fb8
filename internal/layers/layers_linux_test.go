package layers

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/backend"
)

// Of many layers that nobody ends, each start removes a part, until none is left.
func TestMakeSweepsSome(t *testing.T) {
	const many = 200
	dir := t.TempDir()
	all := filepath.Join(dir, "layers")
	for range many {
		half := filepath.Join(all, backend.NewID())
		if err := os.MkdirAll(half, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(half, time.Time{}, time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for starts, left := 1, many; left > 0; starts++ {
		if held, err := Make(t.Context(), dir, New{ID: backend.NewID(), Source: filepath.Join(dir, "missing")}); err == nil {
			held.Release()
			t.Fatal("a layer over nothing was made")
		}
		found, err := filepath.Glob(filepath.Join(all, "pd-*"))
		if err != nil || starts > many {
			t.Fatalf("after %d starts there are %d: %v", starts, len(found), err)
		}
		if now := len(found); left-now > 3*swept {
			t.Fatalf("one start removed %d of %d", left-now, left)
		} else {
			left = now
		}
	}
}

// A layer that is mounted again has recorded what was changed before, and since when.
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	source, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	id := backend.NewID()
	first, err := Make(t.Context(), dir, New{ID: id, Source: source})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(first.Dir(), "upper", "early"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	first.Release()
	var began, second time.Time
	for start := range 2 {
		h, err := Reopen(t.Context(), dir, id, source)
		if err != nil {
			t.Fatal(err)
		}
		of := h.(held)
		since, err := of.Since()
		began = of.Began.Realtime
		switch {
		case err != nil || !since["early"].Equal(began) || !of.Started.Realtime.After(began):
			t.Errorf("start %d: %v, started %v, began %v, %v", start, since, of.Started, began, err)
		case start == 0 && len(since) != 1, start == 1 && (len(since) != 2 || !since["late"].Equal(second)):
			t.Errorf("start %d: %v", start, since)
		}
		second = of.Started.Realtime
		if err := os.WriteFile(filepath.Join(h.Dir(), "upper", "late"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		h.Release()
	}
}
