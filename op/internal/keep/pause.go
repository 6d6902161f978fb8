package keep

import (
	"context"
	"io"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
)

type PauseInput struct {
	Names []string `json:"names" arg:"NAME..." complete:"sandbox" help:"the sandboxes, by name or id" max:"256"`
}

// Paused says how a sandbox was paused.
type Paused struct {
	Sandbox string `json:"sandbox"`
	How     string `json:"how"` // freezer, SIGSTOP, or empty: it was paused already
}

type PauseOutput struct {
	Sandboxes []Paused `json:"sandboxes"`
}

func (PauseInput) Desc() op.Desc {
	return op.Desc{
		Name: "pause", CLI: []string{"pause"},
		Summary: "Stop the commands of sandboxes for a while",
		Doc: `Stop every command in sandboxes of "paddock create" until "paddock resume": by the
freezer of their control group, or, where there is none, with SIGSTOP for each
process; the answer says which. With SIGSTOP a shell that waits for a stopped program
can notice it. Time limits of commands and the sandbox's own lifetime keep running.

A paused sandbox takes no command; it can be ended.`,
		Examples: "  paddock pause web\n  paddock resume web",
		Local:    true, Each: true,
		Hints: op.Hints{Idempotent: true, Control: true},
	}
}

func (in PauseInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (PauseOutput, error) {
	all, err := each(in.Names, func(name string) (Paused, error) {
		how, err := paddock.Pause(ctx, name, env.Options)
		return Paused{name, how}, err
	})
	return PauseOutput{all}, err
}

func (out PauseOutput) Render(w io.Writer) error {
	t := &output.Teller{W: w}
	for _, p := range out.Sandboxes {
		switch p.How {
		case "":
			t.Line("sandbox %s was paused already", p.Sandbox)
		default:
			t.Line("sandbox %s is paused (%s)", p.Sandbox, p.How)
		}
	}
	return t.Err
}
