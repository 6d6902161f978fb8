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
