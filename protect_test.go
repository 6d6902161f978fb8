package paddock

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/obeyed"
	"github.com/paddock-dev/paddock/policy"
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

// TestProtectInterrupted: whoever gives up while a workspace is searched is not told to open it.
func TestProtectInterrupted(t *testing.T) {
	late, cancelLate := context.WithTimeout(t.Context(), 0)
	defer cancelLate()
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	for name, ctx := range map[string]context.Context{"interrupted": interrupted, "late": late} {
		req := backend.Request{Spec: Spec{Backend: policy.BackendLinux, Workspace: Workspace{Source: t.TempDir()}}}
		_, err := Options{}.protect(ctx, &req)
		if err == nil || !errors.Is(err, context.Cause(ctx)) {
			t.Errorf("%s: %v", name, err)
		}
		if e := (*Error)(nil); errors.As(err, &e) && e.Hint != "" {
			t.Errorf("%s: hint %s", name, e.Hint)
		}
	}
}
