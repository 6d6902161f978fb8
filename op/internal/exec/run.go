package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/command"
	"github.com/paddock-dev/paddock/wire"
)

// RunOp returns the operation run.
func RunOp() op.Op {
	return op.New(op.Desc{
		Name:    "run",
		CLI:     []string{"run"},
		Summary: "Run a command in a sandbox of its own",
		Doc:     runDoc,
		Examples: `  # a test suite that can change this directory, and nothing else
  paddock run -- go test ./...

  # another workspace, a tool's files read-only, at most a minute
  paddock run -w ~/src/app --ro ~/go/pkg/mod --timeout 1m -- make

  # an interactive shell; other programs get a terminal with -t
  paddock run bash
  paddock run -t top

  # the result as one JSON object
  paddock run --json -- sh -c 'echo out; exit 7'`,
		Opens:   true,
		Profile: op.ProfileRun,
		Hints:   op.Hints{Destructive: true, LongRunning: true, OpenWorld: true},
		Streams: op.Streams{In: true, Out: true},
	}, run, renderRun)
}

const runDoc = `Run a command in a sandbox that is made for it and ends with it.

The command finds the workspace at /workspace and may change it: the current
directory, unless --workspace names another. A home, a directory that holds one,
and the system's own (in /etc, /usr, /var, /opt …) must be named. The system
directories are read-only, HOME and /tmp are private and empty, and there is no
network; --network=host gives the host's.

The caller's environment stays outside, but for the directories of PATH that are
visible inside and that commands cannot write. --env sets a variable, and --env-pass
passes one of the caller's; values in --env show in the list of processes, so secrets
belong in --env-pass. Without a network, variables of npm, pip, cargo and go make them
fail at once.

git has the user's name and address, and a copy of the repository's configuration:
what commands add to it is printed at the end, and "paddock git accept" takes it over once you agree.

On a command line the first argument that is no flag starts the command; "--" may
stand before it. On a command line paddock plan lists the directories of PATH that
are left out, with the reasons. On a command line standard input, output and error output are
passed through as they come. With --json the output is captured instead, and one
object tells how the command ended. With --max-output on a command line, what a
stream passes on ends at the bound; the rest is read and dropped, and a line on
standard error says how much.

Without a timeout the command takes as long as it likes, and in a server 2m at most.
A timeout also bounds the start of the sandbox.

The rules of a spec with "commands" hold: a command that they refuse is not run, and
only programs that they allow can be executed; see paddock execute.

From a command line signals INT, TERM, HUP, QUIT, USR1 and USR2 are handed on to
the command; the third INT or TERM ends the sandbox, whatever the command makes of it.

Exit status: the command's own; 124 it timed out; 125 Paddock could not run it;
126 it cannot be executed, or a rule of the spec refuses it; 127 it does not exist; 128+N signal N ended it.`

// run opens the sandbox, runs the command and closes the sandbox; it returns
// when the kernel has confirmed that nothing is left.
func run(ctx context.Context, env *op.Env, in RunInput, stream *op.Stream) (out RunOutput, err error) {
	tty := in.terminal(stream)
	if err := in.check(env, stream, tty); err != nil {
		return RunOutput{}, err
	}
	spec, err := in.Spec(ctx, env)
	if err != nil {
		return RunOutput{}, err
	}
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
	notes := stream.Stderr
	if in.Quiet {
		notes = nil
	}
	defer func() {
		err = errors.Join(err, sandbox.Close())
		out.Sandbox, out.Left = sandbox.ID(), op.NewLeft(sandbox)
		err = errors.Join(err, out.Left.Warn(notes))
	}()
	if err := op.TellLost(notes, sandbox.Isolation()); err != nil {
		return RunOutput{}, err
	}
	if !tty && in.TTY == nil && notes != nil && stream.Terminal != nil && stream.Typed && stream.Stdout != nil && wantsTerminal(in.Argv) {
		_, _ = fmt.Fprintf(notes, "paddock: %s may want a terminal, which -t gives it\n", path.Base(in.Argv[0])) // a note alone
	}
	cmd := sandbox.Command(ctx, in.Argv[0], in.Argv[1:]...)
	cmd.Dir = in.Cwd
	cmd.Stdin = stream.Stdin
	cmd.Timeout = limit.Span
	if stream.Stdout == nil {
		out, err = capture(env, cmd, int64(sandbox.Spec().Limits.Output), stream)
	} else {
		out, err = follow(cmd, spec, tty, stream)
		err = errors.Join(err, output.TellDenials(notes, op.RenderHints(out.Denials, op.FlagHint), out.ExitStatus()))
	}
	if out.TimedOut {
		out.Limit, out.Denials = limit.Ended(out.Denials)
	}
	return out, err
}

// limit is how long the command may run, below the ceiling.
func (in RunInput) limit(env *op.Env, spec policy.Spec) (registry.TimeLimit, error) {
	spec, err := env.UnderCeiling(spec)
	limit := registry.TimeLimit{Span: time.Duration(spec.Limits.Timeout), From: registry.FromSandbox}
	switch {
	case in.Timeout != nil:
		limit.From = registry.FromCall
	case env.Sandboxes != nil && limit.Span == 0:
		limit = registry.TimeLimit{Span: foregroundTime, From: registry.FromDefault} // a model that waits for ever does nothing else
	}
	return env.BoundTime(limit), err
}

