package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// InBackground are the fields of operations on one command in the background.
type InBackground struct {
	op.InNamed
	Exec string `json:"exec" arg:"ID" help:"which command, as exec list shows it" max:"64"`
}

// do calls do with the command.
func (in InBackground) do(ctx context.Context, env *op.Env, do func(context.Context, *paddock.Exec) error) error {
	if in.Sandbox != "" && in.Exec == "" {
		return &policy.FieldError{Field: "exec", Reason: "no command is named", Hint: "paddock exec list " + policy.ShellWord(in.Sandbox) + " shows them"}
	}
	return in.With(ctx, env, func(ctx context.Context, h *registry.Sandbox) error {
		err := do(ctx, h.Exec(in.Exec))
		if unknown := (*paddock.Error)(nil); errors.As(err, &unknown) && errors.Is(err, paddock.ErrNotFound) {
			return unknownExec(unknown.Message, in.Sandbox)
		}
		return err
	})
}

// unknownExec returns the error of an id that a sandbox does not know.
func unknownExec(message, sandbox string) error {
	return &paddock.Error{Message: message, Code: wire.CodeNotFound, Hint: "paddock exec list " + policy.ShellWord(sandbox) + " shows those that it knows"}
}

// Background describes a command in the background.
type Background struct {
	Exec      string          `json:"exec"`
	Command   osstring.String `json:"command"`
	State     string          `json:"state"` // running or exited
	ExitCode  *int            `json:"exit_code"`
	StartedAt time.Time       `json:"started_at"`
	EndedAt   *time.Time      `json:"ended_at,omitempty"`
	Ended
}

func newBackground(x paddock.ExecStatus) Background {
	b := Background{Exec: x.ID, Command: osstring.String(x.Command), State: registry.Running, StartedAt: x.Started,
		Ended: Ended{StdoutBytes: x.StdoutBytes, StderrBytes: x.StderrBytes, DurationMS: time.Since(x.Started).Milliseconds()}}
	if x.Result != nil {
		b.State, b.ExitCode, b.EndedAt, b.Ended = registry.Exited, &x.Result.ExitCode, &x.Ended, newEnded(x.Result)
		b.StdoutBytes, b.StderrBytes = x.StdoutBytes, x.StderrBytes
	}
	return b
}

// how returns in a few words whether it runs, or how it ended.
func (b Background) how() string {
	switch {
	case b.ExitCode == nil:
		return "running"
	case b.TimedOut:
		return "timed out"
	case b.Signal != "":
		return "ended by " + b.Signal
	}
	return fmt.Sprintf("exit status %d", *b.ExitCode)
}

type BackgroundListInput struct{ op.InNamed }

type BackgroundListOutput struct {
	Execs []Background `json:"execs"`
}

func (BackgroundListInput) Desc() op.Desc {
	return op.Desc{
		Name: "background_list", CLI: []string{"exec", "list"},
		Summary: "List the commands of a sandbox that were started in the background",
		Doc: `List the commands of a sandbox that "paddock exec -d" has started, oldest first: those
that run, and the last 256 that have ended.`,
		Examples: "  paddock exec list web",
		Local:    true,
		Hints:    op.Hints{ReadOnly: true, Idempotent: true, Control: true},
	}
}

// Do asks the agent for them.
func (in BackgroundListInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out BackgroundListOutput, err error) {
	out.Execs = []Background{}
	err = in.With(ctx, env, func(ctx context.Context, h *registry.Sandbox) error {
		all, err := h.Sandbox.Execs(ctx)
		for _, x := range all {
			out.Execs = append(out.Execs, newBackground(x))
		}
		return err
	})
	return out, err
}

func (out BackgroundListOutput) Render(w io.Writer) error {
	if len(out.Execs) == 0 {
		_, err := fmt.Fprintln(w, "no command was started in the background")
		return err
	}
	return output.Table(w, func(row output.Row) {
		row("ID\tSTATE\tSTARTED\tTIME\tOUTPUT\tCOMMAND")
		for _, x := range out.Execs {
			took := (time.Duration(x.DurationMS) * time.Millisecond).Round(time.Second / 10)
			row("%s\t%s\t%s\t%s\t%s\t%s", text.Escape(x.Exec), x.how(), x.StartedAt.UTC().Format(time.RFC3339), took,
				policy.Size(x.StdoutBytes+x.StderrBytes), text.Escape(text.Truncate(strings.ReplaceAll(string(x.Command), "\n", " "), 80)))
		}
	})
}
