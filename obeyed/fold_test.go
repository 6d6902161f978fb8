package obeyed

import (
	"strings"
	"testing"
)

func FuzzFoldName(f *testing.F) {
	for _, name := range []string{".git", ".GIT ", "git~1", "GI7EBA~1", ".g\u200cit", "\xff", "ſ", "\u212a"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		once := foldName(name)
		if twice := foldName(once); twice != once && !strings.Contains(once, "~") {
			t.Errorf("%q folds to %q, and that to %q", name, once, twice)
		}
	})
}