// terminal reports whether the command gets a terminal: where that was asked for, and
// for a shell that somebody is about to type into.
func (in RunInput) terminal(stream *op.Stream) bool {
	if in.TTY != nil {
		return *in.TTY
	}
	if stream.Terminal == nil || !stream.Typed || stream.Stdout == nil || len(in.Argv) == 0 {
		return false
	}
	switch path.Base(in.Argv[0]) {
	case "sh", "bash", "dash", "ash", "zsh", "fish", "ksh", "mksh":
	default:
		return false
	}
	return !slices.ContainsFunc(in.Argv[1:], func(arg string) bool { // a script, or a command
		long := strings.HasPrefix(arg, "--")
		return !strings.HasPrefix(arg, "-") || long && strings.HasPrefix(arg, "--c") || !long && strings.Contains(arg, "c")
	})
}

// wantsTerminal reports whether a command is for somebody who sits at a terminal: an
// editor or the like, or an interpreter that is given nothing to read.
func wantsTerminal(argv []string) bool {
	switch name := path.Base(argv[0]); name {
	case "vi", "vim", "nvim", "nano", "emacs", "less", "more", "man", "top", "htop", "tmux", "screen", "tig":
		return true
	case "python", "python3", "ipython", "node", "irb", "psql", "sqlite3", "gdb", "bc":
		return len(argv) == 1
	}
	return false
}

func (in RunInput) check(env *op.Env, stream *op.Stream, tty bool) error {
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
	case tty && stream.Stdout == nil:
		return &paddock.Error{Message: "cannot run with a terminal: the output is captured"}
	case tty && stream.Terminal == nil:
		return &paddock.Error{
			Message: "cannot run with a terminal: standard input is not one",
			Hint:    "leave out --tty, or start it from a terminal",
		}
	}
	return nil
}

// capture keeps the command's output, bounded by the library, or by the budget
// of answers.
func capture(env *op.Env, cmd *paddock.Cmd, bound int64, stream *op.Stream) (RunOutput, error) {
	k := keep(env, cmd, bound)
	stop := stream.Beat(cmd.Timeout, k.whole.Printed)
	out, err := finish(cmd, stream)
	stop()
	if out.Command == nil {
		k.drop()
		return out, err
	}
	c := k.end(cmd.Result().String(), bound)
	out.Stdout, out.StdoutTruncated = c.stdout, c.stdoutCut
	out.Stderr, out.StderrTruncated = c.stderr, c.stderrCut
	out.Output = c.output
	return out, err
}

// follow passes the command's output on as it comes. spec is the caller's own
// word: the default bound is for captured output alone.
func follow(cmd *paddock.Cmd, spec policy.Spec, tty bool, stream *op.Stream) (RunOutput, error) {
	stdout := &head{w: stream.Stdout, left: int64(spec.Limits.Output)}
	stderr := &head{w: stream.Stderr, left: int64(spec.Limits.Output)}
	cmd.Stdout, cmd.Stderr = stream.Stdout, stream.Stderr
	if spec.Limits.Output > 0 {
		cmd.Stdout, cmd.Stderr = stdout, stderr
	}
	if !tty {
		listen(cmd)
	} else {
		rows, cols, err := stream.Terminal.Size()
		if err != nil {
			return RunOutput{}, err
		}
		cmd.TTY = &paddock.TTY{Rows: rows, Cols: cols}
	}
	out, err := finish(cmd, stream)
	out.StdoutTruncated, out.StderrTruncated = stdout.dropped > 0, stderr.dropped > 0
	return out, errors.Join(err, stdout.tell(stream.Stderr, "output"), stderr.tell(stream.Stderr, "error output"))
}

// finish starts the command and brings it to its end.
func finish(cmd *paddock.Cmd, stream *op.Stream) (RunOutput, error) {
	if cmd.TTY != nil {
		restore, err := stream.Terminal.Raw()
		if err != nil {
			return RunOutput{}, err
		}
		defer restore()
	}
	if err := cmd.Start(); err != nil {
		return RunOutput{}, err
	}
	stop := handOn(cmd, stream)
	defer stop()
	err := cmd.Wait()
	result := cmd.Result()
	if result == nil {
		return RunOutput{}, err
	}
	return RunOutput{Command: cmd.Args, ExitCode: result.ExitCode, Ended: newEnded(result), Isolation: result.Isolation}, brokenStream(err)
}

// brokenStream drops the part of a command's error that its result tells.
func brokenStream(err error) error {
	if exit := (*paddock.ExitError)(nil); errors.As(err, &exit) {
		return exit.Unwrap()
	}
	return err
}

// handOn hands signals and window sizes on to the command until stop is called.
func handOn(cmd *paddock.Cmd, stream *op.Stream) (stop func()) {
	if stream.Signals == nil {
		return func() {}
	}
	end := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, name := range stream.EarlySignals() {
			handOnOne(cmd, stream, name)
		}
		for {
			select {
			case name := <-stream.Signals:
				handOnOne(cmd, stream, name)
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// handOnOne cannot report a failure to anyone: the command has just ended, or
// the connection broke, which Wait tells.
func handOnOne(cmd *paddock.Cmd, stream *op.Stream, name string) {
	if name == "SIGWINCH" && cmd.TTY != nil {
		if rows, cols, err := stream.Terminal.Size(); err == nil {
			_ = cmd.Resize(rows, cols)
		}
		return
	}
	_ = cmd.Signal(name)
}

// renderRun writes captured output; a stream has had it already. Not even
// nothing is written where there is none: it would wait for ever behind output
// that nobody reads.
func renderRun(w io.Writer, out RunOutput) error {
	if out.Stdout == "" {
		return nil
	}
	_, err := io.WriteString(w, out.Stdout)
	return err
}

// allowed refuses arguments that the spec's rules, where it has any, do not
// allow.
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
	return &paddock.Error{Message: "cannot run: " + v.Reason, Hint: v.Hint, Code: wire.CodeNotExecutable}
}
