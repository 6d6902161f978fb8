package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// capsetEnv makes the test's program reduce its threads.
const capsetEnv = "PADDOCK_CONFINE_CAPSET"

// Every thread loses what is not kept, also one that waits in the kernel, one that computes, and
// those that begin meanwhile.
func TestCapsetEach(t *testing.T) {
	for _, how := range []string{"each", "any"} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), capsetEnv+"="+how, "GORACE=atexit_sleep_ms=0")
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  unix.CLONE_NEWUSER,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
			}
			out, err := cmd.CombinedOutput()
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				t.Skipf("user namespaces are forbidden here: %v", err)
			}
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// capsetChild is what the test's program does.
func capsetChild(how string) error {
	runtime.LockOSThread()
	var end atomic.Bool
	defer end.Store(true)
	locked := func(f func()) {
		began := make(chan bool)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			close(began)
			f()
		}()
		<-began
	}
	for range 8 {
		locked(func() { _ = unix.Pause() })
	}
	locked(func() {
		for !end.Load() {
		}
	})
	go func() {
		for !end.Load() {
			locked(func() {})
		}
	}()

	var all, keep [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &all[0]); err != nil {
		return err
	}
	keep[0].Permitted = 1 << unix.CAP_SYS_ADMIN
	keep[0].Effective = keep[0].Permitted
	if tid, err := unreducedThread(keep); err != nil || tid == 0 {
		return fmt.Errorf("nothing can be reduced: %w", err)
	}
	reduce := capsetEach
	if how == "any" {
		reduce = capset
	}
	if err := reduce(0, keep); err != nil {
		return err
	}
	for range 10 {
		if tid, err := unreducedThread(keep); err != nil || tid != 0 {
			return fmt.Errorf("thread %d has kept more: %w", tid, err)
		}
	}
	if err := reduce(0, all); !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("more can be had again: %w", err)
	}
	return nil
}

// unreducedThread is unreduced, and signals no thread.
func unreducedThread(set [2]unix.CapUserData) (int, error) {
	tasks, err := os.Open("/proc/self/task")
	if err != nil {
		return 0, err
	}
	defer tasks.Close()
	names, err := tasks.Readdirnames(0)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		var tid int
		more, err := hasMore(int(tasks.Fd()), name, set)
		if _, serr := fmt.Sscan(name, &tid); err != nil || serr != nil || more {
			return tid, errors.Join(err, serr)
		}
	}
	return 0, nil
}
