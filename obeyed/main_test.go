package obeyed

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/paddock-dev/paddock/backend/hostpath"
)

// TestMain has the usual place of state be one in which nobody keeps any.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "paddock-usual-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	hostpath.RootState = filepath.Join(dir, "paddock")
	_ = os.Setenv("XDG_STATE_HOME", dir)
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
