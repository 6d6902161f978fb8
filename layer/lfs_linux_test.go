package layer

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/layer/delta"
)

// lfsPath returns where git LFS keeps a content.
func lfsPath(content string) string {
	sum := sha256.Sum256([]byte(content))
	name := hex.EncodeToString(sum[:])
	return ".git/lfs/objects/" + name[:2] + "/" + name[2:4] + "/" + name
}

// The objects of git LFS land with the history that names them. What only looks like one, and what
// else is in its directory, does not.
func TestCommitLFS(t *testing.T) {
	l := newLab(t, map[string]string{".git/HEAD": "ref: x", ".git/objects/": "", ".git/refs/": "", lfsPath("is there"): "is there", lfsPath("is pruned"): "is pruned"})
	dirs := map[string]bool{}
	does := func(kind Kind, p, content string) {
		t.Helper()
		names := strings.Split(p, "/")
		for n := 2; kind == Added && n < len(names); n++ {
			dir := strings.Join(names[:n], "/")
			if _, err := os.Lstat(l.source + "/" + dir); err != nil && !dirs[dir] {
				dirs[dir] = true
				l.does(Added, dir+"/", "")
			}
		}
		l.does(kind, p, content)
	}
	large := strings.Repeat("large ", 1<<20)
	lands := map[string]string{lfsPath("small"): "small", lfsPath(large): large, ".git/refs/heads": "branch", ".git/objects/ab": "blob"}
	for p, content := range lands {
		does(Added, p, content)
	}
	short := lfsPath("short")
	held := map[string]string{
		lfsPath("right"):     "wrong",
		lfsPath("a link"):    "->" + strings.Repeat("../", 8) + "etc/passwd",
		lfsPath("a pipe"):    "|",
		short[:len(short)-1]: "short",
		".git/lfs/objects/00/11/" + lfsPath("elsewhere")[23:]: "elsewhere",
		lfsPath("in a directory") + "/x":                      "x",
		".git/lfs/cache/locks/refs":                           "x",
		".git/lfs/tmp/objects/x":                              "x",
		".git/lfs/hooks/pre-push":                             "x",
		".git/lfs/objects/logs":                               "x",
		".git/lfs/objects/AB/CD/x":                            "x",
		"sub/.git/lfs/objects/aa/bb/.git/HEAD":                "x",
	}
	for p, content := range held {
		does(Added, p, content)
	}
	does(Modified, lfsPath("is there"), "is bad!!")
	does(Deleted, lfsPath("is pruned"), "")
	r := l.land(CommitOptions{})
	got := show(t, l.source)
	for p, content := range lands {
		if want := regular + content; len(content) < 1<<20 && got[p] != want || got[p] == "" {
			t.Errorf("%s is %q, want %q", p, got[p], want)
		}
	}
	for p := range held {
		if got[p] != "" {
			t.Errorf("%s has landed: %q", p, got[p])
		}
	}
	for _, content := range []string{"is there", "is pruned"} {
		if got[lfsPath(content)] != regular+content {
			t.Errorf("what %s became %q", content, got[lfsPath(content)])
		}
	}
	for p := range got {
		for _, not := range []string{".git/lfs/cache", ".git/lfs/tmp", ".git/lfs/hooks"} {
			if delta.In(p, not) {
				t.Errorf("%s has landed", p)
			}
		}
	}
	told := map[string]string{}
	for _, f := range r.Held {
		told[f.Path] = f.Why
	}
	for p, want := range map[string]string{
		lfsPath("right"): "its content is not what its name says", lfsPath("is there"): "its content is not what its name says",
		lfsPath("is pruned"): "it is removed", lfsPath("a link"): "git LFS has a directory or a regular file there", ".git/lfs/tmp": "only objects land",
	} {
		if !strings.Contains(told[p], want) {
			t.Errorf("%s is held because %q, want %q", p, told[p], want)
		}
	}
	l.changes = nil
	l.changed(Added, lfsPath("right"), "")
	l.land(CommitOptions{Accept: []string{".git/lfs/objects"}, Known: r.Records})
	if got := show(t, l.source)[lfsPath("right")]; got != regular+"wrong" {
		t.Errorf("what is accepted is %q", got)
	}
}
