package shell

import (
	"context"
	"fmt"
	"io"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

type ShellListInput struct {
	op.InSandbox
}

type ShellListOutput struct {
	Shells []ShellState `json:"shells"`
}

func (ShellListInput) Desc() op.Desc {
	return op.Desc{
		Name: "shell_list", CLI: []string{"shell", "list"}, Summary: "List the shells of a sandbox",
		Doc:      "List the shells of a sandbox with their state. Those that have ended are listed until they are closed.",
		Examples: "  paddock shell list web",
		Hints:    op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Do asks the agent for its shells.
func (in ShellListInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ShellListOutput, err error) {
	if err := in.Need(env); err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.ListShells, wire.ListShellsRequest{})
		if err != nil {
			return registry.Refusal("list the shells", err)
		}
		out.Shells = []ShellState{}
		for _, one := range r.Shells {
			out.Shells = append(out.Shells, shellState(s, one))
		}
		return nil
	})
	return out, err
}

func (out ShellListOutput) Render(w io.Writer) error {
	if len(out.Shells) == 0 {
		_, err := fmt.Fprintln(w, "no shell is open")
		return err
	}
	return output.Table(w, func(row output.Row) {
		for _, s := range out.Shells {
			row("%s\t%s\t%s", s.ShellID, s.State, s.Cwd)
		}
	})
}
