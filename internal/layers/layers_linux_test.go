package layers

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/layerstore"
	"github.com/paddock-dev/paddock/layer"
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

// A change counts for what is at its path, below and instead of it, and where it came from.
func TestReplaces(t *testing.T) {
	dir := layer.Entry{Mode: fs.ModeDir | 0o755}
	for _, c := range []struct {
		change layer.Change
		rel    string
		want   bool
	}{
		{layer.Change{Kind: layer.Modified, Path: "bin/agent"}, "bin/agent", true},
		{layer.Change{Kind: layer.Deleted, Path: "bin"}, "bin/agent", true},
		{layer.Change{Kind: layer.Added, Path: "bin", New: dir}, "bin/agent", true},
		{layer.Change{Kind: layer.Renamed, Path: "bin", From: "was", New: dir}, "bin/agent", true},
		{layer.Change{Kind: layer.Renamed, Path: "now", From: "bin", New: dir}, "bin/agent", true},
		{layer.Change{Kind: layer.Added, Path: ".git/worktrees/x/gitdir"}, ".git/worktrees", true},
		{layer.Change{Kind: layer.Modified, Path: "bin", New: dir}, "bin/agent", false},
		{layer.Change{Kind: layer.Added, Path: "bin/other"}, "bin/agent", false},
		{layer.Change{Kind: layer.Added, Path: "bin/agent2"}, "bin/agent", false},
	} {
		if got := replaces(c.change, c.rel); got != c.want {
			t.Errorf("%c %s replaces %s: %t", c.change.Kind, c.change.Path, c.rel, got)
		}
	}
}

// Layers from which something has landed are found by their records, and by journals of commits that
// were interrupted; others are not.
func TestCommitted(t *testing.T) {
	dir := t.TempDir()
	if found, err := Committed(dir); err != nil || len(found) != 0 {
		t.Fatalf("without layers: %v, %v", found, err)
	}
	source := func(name string, then func(h *layerstore.Held) error) string {
		at := filepath.Join(dir, name)
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, "layers", name), 0o700); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(layerstore.Record{Version: 1, ID: name, Source: at, Place: at, Layers: []string{"0"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "layers", name, "record.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := layerstore.In(dir).Look(name)
		if err == nil {
			err = errors.Join(os.Mkdir(h.Journal(), 0o700), then(h))
		}
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	landed := source("landed", func(h *layerstore.Held) error {
		return h.SaveKnown(map[string]layer.Record{"": {Landed: true}, "bin": {Landed: true}, "bin/new": {Landed: true}, ".git": {}})
	})
	cut := source("interrupted", func(h *layerstore.Held) error {
		return os.WriteFile(filepath.Join(h.Journal(), "commit.landing"), nil, 0o600)
	})
	source("looked-at", func(h *layerstore.Held) error { return h.SaveKnown(map[string]layer.Record{"a": {}}) })
	unread := source("unreadable", func(h *layerstore.Held) error {
		return os.WriteFile(filepath.Join(filepath.Dir(h.Journal()), "known.json"), []byte("?"), 0o600)
	})
	found, err := Committed(dir)
	if err != nil || len(found) != 3 {
		t.Fatalf("%v, %v", found, err)
	}
	for _, c := range found {
		switch c.Source {
		case landed:
			for rel, want := range map[string]bool{"bin/new": true, "bin/agent": true, ".git": false, "other/agent": false} {
				if c.Landed(rel) != want {
					t.Errorf("something may have landed at %s: %t", rel, !want)
				}
			}
		case cut, unread:
			if c.Landed != nil {
				t.Errorf("%s: nobody knows what has landed", c.Source)
			}
		default:
			t.Errorf("nothing has landed in %s", c.Source)
		}
	}
}
