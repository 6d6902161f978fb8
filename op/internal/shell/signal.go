package shell

import (
	"cmp"
	"context"
	"errors"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

type ShellSignalInput struct {
	op.InSandbox
	ShellID string `json:"shell_id" help:"which shell" min:"1" max:"64"`
	Signal  string `json:"signal,omitempty" help:"the signal (default: INT)" choices:"HUP,INT,TERM,KILL"`
}

func (ShellSignalInput) Desc() op.Desc {
	return op.Desc{
		Name: "shell_signal", Summary: "Send a signal to what runs in a shell",
		Doc: `Send a signal (INT, TERM, HUP or KILL) to the program in the foreground of a shell's
terminal; if none runs, to the shell itself. The answer has the shell's state at that
moment; shell_read shows the effect.`,
		Lasting: true, Hints: op.Hints{Frees: true, Destructive: true, Control: true},
	}
}

func (in ShellSignalInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ShellState, err error) {
	_, nameErr := op.NameOr("shell_id", in.ShellID, false)
	if err := errors.Join(nameErr, op.OneOf("signal", in.Signal, "HUP", "INT", "TERM", "KILL")); err != nil {
		return out, err
	}
	name := cmp.Or(in.Signal, "INT")
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.SignalShell, wire.SignalShellRequest{ShellID: in.ShellID, Signal: name})
		if err != nil {
			return registry.Refusal("signal shell "+in.ShellID, err)
		}
		out = shellState(s, r.Shell)
		return nil
	})
	return out, err
}
