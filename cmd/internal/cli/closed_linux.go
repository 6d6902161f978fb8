package cli

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// openedEnv is set for a program that was started again by [openClosed].
const openedEnv = "PADDOCK_OPENS_CLOSED"

// openClosed runs this program again, with the same arguments, in a user namespace of its own, in
// which the user may read what commands closed to everybody, and nothing else. It returns the
// status, and false where that cannot be had, or was done already.
func openClosed() (status int, ran bool) {
	if os.Geteuid() == 0 || os.Getenv(openedEnv) != "" {
		return 0, false
	}
	again := exec.Command("/proc/self/exe")
	again.Args = os.Args
	again.Env = append(os.Environ(), openedEnv+"=1")
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH},
		Pdeathsig:   unix.SIGKILL,
	}
	runtime.LockOSThread() // it dies with the thread
	defer runtime.UnlockOSThread()
	if err := again.Start(); err != nil {
		return 0, false
	}
	err := again.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode(), true
	}
	if err != nil {
		return statusFailed, true
	}
	return 0, true
}
