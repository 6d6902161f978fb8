package paddock

import (
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/obeyed"
)

// What is told of git's configuration is short, and shows names that commands
// chose without what a terminal obeys.
func TestLosses(t *testing.T) {
	lost := losses(obeyed.Protection{Unread: make([]string, 100), Lost: []string{"cannot look"}})
	if len(lost) != maxUnread+2 || !strings.HasPrefix(lost[maxUnread], "92 more files") || lost[maxUnread+1] != "cannot look" {
		t.Errorf("of many: %q", lost)
	}
	if lost = losses(obeyed.Protection{Unread: []string{"/w/\x1b]0;x\a/.git"}}); len(lost) != 1 || !strings.Contains(lost[0], ` /w/\x1b]0;x\a/.git `) {
		t.Errorf("it says %q", lost)
	}
}
