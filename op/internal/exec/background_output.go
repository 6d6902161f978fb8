package exec

import (
	"context"
	"io"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

type BackgroundOutputInput struct {
	InBackground
	Follow bool `json:"follow,omitempty" flag:"follow" short:"f" help:"continue with new output as it comes, until the command ends or you interrupt"`
	Stdout bool `json:"stdout,omitempty" flag:"stdout" help:"only standard output"`
	Stderr bool `json:"stderr,omitempty" flag:"stderr" help:"only standard error"`
}

type BackgroundOutputOutput struct {
	Background
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// StdoutDropped and StderrDropped count bytes at the beginning that are not stored any more.
	StdoutDropped int64 `json:"stdout_dropped"`
	StderrDropped int64 `json:"stderr_dropped"`
}

func (BackgroundOutputInput) Desc() op.Desc {
	return op.Desc{
		Name: "background_output", CLI: []string{"exec", "output"},
		Summary: "Print what a command in the background has printed",
		Doc: `Print the output of a command that "paddock exec -d" has started, from the beginning:
its standard output to standard output, its error output to standard error.

The sandbox stores at least the last 4 MiB of each stream, and 32 MiB for all commands
together. What it does not store any more is counted on standard error.`,
		Examples: `  paddock exec output web e7
  paddock exec output --follow web e7`,
		Local:   true,
		Hints:   op.Hints{ReadOnly: true, Idempotent: true, LongRunning: true},
		Streams: op.Streams{Out: true},
	}
}

// Do reads what is stored, and follows it if the input asks for that.
func (in BackgroundOutputInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out BackgroundOutputOutput, err error) {
	captured := stream.Stdout == nil
	switch {
	case in.Follow && captured:
		return out, &policy.FieldError{Field: "follow", Reason: "the output is one JSON object", Hint: "leave out --json"}
	case in.Stdout && in.Stderr:
		return out, &policy.FieldError{Field: "stderr", Reason: "only standard output is asked for, too", Hint: "leave out both for both"}
	}
	var text [2]strings.Builder
	to := printed{stdout: stream.Stdout, stderr: stream.Stderr, notes: stream.Stderr}
	if captured {
		to = printed{stdout: &text[0], stderr: &text[1]}
	}
	if in.Stdout {
		to.stderr = nil
	}
	if in.Stderr {
		to.stdout = nil
	}
	err = in.do(ctx, env, func(ctx context.Context, x *paddock.Exec) error {
		last, err := to.copy(ctx, source{x.ID(), x.Read}, in.Follow, stream)
		out.Background = newBackground(last)
		return err
	})
	valid := func(b *strings.Builder) string { return strings.ToValidUTF8(b.String(), "\uFFFD") }
	out.Stdout, out.Stderr, out.StdoutDropped, out.StderrDropped = valid(&text[0]), valid(&text[1]), to.stdoutLost, to.stderrLost
	return out, err
}

// Render writes nothing: the output was passed through.
func (BackgroundOutputOutput) Render(io.Writer) error { return nil }
