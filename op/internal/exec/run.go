package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/command"
	"github.com/paddock-dev/paddock/wire"
)

type RunInput struct {
	op.SpecInput
	Cwd osstring.String `json:"cwd,omitempty" flag:"cwd" arg:"DIR" help:"working directory inside, relative to the workspace or absolute (default: the workspace)"`
	Caller
	Quiet bool          `json:"quiet,omitempty" flag:"quiet" only:"cli" short:"q" help:"print no notes on standard error, only errors"`
	Argv  osstring.List `json:"argv" arg:"CMD [ARG]..." help:"the command and its arguments"`
}

type RunOutput struct {
	Command  osstring.List `json:"command"`
	Sandbox  string        `json:"sandbox"`   // its id
	ExitCode int           `json:"exit_code"` // -N if signal N ended the command, 124 if it timed out
	Ended
	Stdout          string `json:"stdout"` // empty if output went to a stream
	Stderr          string `json:"stderr"`
	StdoutTruncated bool   `json:"stdout_truncated"`
	StderrTruncated bool   `json:"stderr_truncated"`
	Output          string `json:"output,omitempty"` // if it was cut: the id for output_read, which has all of it
	op.Left
	Isolation policy.Isolation `json:"isolation"`
}

func (RunInput) Desc() op.Desc {
	return op.Desc{
		Name:    "run",
		CLI:     []string{"run"},
		Summary: "Run a command in a sandbox of its own",
		Doc:     runDoc,
		Examples: `  # a test suite that can change this directory, and nothing else
  paddock run -- go test ./...

  # another workspace, a tool's files read-only, at most a minute
  paddock run -w ~/src/app --ro ~/go/pkg/mod --timeout 1m -- make

  # an interactive shell
  paddock run bash

  # in a loop over a file: the command reads none of the list
  while read -r name; do paddock run -n -- ./check "$name"; done <list

  # the result as one JSON object
  paddock run --json -- sh -c 'echo out; exit 7'`,
		Opens:   true,
		Profile: op.ProfileRun,
		Hints:   op.Hints{Destructive: true, LongRunning: true, OpenWorld: true},
		Streams: op.Streams{In: true, Out: true},
	}
}

const runDoc = `Run a command in a sandbox that is made for it and ends with it.

The workspace is at /workspace, and the command may change it. It is the current
directory unless --workspace names another; a home directory, a directory that
has one in it, and directories of the system (/etc, /usr, /var, /opt …) must be
named. System directories are read-only, HOME and /tmp are private and empty, and
there is no network. --allow lets commands reach a host by name, and no other;
--network=host gives the host's whole network. The caches of the tools that the
workspace uses stay for later sandboxes over it: --cache none turns that off, paddock
cache rm removes them, and --home keep has HOME stay as well.

Of the caller's environment the command gets only the directories of PATH that are
visible inside and that commands cannot write. --env sets a variable, and --env-pass
passes one of the caller's; values in --env are visible in the list of processes.
Commands can read and print both: a secret for requests to a host belongs in a rule of
the spec's network (secret), and then it is never inside. Without a network, variables
make npm, pip, cargo and go fail at once instead of retrying.

git has the user's name and address, and a copy of the repository's configuration:
what commands add to it is printed at the end, and "paddock git accept" adds it to
the original once you agree.

On a command line the command starts at the first argument that is not a flag, or
after "--". On a command line paddock plan lists the directories of PATH that are
left out, with the reasons. On a command line standard input, output and error
output are passed through as they come. With --json the output is captured instead,
and one JSON object says how the command ended. With --max-output on a command line,
each stream is cut at the bound; the rest is read and dropped, and a line on standard
error says how much.

Without a timeout the command may take as long as it needs, in a server at most 2m.
A timeout also bounds the start of the sandbox.

On a command line a trusted project's file (.paddock.yaml) says what flags do not; see
paddock trust.

If the spec has "commands", those rules apply: a command that they refuse is not run,
and only programs that they allow can be executed; see paddock execute.

On a command line, where standard input, output and error output all are a terminal, the
command has a terminal of its own, made inside; --no-tty leaves it out. On a command line
Paddock takes no more of a file as standard input than the command reads, so that a loop
over its lines goes on; of a pipe it reads ahead, and what the command leaves is lost: -n
leaves the pipe alone.

From a command line signals INT, TERM, HUP, QUIT, USR1 and USR2 are passed to the
command, INT and QUIT of a key also to what it has started; the third INT or TERM ends the
sandbox even if the command ignores it. On a command line ^Z suspends a command that has no
terminal of its own; on one it is for the shells inside, since no other could continue the
command.

Exit status: the command's own; 124 it timed out; 125 Paddock could not run it;
126 it cannot be executed, or a rule of the spec refuses it; 127 it does not exist; 128+N signal N ended it.`

