package keep

import (
	"context"
	"io"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
)

type ResumeInput struct {
	Names []string `json:"names" arg:"NAME..." complete:"sandbox" help:"the sandboxes, by name or id" max:"256"`
}

type ResumeOutput struct {
	Sandboxes []string `json:"sandboxes"`
}

func (ResumeInput) Desc() op.Desc {
	return op.Desc{
		Name: "resume", CLI: []string{"resume"},
		Summary:  "Let the commands of paused sandboxes continue",
		Doc:      `Let the commands of sandboxes continue that "paddock pause" has stopped. For one that is not paused nothing happens.`,
		Examples: "  paddock resume web",
		Local:    true, Each: true,
		Hints: op.Hints{Idempotent: true, Control: true},
	}
}

func (in ResumeInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (ResumeOutput, error) {
	all, err := each(in.Names, func(name string) (string, error) {
		return name, paddock.Resume(ctx, name, env.Options)
	})
	return ResumeOutput{all}, err
}

func (out ResumeOutput) Render(w io.Writer) error {
	t := &output.Teller{W: w}
	for _, name := range out.Sandboxes {
		t.Line("sandbox %s continues", name)
	}
	return t.Err
}
