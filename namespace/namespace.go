// Package namespace runs a command in new namespaces ([Unshare]), or in those
// of another process ([Enter]), as unshare(1) and nsenter(1) do, with system
// calls only. It builds no walls: the command has the same rights as its caller.
//
//	setup, err := namespace.ParseUnshare([]string{"--user", "r", "pid", "fork"})
//	result, err := namespace.Run(ctx, setup, &namespace.Command{Argv: []string{"id"}, Stdout: os.Stdout})
//
// A helper does the work. It is another process of this program: main (and
// TestMain) must call [Helper] before anything else. The helper is the subreaper
// of the command, uses a control group for it if it can, and ends it when the
// caller has ended, for whatever reason.
//
// A command has ended when every process that it started has ended; a [Result]
// says whether that is proved. The proof does not cover a process with the
// privilege to leave both its control group and its ancestors.
package namespace

import (
	"errors"
	"fmt"
)

// Errors that a caller can distinguish.
var (
	// ErrNotFound says that the command's program does not exist.
	ErrNotFound = errors.New("the command does not exist")
	// ErrNotExecutable says that it exists and cannot be executed.
	ErrNotExecutable = errors.New("the command cannot be executed")
	// ErrGone says that the process whose namespaces were to be entered has ended.
	ErrGone = errors.New("the process has ended")
)

// Error says why a command was not started.
type Error struct {
	Op     string // "unshare", "enter", "mount", …
	Object string // the object of the operation
	Err    error
	Hint   string // what to do about it; often empty
}

// Error returns what could not be done and why.
func (e *Error) Error() string {
	if e.Object == "" {
		return fmt.Sprintf("cannot %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("cannot %s %s: %v", e.Op, e.Object, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// FlagError is a flag that is not on the list, or has an invalid value.
type FlagError struct {
	Flag   string
	Reason string
	Hint   string // the list of flags, for one that is not on it
}

// Error returns what is wrong with the flag.
func (e *FlagError) Error() string { return fmt.Sprintf("cannot use flag %q: %s", e.Flag, e.Reason) }
