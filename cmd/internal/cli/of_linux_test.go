package cli

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// What this process was started with stays its own.
func TestKeepOpenFiles(t *testing.T) {
	fd, err := unix.Dup(int(os.Stdin.Fd())) // not closed on exec, as a shell's
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	flags := func() int {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil {
			t.Fatal(err)
		}
		return flags
	}
	if flags()&unix.FD_CLOEXEC != 0 {
		t.Fatal("the control is closed on exec")
	}
	if keepOpenFiles(); flags()&unix.FD_CLOEXEC == 0 {
		t.Error("a program that is started has it too")
	}
}
