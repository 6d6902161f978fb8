package clone

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Begin clones a child from the calling thread, which must be locked to its
// goroutine; the child inherits the thread's namespaces, filters and Landlock
// domain, and flags (CLONE_*) give it namespaces of its own. With hold, the
// child waits for [Child.Release] before it does anything.
//
// Begin does not wait for the program: [Child.Wait] does, and must be called.
// An error is an *Error, and there is no child.
func Begin(c *Command, flags uintptr, hold bool) (*Child, error) {
	im, err := newImage(c)
	if err != nil {
		return nil, &Error{Stage: StageExec, Errno: errnoOf(err)}
	}
	// Children that are cloned at the same time must not hold each other's gates.
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	ours, theirs, err := gate(len(c.Files))
	if err != nil {
		return nil, &Error{Stage: StageClone, Errno: errnoOf(err)}
	}
	if hold {
		im.gate, im.gatePeer = theirs, ours
	}
	child, err := newChild(flags, im, ours)
	_ = unix.Close(theirs)
	if err != nil {
		_ = unix.Close(ours)
		return nil, err
	}
	return child, nil
}

// Release lets a held child go on.
func (c *Child) Release() error {
	_, err := unix.Write(c.gate, []byte{1})
	return err
}

// Wait returns once the child's program has been executed. An *Error says
// that it has not, and where the child failed; like a child that was killed on
// its way, which is no error here, it has ended then and is to be reaped.
func (c *Child) Wait() error {
	var b [1]byte
	for {
		if _, err := unix.Read(c.gate, b[:]); err != unix.EINTR {
			break
		}
	}
	c.release()
	defer runtime.KeepAlive(c.image)
	if c.image.errno != 0 {
		return &Error{Stage: c.image.stage, Errno: c.image.errno}
	}
	return nil
}

// Run clones a child in new namespaces, calls between with its pid while it is
// held, and returns once its program has been executed. After an error, an
// *Error or between's own, no process is left.
func Run(c *Command, flags uintptr, between func(pid int) error) (*Child, error) {
	child, err := Begin(c, flags, true)
	if err != nil {
		return nil, err
	}
	if err = between(child.PID); err == nil {
		err = child.Release()
	}
	if err == nil {
		err = child.Wait()
	}
	if err != nil {
		child.End()
		return nil, err
	}
	return child, nil
}

// gate makes the socket pair that holds a child back and tells of its program:
// the child's end closes when that is executed, and not before, as its number
// is above those that the program's descriptors take.
func gate(above int) (ours, theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, err
	}
	if pair[1] >= above {
		return pair[0], pair[1], nil
	}
	theirs, err = unix.FcntlInt(uintptr(pair[1]), unix.F_DUPFD_CLOEXEC, above)
	_ = unix.Close(pair[1])
	if err != nil {
		_ = unix.Close(pair[0])
	}
	return pair[0], theirs, err
}
