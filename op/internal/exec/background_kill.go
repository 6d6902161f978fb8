package exec

import (
	"context"
	"io"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
)

type BackgroundKillInput struct{ InBackground }

type BackgroundKillOutput struct {
	Background
	// Killed is false if the command had ended before.
	Killed bool `json:"killed"`
}

func (BackgroundKillInput) Desc() op.Desc {
	return op.Desc{
		Name: "background_kill", CLI: []string{"exec", "kill"},
		Summary: "End a command in the background, with all that it has started",
		Doc: `Kill a command that "paddock exec -d" has started, with every process that it has
started, wherever they are. The answer says whether it is proved that none is left. It is
not an error if the command has already ended. What it has printed stays readable.`,
		Examples: "  paddock exec kill web e7",
		Local:    true,
		Hints:    op.Hints{Frees: true, Destructive: true, Idempotent: true, Control: true},
	}
}

// Do ends the command.
func (in BackgroundKillInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out BackgroundKillOutput, err error) {
	err = in.do(ctx, env, func(ctx context.Context, x *paddock.Exec) error {
		before, err := x.Status(ctx)
		if err != nil {
			return err
		}
		if before.Result == nil {
			if _, err := x.Kill(ctx); err != nil {
				return err
			}
		}
		after, err := x.Status(ctx)
		out.Background, out.Killed = newBackground(after), before.Result == nil
		return err
	})
	return out, err
}

func (out BackgroundKillOutput) Render(w io.Writer) error {
	t := output.Teller{W: w}
	switch {
	case !out.Killed:
		t.Line("%s has ended before: %s", out.Exec, out.how())
	case out.DeathProved:
		t.Line("%s has ended; all its processes are gone", out.Exec)
	default:
		t.Line("%s has ended; it is not proved that all its processes are gone", out.Exec)
	}
	return t.Err
}
