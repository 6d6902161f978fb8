package cgroup

import (
	"errors"
	"fmt"
)

// What a caller can tell apart.
var (
	// ErrNotMounted says that there is no cgroup2 mount to be seen.
	ErrNotMounted = errors.New("no cgroup2 file system is mounted")
	// ErrNoController says that a controller is not available in a group.
	ErrNoController = errors.New("the controller is not available")
	// ErrReadOnly says that the hierarchy can be read alone.
	ErrReadOnly = errors.New("the cgroup2 file system is mounted read-only")
	// ErrNoPlace says that no group may be made anywhere in reach.
	ErrNoPlace = errors.New("no part of the cgroup hierarchy is this user's to change")
)

// Error is something that could not be done to a group.
type Error struct {
	Op     string // "create", "set", "read", …
	Object string // the group, or the group and the file in it
	Err    error
	Hint   string // what to do about it, where there is something to say
}

// Error says what could not be done and why.
func (e *Error) Error() string { return fmt.Sprintf("cannot %s %s: %v", e.Op, e.Object, e.Err) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }
