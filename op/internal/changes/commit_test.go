package changes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/osstring"
)

// The result says that git's history landed where something is held back.
func TestCommitHistory(t *testing.T) {
	for path, want := range map[string]bool{
		".git/objects/ab/cd": true, ".git/refs/heads/x": true, "sub/.git/packed-refs": true, ".git/index": true,
		".git/HEAD": false, ".git/logs/HEAD": false, "src/objects/x": false, "a.git/refs/x": false,
	} {
		if got := isHistory(Change{Path: osstring.String(path)}); got != want {
			t.Errorf("%s is history: %t, want %t", path, got, want)
		}
	}
	var b strings.Builder
	out := CommitOutput{ID: "x", Held: []Finding{{Path: ".envrc", State: "held"}}, HistoryLanded: true}
	if err := out.Render(&b); err != nil || !strings.Contains(b.String(), "git's history lands, too") {
		t.Errorf("it says %q (%v)", b.String(), err)
	}
}

// Where history lands without files of git LFS, the result names what to accept for exactly these.
func TestCommitLFS(t *testing.T) {
	held := []Finding{{Path: ".envrc", State: "held"}}
	for n := range 20 {
		held = append(held, Finding{Path: osstring.String(fmt.Sprintf("src/%02d", n)), State: "held"})
	}
	one := append(slices.Clone(held), Finding{Path: ".git/lfs/objects/ab/cd/abcd1", State: "held", Tool: "git-lfs"}, Finding{Path: ".git/lfs/objects/x", State: "never"})
	two := append(slices.Clone(one), Finding{Path: ".git/lfs/objects/ab/cd/abcd2", State: "held", Tool: "git-lfs"}, Finding{Path: "my repo.git/lfs/objects/ab/cd/abcd2", State: "held", Tool: "git-lfs"})
	for want, held := range map[string][]Finding{
		"": held,
		"paddock commit --accept .git/lfs/objects/ab/cd/abcd1 x\n":                                    one,
		"paddock commit --accept .git/lfs/objects --accept 'my repo.git/lfs/objects/ab/cd/abcd2' x\n": two,
	} {
		var b strings.Builder
		if err := (CommitOutput{ID: "x", Held: held, HistoryLanded: true}).Render(&b); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); strings.Contains(got, "git LFS") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}
