package session

import (
	"context"
	"errors"
	"io"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
)

type SessionListInput struct{}

type SessionListOutput struct {
	Sessions []SessionSummary `json:"sessions"`
}

// SessionSummary describes one session.
type SessionSummary struct {
	SessionID string          `json:"session_id"`
	Sandbox   string          `json:"sandbox"`
	Workspace osstring.String `json:"workspace"`
	Backend   string          `json:"backend"`
	State     string          `json:"state"` // ready, busy or ended
	Cwd       osstring.String `json:"cwd"`
	Commands  int64           `json:"commands"`
	Restarts  int64           `json:"restarts"`
	StartedAt float64         `json:"started_at"` // seconds since 1970
}

func (SessionListInput) Desc() op.Desc {
	return op.Desc{
		Name: "session_list", Summary: "List your sessions",
		Doc:     "List your sessions: the state of each (ready, busy or ended), its sandbox, and its shell's current directory.",
		Lasting: true,
		Hints:   op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Do lists the principal's sessions.
func (SessionListInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (SessionListOutput, error) {
	out := SessionListOutput{Sessions: []SessionSummary{}}
	attachAll(ctx, env)
	for _, k := range env.Sessions.Of(env.PrincipalName()) {
		s := SessionSummary{SessionID: k.Key.ID, Sandbox: k.Called, Workspace: osstring.String(workspace(k, env)),
			Backend: k.Sandbox.Spec().Backend, State: "ended"}
		now, err := k.Shell.Summary(ctx)
		if k.Kept && errors.Is(err, paddock.ErrNotFound) { // another server has closed it
			_, _ = env.Sessions.Remove(env.PrincipalName(), k.Key.ID)
			continue
		}
		if err == nil {
			s.State, s.Cwd, s.Commands, s.Restarts, s.StartedAt = now.State, osstring.String(now.Dir), now.Commands, now.Restarts, now.StartedAt
		}
		out.Sessions = append(out.Sessions, s)
	}
	return out, nil
}

func (out SessionListOutput) Render(w io.Writer) error {
	return output.Table(w, func(row output.Row) {
		for _, s := range out.Sessions {
			row("%s\t%s\t%s\t%s", s.SessionID, s.State, s.Backend, s.Cwd)
		}
	})
}
