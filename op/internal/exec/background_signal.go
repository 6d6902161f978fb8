package exec

import (
	"context"
	"io"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
)

type BackgroundSignalInput struct {
	InBackground
	Signal string `json:"signal" arg:"SIGNAL" help:"the signal: INT, TERM, HUP, KILL, …" max:"16"`
}

type BackgroundSignalOutput struct {
	Exec string `json:"exec"`
	Sent string `json:"sent"`
}

func (BackgroundSignalInput) Desc() op.Desc {
	return op.Desc{
		Name: "background_signal", CLI: []string{"exec", "signal"},
		Summary: "Send a signal to a command in the background",
		Doc: `Send a signal to the process group of a command that "paddock exec -d" has started. INT
is what ^C sends. What the command does then is its own matter: "exec kill" ends it.`,
		Examples: "  paddock exec signal web e7 HUP",
		Local:    true,
		Hints:    op.Hints{Destructive: true, Control: true},
	}
}

// Do sends the signal.
func (in BackgroundSignalInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (BackgroundSignalOutput, error) {
	if in.Exec != "" && in.Signal == "" {
		return BackgroundSignalOutput{}, &policy.FieldError{Field: "signal", Reason: "it is missing", Hint: "INT, TERM, HUP, KILL, …"}
	}
	err := in.do(ctx, env, func(ctx context.Context, x *paddock.Exec) error { return x.Signal(ctx, in.Signal) })
	return BackgroundSignalOutput{in.Exec, in.Signal}, err
}

func (out BackgroundSignalOutput) Render(w io.Writer) error {
	t := output.Teller{W: w}
	t.Line("%s was sent %s", out.Exec, out.Sent)
	return t.Err
}
