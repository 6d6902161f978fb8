package confine

import (
	"fmt"
	"syscall"
)

// Error is a step that failed. It crosses from the new process to the host
// side (see [Booted]).
type Error struct {
	Stage  string // "setup", "spawn"
	Op     string // the step's operation or the system call
	Object string // a path, an interface, a resource
	Errno  int
	Cause  string // where there is no errno
	Hint   string
}

// Error says what could not be done and why.
func (e *Error) Error() string {
	cause := e.Cause
	if e.Errno != 0 {
		cause = syscall.Errno(e.Errno).Error()
	}
	if e.Object == "" {
		return fmt.Sprintf("cannot apply %s (%s): %s", e.Op, e.Stage, cause)
	}
	return fmt.Sprintf("cannot apply %s to %s (%s): %s", e.Op, e.Object, e.Stage, cause)
}

// Unwrap gives the errno, so that errors.Is(err, fs.ErrPermission) works.
func (e *Error) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return syscall.Errno(e.Errno)
}
