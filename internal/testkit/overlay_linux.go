package testkit

import (
	"os"
	"syscall"
	"testing"
)

// RequireOverlays skips the test where a sandbox cannot have an overlay whose changes are in
// memory: kernels before Linux 6.6 keep no attributes of users there.
func RequireOverlays(t testing.TB) {
	t.Helper()
	f, err := os.CreateTemp("/dev/shm", "paddock-test-")
	if err != nil {
		t.Skip("no overlay can be had here: ", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := syscall.Setxattr(f.Name(), "user.paddock", nil, 0); err != nil {
		t.Skip("no overlay can be had here: ", err)
	}
}
