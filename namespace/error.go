package namespace

import (
	"errors"
	"fmt"
)

// What a caller can tell apart.
var (
	// ErrNotFound says that the command's program does not exist.
	ErrNotFound = errors.New("the command does not exist")
	// ErrNotExecutable says that it exists and cannot be executed.
	ErrNotExecutable = errors.New("the command cannot be executed")
	// ErrGone says that the process whose namespaces were wanted has ended.
	ErrGone = errors.New("the process has ended")
)

// Error is something that could not be done: the command was not started.
type Error struct {
	Op     string // "unshare", "enter", "mount", …
	Object string // what it was done to
	Err    error
	Hint   string // what to do about it, where there is something to say
}

// Error says what could not be done and why.
func (e *Error) Error() string {
	if e.Object == "" {
		return fmt.Sprintf("cannot %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("cannot %s %s: %v", e.Op, e.Object, e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// FlagError is a flag that is not on the list, or has a value that it cannot
// have.
type FlagError struct {
	Flag   string
	Reason string
	Hint   string // the list
}

// Error says what is wrong with it.
func (e *FlagError) Error() string { return fmt.Sprintf("cannot use flag %q: %s", e.Flag, e.Reason) }
