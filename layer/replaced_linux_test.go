package layer

import (
	"slices"
	"strings"
	"testing"
)

// Where the host keeps a repository's content elsewhere, and a link leads there, no directory takes
// the place of the link: all that lies behind it would be missing.
func TestCommitReplacedLink(t *testing.T) {
	for _, p := range []string{".git/objects", ".git/refs", ".git/lfs", ".git/lfs/objects", ".git/lfs/objects/ab"} {
		files := map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n", ".git/objects/x": "x", ".git/refs/x": "x"}
		delete(files, p+"/x")
		files[p] = "->" + t.TempDir()
		for _, accept := range [][]string{nil, {p}} {
			l := newLab(t, files)
			l.does(Retyped, p+"/", "")
			r := l.land(CommitOptions{Accept: accept})
			held := slices.ContainsFunc(r.Held, func(f Finding) bool { return f.Path == p })
			is, link := show(t, l.source)[p], "L"
			if landed := !strings.HasPrefix(is, link); landed != (accept != nil) || held == landed {
				t.Errorf("accepting %q, %s is %q and held is %t", accept, p, is, held)
			}
		}
	}
}
