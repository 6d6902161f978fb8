package session

import (
	"context"
	"fmt"
	"io"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
)

type SessionRestartInput struct {
	SessionID string `json:"session_id" help:"which session"`
}

type SessionRestartOutput struct {
	SessionID string `json:"session_id"`
	Status    string `json:"status"`
	Text      string `json:"text"`
}

func (SessionRestartInput) Desc() op.Desc {
	return op.Desc{
		Name: "session_restart", Summary: "Give a session a new shell",
		Doc: `Give a session a new shell, if the old one has ended or hangs. The old one is ended
with everything it has started, and its directory, variables and functions are lost.
The workspace stays as it is, and startup commands run again.`,
		Lasting: true,
		Hints:   op.Hints{Destructive: true},
	}
}

func (in SessionRestartInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (SessionRestartOutput, error) {
	k, err := find(ctx, env, in.SessionID)
	if err != nil {
		return SessionRestartOutput{}, err
	}
	return restart(ctx, k)
}

// Render writes the text of the answer.
func (out SessionRestartOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintln(w, out.Text)
	return err
}

// restart gives the session a new shell.
func restart(ctx context.Context, k *registry.Session) (SessionRestartOutput, error) {
	if err := k.Shell.Restart(ctx); err != nil {
		return SessionRestartOutput{}, &restartError{err}
	}
	return SessionRestartOutput{SessionID: k.Key.ID, Status: "success", Text: restarted}, nil
}

// restartError is the error of a restart, with the contract's text.
type restartError struct{ cause error }

// Error returns the contract's text and the cause.
func (e *restartError) Error() string { return restartFailed + " " + e.cause.Error() }

// Unwrap returns the cause.
func (e *restartError) Unwrap() error { return e.cause }
