package arch

import (
	"slices"
	"sync"
	"testing"

	"github.com/paddock-dev/paddock/test/shape/tree"
)

var product = sync.OnceValues(func() (*tree.Tree, error) { return tree.Load(root()) })

// ARCHITECTURE lists the files that three values pass on their way. Calls are
// followed by types: no call that carries a value leaves its list, and each file
// in it is called from one that stands before it, or gets the value from a table,
// a channel or the wire.
func TestWalks(t *testing.T) {
	code, err := product()
	if err != nil {
		t.Fatal(err)
	}
	paper := string(read(t, "ARCHITECTURE.md"))
	for _, w := range tree.Walks {
		t.Run(w.Name, func(t *testing.T) {
			walked, err := code.Files(w)
			if err != nil {
				t.Fatalf("%v: change test/shape/tree/walks.go with the code", err)
			}
			listed, err := tree.Listed(paper, w)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range walked {
				if !slices.Contains(listed, file) {
					t.Errorf("the value comes to %s, which ARCHITECTURE.md does not list", file)
				}
			}
			for _, file := range listed {
				if !slices.Contains(walked, file) {
					t.Errorf("the value does not come to %s, which ARCHITECTURE.md lists", file)
				}
			}
			if t.Failed() {
				t.Log(`"make shape SHAPEARGS=-write" writes the list anew; a walk that grows needs a reason`)
			}
		})
	}
}

// A package is a subject: one that nobody can survey gets no company. Those that
// are larger may shrink, and their bounds with them.
func TestPackageSize(t *testing.T) {
	const most = 30 // files, without tests
	larger := map[string]int{
		"agent":            88,
		"backend/hostpath": 45,
		"backend/linux":    31,
		"op":               115,
		"wire":             35,
	}
	files, err := tree.Packages(root())
	if err != nil {
		t.Fatal(err)
	}
	for dir, n := range files {
		if bound := max(most, larger[dir]); n > bound {
			t.Errorf("%s has %d files, want at most %d", dir, n, bound)
		}
	}
}
