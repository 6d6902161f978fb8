package paddock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/wire"
)

// Errors that a caller can distinguish with errors.Is.
var (
	// ErrNotFound means that the command does not exist inside the sandbox.
	ErrNotFound = errors.New("the command does not exist")
	// ErrNotExecutable means that the command exists and cannot be executed.
	ErrNotExecutable = errors.New("the command cannot be executed")
	// ErrTimeout means that the command ran out of time. An [*ExitError] with
	// TimedOut set is one.
	ErrTimeout = errors.New("the command timed out")
	// ErrClosed means that the sandbox has ended.
	ErrClosed = errors.New("the sandbox has ended")
)

// Error is the error of something that could not be done.
type Error struct {
	// Message is for people: "cannot VERB OBJECT: cause".
	Message string
	// Hint says what to do about it. It may be empty.
	Hint string
	// Code is for programs. It is empty for failures that the agent did not
	// report.
	Code wire.Code
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Is makes errors.Is work with the sentinels of this package.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return e.Code == wire.CodeNotFound
	case ErrNotExecutable:
		return e.Code == wire.CodeNotExecutable
	case ErrClosed:
		return e.Code == wire.CodeGone
	}
	return false
}

// agentError turns an error of the wire into one of this package. The wire client has
// bounded the agent's text and made it printable.
func agentError(what string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("cannot %s: %w", what, err)
	}
	if errors.Is(err, backend.ErrGone) {
		return &Error{Message: "cannot " + what + ": " + ErrClosed.Error(), Code: wire.CodeGone}
	}
	we := (*wire.Error)(nil)
	if !errors.As(err, &we) {
		return fmt.Errorf("cannot %s: %w", what, err)
	}
	message := we.Message
	if !strings.HasPrefix(message, "cannot ") {
		message = "cannot " + what + ": " + message
	}
	return &Error{Message: message, Hint: we.Hint, Code: we.Code}
}
