package agent

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// initFile is where the inner init's program stands for the moment in which
// it is executed, in the new root before it becomes the root.
const initFile = "./.paddock-init"

// startInner makes the inner pid namespace, whose init mounts proc at path,
// and returns the init's pid. The calling thread's later children live in it.
//
// The init is a program of a few instructions that waits for ever (see
// initProgram). It executes nothing else, has default dispositions for every
// signal, so that the kernel protects it from all that its own namespace
// sends, and ignores SIGCHLD, so that the kernel reaps its orphans. Its file
// cannot be read, which makes it undumpable from its first instruction on:
// commands share its uid and could trace it otherwise.
func startInner(path string) (int, error) {
	if err := unix.Unshare(unix.CLONE_NEWPID); err != nil {
		return 0, os.NewSyscallError("unshare", err)
	}
	if err := os.WriteFile(initFile, initProgram(), 0o111); err != nil {
		return 0, err
	}
	defer os.Remove(initFile)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, os.NewSyscallError("pipe2", err)
	}
	defer unix.Close(pipe[0])
	child, err := clone.Begin(&clone.Command{
		Path:           initFile,
		Argv:           []string{"paddock-init"},
		Files:          []int{pipe[1]},
		Mount:          &clone.Mount{Type: "proc", Target: path},
		IgnoreChildren: true,
	}, 0, false)
	_ = unix.Close(pipe[1])
	if err != nil {
		return 0, err
	}
	_ = unix.Close(child.PIDFD)
	if err := child.Wait(); err != nil {
		return 0, err
	}
	// The program closes its descriptors once it is where it is to stay.
	var b [1]byte
	if _, err := unix.Read(pipe[0], b[:]); err != nil {
		return 0, os.NewSyscallError("read", err)
	}
	return child.PID, nil
}
