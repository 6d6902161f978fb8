package changes

import (
	"strings"
	"testing"
)

// The result says that git's history landed where something is held back.
func TestCommitHistory(t *testing.T) {
	for path, want := range map[string]bool{
		".git/objects/ab/cd": true, ".git/refs/heads/x": true, "sub/.git/packed-refs": true, ".git/index": true,
		".git/HEAD": false, ".git/logs/HEAD": false, "src/objects/x": false, "a.git/refs/x": false,
	} {
		if got := isHistory(Change{Path: path}); got != want {
			t.Errorf("%s is history: %t, want %t", path, got, want)
		}
	}
	var b strings.Builder
	out := CommitOutput{ID: "x", Held: []Finding{{Path: ".envrc", State: "held"}}, HistoryLanded: true}
	if err := out.Render(&b); err != nil || !strings.Contains(b.String(), "git's history lands, too") {
		t.Errorf("it says %q (%v)", b.String(), err)
	}
}