// Do opens the sandbox, runs the command and closes the sandbox. It returns when the kernel
// has confirmed that nothing is left.
func (in RunInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (RunOutput, error) {
	if err := in.Check(env, stream); err != nil {
		return RunOutput{}, err
	}
	spec, err := in.ReadSpec(ctx, env)
	if err != nil {
		return RunOutput{}, err
	}
	return in.Within(ctx, env, stream, spec, Around{})
}

// ReadSpec returns the spec that the input describes, without notes if the input asks for none.
func (in RunInput) ReadSpec(ctx context.Context, env *op.Env) (policy.Spec, error) {
	if in.Quiet && env.Project != nil {
		env.Project = func(string) {}
	}
	return in.Spec(ctx, env)
}

// Around is what happens around a command that runs in a sandbox of its own.
type Around struct {
	// Before, if not nil, is called with the open sandbox and the command that is about to
	// start, which it may change.
	Before func(context.Context, *paddock.Sandbox, *paddock.Cmd) error
	// After, if not nil, is called once the command has ended with all its processes, before
	// the sandbox does.
	After func(context.Context, *paddock.Sandbox) error
	// Try is the command line that keeps the changes of an overlay, "" for that of try.
	Try string
}

// Within runs the command of a checked input in a new sandbox of the spec.
func (in RunInput) Within(ctx context.Context, env *op.Env, stream *op.Stream, spec policy.Spec, around Around) (out RunOutput, err error) {
	tty := in.Terminal(stream)
	if err := allowed(spec, in.Argv); err != nil {
		return RunOutput{}, err
	}
	if term, ok := env.Lookup("TERM"); ok && tty {
		if _, written := spec.Env["TERM"]; !written {
			spec.Env["TERM"] = term
		}
	}
	limit, err := in.limit(env, spec)
	if err != nil {
		return RunOutput{}, err
	}
	sandbox, err := env.OpenFor(ctx, spec, limit, stream)
	if err != nil {
		return RunOutput{}, err
	}
	notes := in.Notes(stream)
	defer func() {
		err = errors.Join(err, tellObserved(ctx, notes, sandbox))
		err = errors.Join(err, sandbox.Close())
		out.Sandbox, out.Left = sandbox.ID(), op.NewLeft(sandbox, cmp.Or(around.Try, "paddock try"))
		err = errors.Join(err, out.Left.Warn(notes))
	}()
	if err := op.TellLost(notes, sandbox.Isolation()); err != nil {
		return RunOutput{}, err
	}
	cmd := sandbox.Command(ctx, in.Argv[0], in.Argv[1:]...)
	cmd.Dir = string(in.Cwd)
	if !in.NoStdin {
		cmd.Stdin = stream.Stdin
	}
	cmd.Timeout = limit.Span
	if around.Before != nil {
		if err := around.Before(ctx, sandbox, cmd); err != nil {
			return RunOutput{}, err
		}
	}
	if stream.Stdout == nil {
		out, err = runCaptured(env, cmd, int64(sandbox.Spec().Limits.Output), stream)
	} else {
		// The default bound is only for captured output.
		out, err = runStreamed(cmd, int64(spec.Limits.Output), tty, stream)
		err = errors.Join(err, output.TellDenials(notes, op.RenderHints(out.Denials, op.FlagHint), out.ExitStatus()))
	}
	if out.TimedOut {
		out.Limit, out.Denials = limit.Ended(out.Denials)
	}
	if around.After != nil {
		err = errors.Join(err, around.After(context.WithoutCancel(ctx), sandbox))
	}
	return out, err
}

// tellObserved writes the rules for what commands have reached, if that was observed.
func tellObserved(ctx context.Context, w io.Writer, sandbox *paddock.Sandbox) error {
	if w == nil || sandbox.Isolation().Network != policy.NetworkObserve {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observedTime)
	defer cancel()
	found, lost, err := sandbox.Observed(ctx)
	if err != nil {
		_, err = fmt.Fprintf(w, "paddock: %v\n", err)
		return err
	}
	_, err = fmt.Fprintf(w, "paddock: what was reached, as rules of a spec:\n%s\n", op.ObservedSpec(found, lost))
	return err
}

// observedTime bounds how long the end of a run waits for what was observed.
const observedTime = 5 * time.Second

// Notes returns where remarks for the person at the terminal go, or nil.
func (in RunInput) Notes(stream *op.Stream) io.Writer {
	if in.Quiet {
		return nil
	}
	return stream.Stderr
}

// Check refuses an input without a command, and a terminal where there is none.
func (in RunInput) Check(env *op.Env, stream *op.Stream) error {
	switch {
	case len(in.Argv) == 0:
		hint := "paddock run [flags] -- CMD [ARG]..."
		if stream.Terminal == nil && stream.Stdin == nil {
			hint = "argv lists the command and its arguments"
		}
		return &paddock.Error{Message: "cannot run: no command was given", Hint: hint}
	case in.Argv[0] == "":
		return &paddock.Error{Message: "cannot run: the command is empty"}
	case env.Sandboxes != nil && in.Timeout != nil && *in.Timeout <= 0:
		return &policy.FieldError{Field: "timeout", Value: in.Timeout.String(), Reason: "it must be above 0", Hint: "leave it out for the default"}
	}
	return in.Caller.check(stream)
}

// allowed returns an error if the spec has rules for commands and they refuse argv.
func allowed(spec policy.Spec, argv []string) error {
	if spec.Commands == nil {
		return nil
	}
	rules, err := command.New(*spec.Commands)
	if err != nil {
		return err
	}
	v := rules.Given(slices.Collect(maps.Keys(spec.Env))...).Argv(argv)
	if v.Allowed {
		return nil
	}
	return refusedBy(v)
}

// refusedBy returns the error of a command that rules refuse.
func refusedBy(v command.Verdict) error {
	return &op.RefusedError{Err: &paddock.Error{Message: "cannot run: " + v.Reason, Hint: v.Hint, Code: wire.CodeNotExecutable}}
}

// limit returns the command's time limit, below the ceiling.
func (in RunInput) limit(env *op.Env, spec policy.Spec) (registry.TimeLimit, error) {
	spec, err := env.UnderCeiling(spec)
	limit := registry.TimeLimit{Span: time.Duration(spec.Limits.Timeout), From: registry.FromSandbox}
	switch {
	case in.Timeout != nil:
		limit.From = registry.FromCall
	case env.Sandboxes != nil && limit.Span == 0:
		limit = registry.TimeLimit{Span: foregroundTime, From: registry.FromDefault} // a model must not wait for ever
	}
	return env.BoundTime(limit), err
}

// ExitStatus returns the command's own status, 124 if it timed out, and 128+N if signal N
// ended it.
func (out RunOutput) ExitStatus() int { return out.status(out.ExitCode) }

// Render writes captured output; streamed output has been written already. It skips the
// write if there is none: even a write of nothing can block on a full pipe.
func (out RunOutput) Render(w io.Writer) error {
	if out.Stdout == "" {
		return nil
	}
	_, err := io.WriteString(w, out.Stdout)
	return err
}

// Tell writes how the command ended and its output. For a command that did not start it
// writes only the remarks about the sandbox.
func (out RunOutput) Tell(w io.Writer) error {
	var said []string
	if out.Command != nil {
		said = ExecAnswer{State: registry.Exited, ExitCode: &out.ExitCode, Ended: out.Ended}.said()
	}
	for _, one := range []struct {
		is   bool
		says string
	}{
		{out.StdoutTruncated, "some of stdout left out"}, {out.StderrTruncated, "some of stderr left out"},
		{op.StartNote(out.Isolation) != "", op.StartNote(out.Isolation)}, {out.Left.Note() != "", out.Left.Note()},
	} {
		if one.is {
			said = append(said, one.says)
		}
	}
	t := output.Teller{W: w}
	t.Frame(said, out.Stdout, out.Stderr)
	return t.Err
}
