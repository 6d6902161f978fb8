//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Attacks that use up what everybody shares. Each stops by itself at a number
// that does no harm, which is its success, and gives everything back.
var _ = register(map[string]attack{
	"bomb-processes":   bomb(processes),
	"bomb-descriptors": bomb(descriptors),
	"bomb-memory":      bomb(memory),
	"bomb-cpu":         bomb(processor),
	"fork-bomb":        only(func([]string) error { return forkBomb() }),
	"bomb-space":       only(func(args []string) error { return space(args[0], number(args[1])<<20) }),
	"bomb-inodes":      only(func(args []string) error { return inodes(args[0], number(args[1])) }),
})

func bomb(do func(n int) error) attack {
	return only(func(args []string) error { return do(number(args[0])) })
}

// processes starts n of them.
func processes(n int) error {
	var children []*exec.Cmd
	defer func() {
		for _, c := range children {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}()
	for range n {
		c := exec.Command("sleep", "60")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			return err
		}
		children = append(children, c)
	}
	return nil
}

// forkBomb never ends, and grows as it can. It has no control.
func forkBomb() error {
	runtime.LockOSThread()
	for {
		_, _ = call(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0) // both go on
	}
}

func descriptors(n int) error {
	for range n {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
	}
	return nil
}

// memory uses n MiB.
func memory(n int) error {
	m, err := unix.Mmap(-1, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	for i := 0; i < len(m); i += 4096 {
		m[i] = 1
	}
	return unix.Munmap(m)
}

// processor uses n milliseconds of its time.
func processor(n int) error {
	for {
		var used unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &used); err != nil || used.Nano() >= int64(n)*1e6 {
			return err
		}
	}
}

// space writes a file of that many bytes into a directory.
func space(dir string, bytes int) error {
	signal.Ignore(unix.SIGXFSZ)
	f, err := os.CreateTemp(dir, "bomb")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	chunk := make([]byte, 1<<20)
	for ; bytes > 0; bytes -= len(chunk) {
		if _, err := f.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// inodes makes n empty files in a directory.
func inodes(dir string, n int) error {
	dir, err := os.MkdirTemp(dir, "bomb")
	if err != nil {
		return err
	}
	var failed error
	for i := 0; i < n && failed == nil; i++ {
		failed = os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600)
	}
	return errors.Join(failed, os.RemoveAll(dir))
}
