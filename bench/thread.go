//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// hybrid is where hosts that are half way between the two versions of cgroups
// mount the second one.
const hybrid = "/sys/fs/cgroup/unified"

// thread is an operating system thread with mounts of its own, which what it
// starts inherits. On a nil thread everything runs where it is called.
type thread chan func()

// threadFor gives a runtime the place it needs: crun starts on no hybrid host
// where cgroup v2 has a controller, whether or not it is to use cgroups, and
// so it must not see that mount. The others take the host as it is.
func threadFor(runtime string) (thread, error) {
	if controllers, _ := os.ReadFile(hybrid + "/cgroup.controllers"); runtime != "crun" || len(controllers) == 0 {
		return nil, nil
	}
	return newThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		return unix.Unmount(hybrid, unix.MNT_DETACH)
	})
}

// newThread starts a thread for as long as the program runs.
func newThread(prepare func() error) (thread, error) {
	t := make(thread)
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: its mounts are its own for good
		err := prepare()
		ready <- err
		if err != nil {
			return
		}
		for f := range t {
			f()
		}
	}()
	if err := <-ready; err != nil {
		return nil, fmt.Errorf("cannot hide %s: %w", hybrid, err)
	}
	return t, nil
}

// do calls f on the thread and waits for it.
func (t thread) do(f func()) {
	if t == nil {
		f()
		return
	}
	done := make(chan struct{})
	t <- func() {
		defer close(done)
		f()
	}
	<-done
}

// bind has a case run on the thread.
func (t thread) bind(c *benchCase) *benchCase {
	run := c.run
	c.run = func(ctx context.Context) (took time.Duration, err error) {
		t.do(func() { took, err = run(ctx) })
		return took, err
	}
	return c
}
