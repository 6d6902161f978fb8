package shell

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

// ShellCloseInput names the shell to close.
type ShellCloseInput struct {
	op.InSandbox
	ShellID string `json:"shell_id" help:"which shell" min:"1" max:"64"`
}

// ShellCloseOutput is a shell at its end.
type ShellCloseOutput struct {
	ShellState
	Closed bool `json:"closed"`
	// SurvivorsKilled counts processes that outlived the shell's own end;
	// DeathProved says that none is left.
	SurvivorsKilled int  `json:"survivors_killed"`
	DeathProved     bool `json:"death_proved"`
}

// Desc describes the operation shell_close.
func (ShellCloseInput) Desc() op.Desc {
	return op.Desc{
		Name: "shell_close", Summary: "Close a shell, and end all that runs in it",
		Doc: `Close a shell. Its processes get HUP, and KILL after 5 seconds; the answer says
how many had to be killed, and whether it is proved that none is left. What it
has printed is gone then, and its id is free.`,
		Lasting: true, Hints: op.Hints{Frees: true, Destructive: true},
	}
}

// Do runs the operation.
func (in ShellCloseInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ShellCloseOutput, err error) {
	if _, err := op.NameOr("shell_id", in.ShellID, false); err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		ended := s.ShellEndedBy(in.ShellID)
		s.ForgetShellEnd(in.ShellID)
		r, err := wire.Call(ctx, s.Client(), wire.CloseShell, wire.ShellRequest{ShellID: in.ShellID})
		if err != nil && ctx.Err() != nil {
			// It is being closed; what takes its time is not waited for.
			_, _, killErr := s.KillTree(ctx, "shell", in.ShellID)
			err = errors.Join(err, killErr)
		}
		if err != nil {
			return registry.Refusal("close shell "+in.ShellID, err)
		}
		out = ShellCloseOutput{ShellState: newShellState(r.Shell), Closed: r.Closed, SurvivorsKilled: r.Killed, DeathProved: r.DeathProved}
		out.EndedBy = ended
		return nil
	})
	return out, err
}

// Render writes the output for people.
func (out ShellCloseOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "closed %s%s\n", out.line(), output.Proof(out.SurvivorsKilled, out.DeathProved))
	return err
}
