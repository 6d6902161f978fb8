package script

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// processState is the state letter of a process, empty where it is gone.
func processState(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	// The name before it may hold anything, but no later parenthesis.
	_, after, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	state, _, _ := strings.Cut(after, " ")
	return state
}

// ttyModes are the local modes of the terminal behind a pty's master.
func ttyModes(t *testing.T, ptmx *os.File) uint32 {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(ptmx.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag
}
