package shell

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

type ShellCloseInput struct {
	op.InSandbox
	ShellID string `json:"shell_id" arg:"ID" help:"which shell" min:"1" max:"64"`
}

type ShellCloseOutput struct {
	ShellState
	Closed bool `json:"closed"`
	op.Death
}

func (ShellCloseInput) Desc() op.Desc {
	return op.Desc{
		Name: "shell_close", CLI: []string{"shell", "close"}, Summary: "Close a shell, and end everything that runs in it",
		Doc: `Close a shell. Its processes get HUP, and KILL after 5 seconds. The answer says how
many had to be killed, and whether it is proved that none is left. The shell's output
is deleted, and its id can be used again.`,
		Examples: "  paddock shell close web main",
		Hints:    op.Hints{Frees: true, Destructive: true},
	}
}

func (in ShellCloseInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ShellCloseOutput, err error) {
	if _, err := op.NameOr("shell_id", in.ShellID, false); err != nil {
		return out, err
	}
	if err := in.Need(env); err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		ended := s.ShellEndedBy(in.ShellID)
		s.ForgetShellEnd(in.ShellID)
		r, err := wire.Call(ctx, s.Client(), wire.CloseShell, wire.ShellRequest{ShellID: in.ShellID})
		if err != nil && ctx.Err() != nil {
			// The agent is closing it. Do not wait for processes that ignore HUP.
			_, _, killErr := s.KillTree(ctx, "shell", in.ShellID)
			err = errors.Join(err, killErr)
		}
		if err != nil {
			return registry.Refusal("close shell "+in.ShellID, err)
		}
		out = ShellCloseOutput{ShellState: newShellState(r.Shell), Closed: r.Closed, Death: op.NewDeath(r.Killed, r.DeathProved)}
		out.EndedBy = ended
		return nil
	})
	return out, err
}

func (out ShellCloseOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "closed %s%s\n", out.line(), out.Proof())
	return err
}
