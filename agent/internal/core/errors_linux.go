package core

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/wire"
)

// StartError returns the error for a command that could not be cloned, with a hint for
// the caller.
func StartError(name, dir string, err error) *wire.Error {
	e := &wire.Error{Code: wire.CodeStart, Object: name, Message: "cannot run " + name + ": " + err.Error()}
	var failed *clone.Error
	if !errors.As(err, &failed) {
		return e
	}
	e.Errno = int(failed.Errno)
	switch {
	case failed.Stage == clone.StageDir:
		e.Code, e.Object = wire.CodeBadCwd, dir
		e.Message = "cannot use " + dir + " as working directory: " + failed.Errno.Error()
		e.Hint = "give a path inside the sandbox, where the workspace is /workspace"
	case failed.Stage != clone.StageExec:
	case failed.Errno == unix.ENOENT || failed.Errno == unix.ENOTDIR:
		e.Code, e.Message = wire.CodeNotFound, "cannot run "+name+": "+failed.Errno.Error()
		e.Hint = "the file, or the interpreter that its first line names, is not visible in the sandbox"
	case failed.Errno == unix.E2BIG:
		e.Code, e.Message = wire.CodeNotExecutable, "cannot run "+name+": its arguments and environment are larger than the kernel allows"
	default:
		e.Code, e.Message = wire.CodeNotExecutable, "cannot run "+name+": "+failed.Errno.Error()
	}
	return e
}

// FileError returns the error for an operation on a path that failed.
func FileError(verb string, p Path, err error) error {
	var link *beneath.LinkError
	var errno unix.Errno
	_ = errors.As(err, &errno)
	e := &wire.Error{Code: wire.CodeFailed, Object: p.Text, Errno: int(errno)}
	switch {
	case errors.As(err, &link) && link.Link:
		e.Code, e.Message = wire.CodeConflict, "workspace path would traverse through a symlinked parent: "+p.Text
	case errno == unix.ENOENT, link != nil && verb == "open":
		e.Code, e.Message = wire.CodeNotFound, "workspace path does not exist: "+p.Text
	case link != nil:
		e.Code, e.Message = wire.CodeConflict, "cannot "+verb+" "+p.Text+": a parent is not a directory"
	case errno != 0:
		e.Message = "cannot " + verb + " " + p.Text + ": " + errno.Error()
	default:
		e.Message = "cannot " + verb + " " + p.Text + ": " + err.Error()
	}
	return e
}

// BadField returns the error for a request with an invalid value in the field name.
func BadField(name, text string) error {
	return &wire.Error{Code: wire.CodeBadRequest, Object: name, Message: text}
}

// CauseOf returns the errno of an error if it has one, without the operation
// and the path, which the caller names anyway.
func CauseOf(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// CheckRead checks the fields of a request that reads two streams from cursors on.
func CheckRead(stdout, stderr, maxBytes, waitMS int64) error {
	switch {
	case stdout < 0:
		return BadField("stdout_cursor", "stdout_cursor must not be negative")
	case stderr < 0:
		return BadField("stderr_cursor", "stderr_cursor must not be negative")
	case maxBytes < 1 || maxBytes > wire.MaxStreamRead:
		return BadField("max_bytes", fmt.Sprintf("max_bytes must be from 1 to %d", wire.MaxStreamRead))
	case waitMS < 0 || waitMS > wire.MaxReadWaitMS:
		return BadField("wait_ms", fmt.Sprintf("wait_ms must be from 0 to %d", wire.MaxReadWaitMS))
	}
	return nil
}

// HintError is an error with advice.
type HintError struct {
	error
	Hint string
}

// WithHint returns err with advice on what to do about it.
func WithHint(err error, advice string) error { return HintError{err, advice} }
