// Package cgroup works with control groups of version 2 only. It finds the
// hierarchy wherever it is mounted, and a delegate in it: a group in which this
// process may make others. It makes groups, sets limits, reads statistics,
// freezes and kills.
//
// A [Group] is a directory handle, never a path, so that it can be used through
// a mount that is attached nowhere, by a process that cannot see the hierarchy
// otherwise. Everything is relative to the handle.
//
// The kernel's Documentation/admin-guide/cgroup-v2.rst describes the files and
// the controllers. A limit that the hierarchy cannot enforce is an error that
// names the missing controller ([ErrNoController]); a statistic that it does not
// count is absent, never 0.
//
// The package imports the standard library and x/sys only, because the agent
// links it.
package cgroup

import (
	"errors"
	"fmt"
)

// Errors that a caller can distinguish.
var (
	// ErrNotMounted says that no cgroup2 mount is visible.
	ErrNotMounted = errors.New("no cgroup2 file system is mounted")
	// ErrNoController says that a controller is not available in a group.
	ErrNoController = errors.New("the controller is not available")
	// ErrReadOnly says that the hierarchy can only be read.
	ErrReadOnly = errors.New("the cgroup2 file system is mounted read-only")
	// ErrNoDelegate says that this process may not make groups anywhere.
	ErrNoDelegate = errors.New("no part of the cgroup hierarchy is delegated to this user")
)

// Error is a failed operation on a group.
type Error struct {
	Op     string // "create", "set", "read", …
	Object string // the group, or the group and the file in it
	Err    error
	Hint   string // what to do about it; often empty
}

// Error returns what could not be done and why.
func (e *Error) Error() string { return fmt.Sprintf("cannot %s %s: %v", e.Op, e.Object, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
