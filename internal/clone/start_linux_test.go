package clone

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// startTrue starts /bin/true by way of Start.
func startTrue(between func(int) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	pid, pidfd, err := Start(&Command{Path: "/bin/true", Argv: []string{"true"}, Dir: "/",
		Files: []int{int(null.Fd()), int(null.Fd()), int(null.Fd())}}, 0, between)
	if err != nil {
		return err
	}
	_ = unix.Close(pidfd)
	wait(pid)
	return nil
}

func TestStartErrors(t *testing.T) {
	mine := errors.New("mine")
	if err := startTrue(func(int) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("an error between: got %v", err)
	}
	_, _, err := Start(&Command{Path: "/nonexistent", Argv: []string{"x"}}, 0, func(int) error { return nil })
	var e *Error
	if !errors.As(err, &e) || e.Stage != StageExec || e.Errno != syscall.ENOENT {
		t.Errorf("a missing program: got %v", err)
	}
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("a child is left: %v", err)
	}
}

// TestStartStress starts children on stacks of their own while the parent
// allocates, collects and takes signals: what either did to the other's
// memory would show here.
func TestStartStress(t *testing.T) {
	done := make(chan error, 4)
	for range cap(done) {
		go func() {
			for range 40 {
				garbage := make([][]byte, 0, 64)
				err := startTrue(func(int) error {
					for range 64 {
						garbage = append(garbage, make([]byte, 4096))
					}
					runtime.GC()
					return nil
				})
				if err != nil || len(garbage) != 64 {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestIdle(t *testing.T) {
	p, err := Idle(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(p.PID, 0); err != nil {
		t.Errorf("the process is not there: %v", err)
	}
	p.End()
	if err := syscall.Kill(p.PID, 0); err != syscall.ESRCH {
		t.Errorf("the process is still there: %v", err)
	}
}
