package files

import (
	"context"
	"testing"
)

// TestCancelledWait: who waits for another's change stops when its caller goes.
func TestCancelledWait(t *testing.T) {
	unlock, err := changes.lock(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := changes.lock(ctx, "one"); err == nil {
		t.Error("it has come")
	}
	unlock()
	if unlock, err = changes.lock(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	unlock()
	if len(changes.waiting) != 0 {
		t.Errorf("%d are waited for", len(changes.waiting))
	}
}
