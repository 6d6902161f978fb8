package confine

import (
	"fmt"
	"syscall"
)

// Error is a step that failed. It crosses from the new process to the host
// side as JSON.
type Error struct {
	Stage  string `json:"stage"`            // "setup", "spawn"
	Op     string `json:"op"`               // the step's operation or the system call
	Object string `json:"object,omitempty"` // a path, an interface, a resource
	Errno  int    `json:"errno,omitempty"`
	Cause  string `json:"cause,omitempty"` // where there is no errno
	Hint   string `json:"hint,omitempty"`
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
