package keep

import (
	"context"
	"io"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
)

type RemoveInput struct {
	Force bool     `json:"force,omitempty" flag:"force" short:"f" help:"end those that run first, and discard changes that have not landed"`
	Names []string `json:"names" arg:"NAME..." complete:"sandbox" help:"the sandboxes, by name or id" max:"256"`
}

type RemoveOutput struct {
	Sandboxes []Ended `json:"sandboxes"`
}

func (RemoveInput) Desc() op.Desc {
	return op.Desc{
		Name: "rm", CLI: []string{"rm"},
		Summary: "Remove persistent sandboxes",
		Doc: `Remove the records of sandboxes of "paddock create", and free their names. One that
runs is refused, and so is one with an overlay whose changes have not landed: --force ends
the one, and discards the changes of the other. Workspaces stay: they are directories of
the host.`,
		Examples: "  paddock rm web\n  paddock rm --force web",
		Local:    true, Each: true,
		Hints: op.Hints{Frees: true, Destructive: true},
	}
}

func (in RemoveInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (RemoveOutput, error) {
	all, err := each(in.Names, func(name string) (Ended, error) {
		k, err := paddock.Remove(ctx, name, in.Force, env.Options)
		if err != nil {
			return Ended{}, err
		}
		env.RecordSandbox(k.ID)
		return newEnded(k), nil
	})
	return RemoveOutput{all}, err
}

func (out RemoveOutput) Render(w io.Writer) error {
	t := &output.Teller{W: w}
	for _, e := range out.Sandboxes {
		e.tell(t, "is removed")
	}
	return t.Err
}
