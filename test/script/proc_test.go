package script

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// ttyModes are the local modes of the terminal behind a pty's master.
func ttyModes(t *testing.T, ptmx *os.File) uint32 {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(ptmx.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag
}
