package shell

import (
	"context"
	"errors"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

type ShellResizeInput struct {
	op.InSandbox
	ShellID string `json:"shell_id" help:"which shell" min:"1" max:"64"`
	Rows    uint64 `json:"rows" help:"lines of the terminal" min:"1" max:"1000"`
	Cols    uint64 `json:"cols" help:"columns of the terminal" min:"1" max:"1000"`
}

func (ShellResizeInput) Desc() op.Desc {
	return op.Desc{
		Name: "shell_resize", Summary: "Change the size of a shell's terminal",
		Doc:     "Change the size of a shell's terminal, in characters. Full-screen programs are notified, and redraw.",
		Lasting: true, Hints: op.Hints{Idempotent: true},
	}
}

func (in ShellResizeInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ShellState, err error) {
	_, nameErr := op.NameOr("shell_id", in.ShellID, false)
	if err := errors.Join(nameErr, op.AtLeastOne("rows", in.Rows), op.AtLeastOne("cols", in.Cols)); err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.ResizeShell, wire.ResizeShellRequest{ShellID: in.ShellID, Rows: int64(in.Rows), Cols: int64(in.Cols)})
		if err != nil {
			return registry.Refusal("resize shell "+in.ShellID, err)
		}
		out = shellState(s, r)
		return nil
	})
	return out, err
}
