package layerstore

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// What was shown is kept by principal, whatever the paths are, and no writer loses what another one
// has written, also while a sandbox has the layer.
func TestShown(t *testing.T) {
	s, source := newStore(t)
	h := s.mustMake(t, New{ID: "pd-a", Source: source})
	if all, err := h.Shown(); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	var writers sync.WaitGroup
	for n := range 8 {
		writers.Go(func() {
			looker, err := s.Look("pd-a")
			if err != nil {
				t.Error(err)
				return
			}
			if err := looker.UpdateShown(false, func(all map[string]*Shown) {
				if all["user:a"] == nil {
					all["user:a"] = &Shown{map[string]bool{"d\xff\n": true}, map[string]ShownPath{}}
				}
				all["user:a"].Paths["a\xff\n"+strconv.Itoa(n)] = ShownPath{[]byte{byte(n)}, n%2 == 0}
			}); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	all, err := h.Shown()
	if err != nil || len(all) != 1 || len(all["user:a"].Paths) != 8 || !all["user:a"].Scopes["d\xff\n"] {
		t.Fatalf("%+v, %v", all, err)
	}
	for n := range 8 {
		if got := all["user:a"].Paths["a\xff\n"+strconv.Itoa(n)]; len(got.Sum) != 1 || got.Sum[0] != byte(n) || got.Whole != (n%2 == 0) {
			t.Errorf("%d: %+v", n, got)
		}
	}
	if err := h.UpdateShown(false, func(all map[string]*Shown) { maps.DeleteFunc(all, func(string, *Shown) bool { return true }) }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(h.dir, shownName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without anything shown: %v", err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(h.dir, shownName)); err != nil {
		t.Fatal(err)
	}
	var damaged *ShownError
	if _, err := h.Shown(); !errors.As(err, &damaged) {
		t.Errorf("a link: %v", err)
	}
	if err := h.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.UpdateShown(true, func(map[string]*Shown) {}); err == nil {
		t.Error("of a layer that is gone something was recorded")
	}
}
