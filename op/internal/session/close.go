package session

import (
	"context"
	"fmt"
	"io"

	"github.com/paddock-dev/paddock/op"
)

type SessionCloseInput struct {
	SessionID string `json:"session_id" help:"which session"`
}

type SessionCloseOutput struct {
	SessionID string `json:"session_id"`
	op.Left
}

func (SessionCloseInput) Desc() op.Desc {
	return op.Desc{
		Name: "session_close", Summary: "Close a session, and its own sandbox if it has one",
		Doc: `Close a session. Its shutdown commands run first; then everything that it has started
is ended. If the session has a sandbox of its own, that ends too; another one stays.`,
		Lasting: true, Profile: op.ProfileWorkspace,
		Hints: op.Hints{Frees: true, Destructive: true},
	}
}

func (in SessionCloseInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (SessionCloseOutput, error) {
	if _, err := find(ctx, env, in.SessionID); err != nil {
		return SessionCloseOutput{}, err
	}
	k, err := env.Sessions.Remove(env.PrincipalName(), in.SessionID)
	if err != nil {
		return SessionCloseOutput{}, err
	}
	err = k.Close(ctx)
	return SessionCloseOutput{SessionID: in.SessionID, Left: op.NewLeft(k.Sandbox, "")}, err
}

func (out SessionCloseOutput) Render(w io.Writer) error {
	if err := out.Left.Warn(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "closed", out.SessionID)
	return err
}
