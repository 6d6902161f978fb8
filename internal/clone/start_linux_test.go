package clone

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// startTrue starts /bin/true by way of Run.
func startTrue(between func(int) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	child, err := Run(&Command{Path: "/bin/true", Argv: []string{"true"}, Dir: "/",
		Files: []int{int(null.Fd()), int(null.Fd()), int(null.Fd())}}, 0, between)
	if err != nil {
		return err
	}
	var status syscall.WaitStatus
	_, err = syscall.Wait4(child.PID, &status, 0, nil)
	_ = unix.Close(child.PIDFD)
	if err == nil && status.ExitStatus() != 0 {
		err = errors.New("true is false")
	}
	return err
}

func TestRunErrors(t *testing.T) {
	mine := errors.New("mine")
	if err := startTrue(func(int) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("an error between: got %v", err)
	}
	_, err := Run(&Command{Path: "/nonexistent", Argv: []string{"x"}}, 0, func(int) error { return nil })
	var e *Error
	if !errors.As(err, &e) || e.Stage != StageExec || e.Errno != syscall.ENOENT {
		t.Errorf("a missing program: got %v", err)
	}
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("a child is left: %v", err)
	}
}

// TestRunStress starts children on stacks of their own while the parent
// allocates, collects and takes signals: what either did to the other's
// memory would show here.
func TestRunStress(t *testing.T) {
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

// TestStopped stops a child on its way: its parent goes on, and can end it.
func TestStopped(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child, err := Begin(&Command{Path: "/bin/true", Argv: []string{"true"}, Dir: "/"}, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.PidfdSendSignal(child.PIDFD, unix.SIGSTOP, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := child.Release(); err != nil {
		t.Fatal(err)
	}
	runtime.GC() // a parent that stood still could not
	if err := unix.PidfdSendSignal(child.PIDFD, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Errorf("killed on its way: %v", err)
	}
	child.End()
}
