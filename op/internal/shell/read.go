package shell

import (
	"context"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
)

type ShellReadInput struct {
	op.InSandbox
	ShellWait
	ShellID string `json:"shell_id" help:"which shell" min:"1" max:"64"`
	Cursor  uint64 `json:"cursor,omitempty" help:"where to start: next_cursor of the previous answer; 0 is the beginning"`
}

func (ShellReadInput) Desc() op.Desc {
	return op.Desc{
		Name: "shell_read", Summary: "Read what a shell has printed",
		Doc: `Read a shell's output, starting at a cursor: 0 is the beginning, and next_cursor of
each answer is where to continue. Without wait_for_idle_ms and wait_for it returns at
once. The text is plain, as a person would see it, unless plain is false. "more" says
that the limit was reached and more output is available. The last 1 MiB is kept;
dropped_chars counts what is missing after the cursor. It also works for a shell that
has ended, until shell_close.`,
		Lasting: true, Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

func (in ShellReadInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ShellOutput, err error) {
	if _, err := op.NameOr("shell_id", in.ShellID, false); err != nil {
		return out, err
	}
	wait, err := in.reading(env, 0)
	if err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		out, err = readShell(ctx, s, in.ShellID, int64(min(in.Cursor, maxCursor)), wait)
		return err
	})
	return out, err
}
