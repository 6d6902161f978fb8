package session

import (
	"context"
	"fmt"
	"io"

	"github.com/paddock-dev/paddock/op"
)

// SessionCloseInput names the session to close.
type SessionCloseInput struct {
	SessionID string `json:"session_id" help:"which session"`
}

// SessionCloseOutput is a session that was closed.
type SessionCloseOutput struct {
	SessionID string `json:"session_id"`
	op.Left
}

// Desc describes the operation session_close.
func (SessionCloseInput) Desc() op.Desc {
	return op.Desc{
		Name: "session_close", Summary: "Close a session, and the sandbox that is its own",
		Doc: `Close a session. Its shutdown commands run first; then nothing that it has started
is left. A sandbox of its own ends with it, another stays.`,
		Lasting: true, Profile: op.ProfileWorkspace,
		Hints: op.Hints{Frees: true, Destructive: true},
	}
}

// Do runs the operation.
func (in SessionCloseInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (SessionCloseOutput, error) {
	k, err := env.Sessions.Remove(env.PrincipalName(), in.SessionID)
	if err != nil {
		return SessionCloseOutput{}, err
	}
	err = k.Close(ctx)
	return SessionCloseOutput{SessionID: in.SessionID, Left: op.NewLeft(k.Sandbox)}, err
}

// Render writes the output for people.
func (out SessionCloseOutput) Render(w io.Writer) error {
	if err := out.Left.Warn(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "closed", out.SessionID)
	return err
}
