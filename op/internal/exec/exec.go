// Package exec has the operations that run commands: run, exec with exec_kill and
// output_read, and execute, which checks a command against rules first.
//
// run and execute open a sandbox for each command. exec runs commands in a sandbox that
// stays open, and they can continue in the background.
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
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/command"
)

type ExecInput struct {
	op.InSandbox
	Command    osstring.String  `json:"command,omitempty" flag:"-" help:"shell text, run by /bin/sh -c; give either this or argv"`
	Cwd        osstring.String  `json:"cwd,omitempty" flag:"cwd" arg:"DIR" help:"working directory inside, relative to the workspace or absolute (default: the workspace)"`
	Env        op.Variables     `json:"env,omitempty" flag:"env" short:"e" arg:"K=V" secret:"env" help:"set an environment variable (may be repeated)"`
	SecretEnv  []string         `json:"secret_env,omitempty" flag:"secret-env" arg:"KEY" help:"names of secrets (secret_set) to pass as environment variables" cli:"pass this secret (paddock secret set) as an environment variable (may be repeated)" max:"64"`
	Stdin      string           `json:"stdin,omitempty" flag:"-" help:"the command's whole standard input (default: empty)"`
	Timeout    *policy.Duration `json:"timeout,omitempty" flag:"timeout" arg:"DUR" help:"end the command and everything it started after this time, such as 90s or 1h30m (default: the sandbox's limit; without one, 2m in the foreground of a server)"`
	Background bool             `json:"background,omitempty" flag:"-" help:"return at once and let the command continue; output_read reads its output, exec_kill ends it"`
	YieldAfter *policy.Duration `json:"yield_after,omitempty" flag:"-" help:"wait at most this long, then continue in the background (e.g. 30s)"`
	Caller
	Detach bool          `json:"detach,omitempty" flag:"detach" short:"d" only:"cli" help:"start the command in the background, print its id, and do not wait; its standard input is empty"`
	Resume bool          `json:"resume,omitempty" flag:"resume" only:"cli" help:"let the sandbox's commands continue first, if it is paused"`
	Argv   osstring.List `json:"argv,omitempty" arg:"CMD [ARG]..." help:"the command and its arguments, run without a shell"`
}

// ExecAnswer is the output of exec: how a command ended, or its output so far.
type ExecAnswer struct {
	Exec     string `json:"exec,omitempty"` // for output_read and exec_kill
	Sandbox  string `json:"sandbox"`
	State    string `json:"state"`            // running or exited
	ExitCode *int   `json:"exit_code"`        // null while it runs; -N if signal N ended it, 124 if it timed out
	Killed   bool   `json:"killed,omitempty"` // by exec_kill
	Ended
	// Stdout and Stderr are text without control sequences: all of it, or head and tail if
	// there is more than the answer has room for.
	Stdout    string   `json:"stdout"`
	Stderr    string   `json:"stderr"`
	StdoutCut *ExecCut `json:"stdout_cut,omitempty"`
	StderrCut *ExecCut `json:"stderr_cut,omitempty"`
	// Next are the cursors for output_read to continue from.
	Next *ExecCursors `json:"next,omitempty"`
}

// ExecCut describes what was left out of a stream.
type ExecCut struct {
	Bytes  int64 `json:"bytes"`
	Lines  int64 `json:"lines"`
	Cursor int64 `json:"cursor"` // where the left-out part begins, for output_read
}

// ExecCursors are the ends of the output in the answer, if the command still runs.
type ExecCursors struct {
	Stdout int64 `json:"stdout"`
	Stderr int64 `json:"stderr"`
}

func (ExecInput) Desc() op.Desc {
	return op.Desc{
		Name: "exec", CLI: []string{"exec"},
		Summary: "Run a command in a persistent sandbox",
		Doc:     execOpDoc,
		Examples: `  # in one of "paddock create"
  paddock exec web -- ps aux

  # beside what runs in sandbox pd-zpssdiq7p7h7e of "paddock run"
  paddock exec pd-zpssdiq7p7h7e -- ps aux

  # in the background: it prints an id
  paddock exec -d web -- make all
  paddock exec output --follow web e7`,
		Profile: op.ProfileWorkspace,
		Hints:   op.Hints{Destructive: true, LongRunning: true},
		Streams: op.Streams{In: true, Out: true},
	}
}

const execOpDoc = `Run a command in a persistent sandbox, and report how it ended. Each command starts in
the workspace, /workspace inside: files stay for the next command, the current directory
and variables do not. When the command exits, everything that it started is ended too.

In a tool call, command is shell text; argv is a program with its arguments, run without
a shell. Standard input is the text in stdin. The answer has the exit status, the time,
standard output and standard error, and what the sandbox refused, with a hint. Of long
output it has the head and the tail; output_read with the exec's id reads the rest.

In a tool call, background returns at once with the exec's id; output_read then reads the
output and reports the end, exec_kill ends the command. yield_after waits for a while
first. Use them for long commands. Such a command belongs to the sandbox: in one that
outlives the server it runs on, and is found by its id after that. For servers that
other commands talk to, use services.

If the sandbox's spec has "commands", those rules apply: a command that they
refuse is not run, as with execute.

On the command line, NAME or --sandbox NAME is a sandbox of "paddock create", or one of
another process, by name or id. The command has the streams of the command line.

On the command line, -d starts the command in the background and prints its id: the
sandbox keeps it, whatever becomes of who started it; "exec list", "exec output",
"exec signal" and "exec kill" are about it, and "logs" prints what all have printed.

Exit status: the command's own; 124 it timed out; 125 Paddock could not run it;
126 it cannot be executed, or a rule of the spec refuses it; 127 it does not exist;
128+N signal N ended it.`

// Do runs the command, and waits for its end unless it goes to the background.
func (in ExecInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out ExecAnswer, err error) {
	if err := in.check(env); err != nil {
		return out, err
	}
	if in.Detach && in.asks() {
		return out, &paddock.Error{Message: "cannot run with a terminal: the command is not waited for", Hint: "leave out --tty or --detach"}
	}
	if err := in.Caller.check(stream); err != nil {
		return out, err
	}
	if in.Resume && env.Sandboxes == nil {
		if err := paddock.Resume(ctx, in.Sandbox, env.Options); err != nil {
			return out, err
		}
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, h *registry.Sandbox) error {
		if err := h.CheckSecrets(ctx, in.SecretEnv); err != nil {
			return err
		}
		argv, err := in.argv(h)
		if err != nil {
			return err
		}
		if in.Detach {
			out, err = in.detach(ctx, h, argv)
			return err
		}
		if stream.Stdout != nil {
			out, err = in.follow(ctx, env, h, argv, stream)
			return err
		}
		x, err := in.start(h, env, argv, stream)
		if err != nil {
			return err
		}
		stop, quiet := func() {}, stream.ReportProgress(x.Limit.Span, x.Out.Printed)
		if x.Cmd != nil {
			stop = passSignals(x.Cmd, stream)
		}
		err = in.await(ctx, x, h)
		stop()
		quiet()
		out = answer(h, env, x)
		return err
	})
	return out, err
}

func (in ExecInput) check(env *op.Env) error {
	switch {
	case in.Command == "" && len(in.Argv) == 0 && env.Sandboxes == nil:
		return &paddock.Error{Message: "cannot run: no command was given", Hint: "paddock exec NAME -- CMD [ARG]..."}
	case in.Command == "" && len(in.Argv) == 0:
		return &policy.FieldError{Field: "command", Reason: "no command was given", Hint: "give command (shell text) or argv"}
	case in.Command != "" && len(in.Argv) > 0:
		return &policy.FieldError{Field: "argv", Reason: "command is given, too", Hint: "give one of the two"}
	case len(in.Argv) > 0 && in.Argv[0] == "":
		return &policy.FieldError{Field: "argv[0]", Reason: "it is empty"}
	case in.Timeout != nil && *in.Timeout <= 0:
		return &policy.FieldError{Field: "timeout", Value: in.Timeout.String(), Reason: "it must be above 0", Hint: "leave it out for the default"}
	case in.YieldAfter != nil && (*in.YieldAfter < 0 || in.Background):
		return &policy.FieldError{Field: "yield_after", Value: in.YieldAfter.String(), Reason: "it must be at least 0, and not be combined with background"}
	case env.Sandboxes == nil && (in.Background || in.YieldAfter != nil):
		return &policy.FieldError{Field: "background", Reason: "only a server keeps what runs on"}
	case env.Sandboxes == nil && in.Sandbox == "":
		wrong := op.Unnamed("sandbox")
		wrong.Hint = "paddock exec NAME -- CMD [ARG]... runs it in one; paddock run makes one for a command"
		return wrong
	}
	return in.Env.Check()
}

// argv returns the command to execute. If the sandbox has rules for commands, it checks the
// command first, and shell text is executed as it was parsed.
func (in ExecInput) argv(h *registry.Sandbox) ([]string, error) {
	spec := h.Spec()
	switch {
	case spec.Commands != nil:
	case in.Command != "":
		return []string{"/bin/sh", "-c", string(in.Command)}, nil
	default:
		return in.Argv, nil
	}
	rules, err := command.New(*spec.Commands)
	if err != nil {
		return nil, err
	}
	names := slices.Collect(maps.Keys(spec.Env))
	for _, text := range slices.Concat(in.SecretEnv, in.Env) {
		name, _, _ := strings.Cut(text, "=")
		if command.DangerousVariable(name) {
			return nil, &policy.FieldError{Field: policy.FieldPath("env", name),
				Reason: "it decides what programs load or execute, and the sandbox has rules for that", Hint: "leave it out"}
		}
		names = append(names, name)
	}
	if in.Stdin != "" {
		return nil, &policy.FieldError{Field: "stdin", Reason: "under rules for commands standard input must be empty, since its effect cannot be checked"}
	}
	rules = rules.Given(names...)
	verdict := rules.Argv(in.Argv)
	switch {
	case in.Command == "":
	case hasBash(spec.RootFS):
		verdict = rules.Shell(string(in.Command))
	default:
		verdict = rules.ShellPOSIX(string(in.Command))
	}
	if verdict.Allowed {
		paths := command.PathsIn(spec)
		paths.Workspace = registry.WorkspaceAt(h.Isolation().Level, spec)
		if paths.Cwd = path.Clean(string(in.Cwd)); !path.IsAbs(string(in.Cwd)) {
			paths.Cwd = path.Join(paths.Workspace, string(in.Cwd))
		}
		verdict = paths.Check(verdict)
	}
	switch {
	case !verdict.Allowed:
		return nil, refusedBy(verdict)
	case in.Command == "":
		return in.Argv, nil
	}
	return shellArgv(verdict), nil
}

// follow runs the command and copies its output to the caller as it arrives.
func (in ExecInput) follow(ctx context.Context, env *op.Env, h *registry.Sandbox, argv []string, stream *op.Stream) (ExecAnswer, error) {
	cmd := h.Command(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.AddEnv, cmd.SecretEnv, cmd.Stdin = string(in.Cwd), in.Env, in.SecretEnv, in.stdin(h, stream)
	if in.Timeout != nil {
		cmd.Timeout = time.Duration(*in.Timeout)
	}
	tty := in.Terminal(stream)
	if h.Spec().Commands != nil { // its input is empty
		if in.asks() {
			return ExecAnswer{}, &paddock.Error{Message: "cannot run with a terminal: the sandbox has rules for commands, under which standard input is empty", Hint: "leave out --tty"}
		}
		tty = false
	}
	if term, ok := env.Lookup("TERM"); ok && tty {
		cmd.AddEnv = append([]string{"TERM=" + term}, cmd.AddEnv...)
	}
	run, err := runStreamed(cmd, 0, tty, stream)
	out := ExecAnswer{Sandbox: h.Called(), State: registry.Exited, ExitCode: &run.ExitCode, Ended: run.Ended}
	return out, errors.Join(err, output.TellDenials(stream.Stderr, op.RenderHints(run.Denials, op.FlagHint), run.ExitStatus()))
}

// detach starts the command, which then belongs to its sandbox alone.
func (in ExecInput) detach(ctx context.Context, h *registry.Sandbox, argv []string) (ExecAnswer, error) {
	cmd := h.Command(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.AddEnv, cmd.SecretEnv = string(in.Cwd), in.Env, in.SecretEnv
	if in.Timeout != nil {
		cmd.Timeout = time.Duration(*in.Timeout)
	}
	x, err := cmd.StartBackground()
	if err != nil {
		return ExecAnswer{}, err
	}
	return ExecAnswer{Exec: x.ID(), Sandbox: h.Called(), State: registry.Running}, nil
}

// foregroundTime is the time limit of a command that is waited for and has no other limit.
const foregroundTime = 2 * time.Minute

// limit returns the command's time limit, not considering the operator's.
func (in ExecInput) limit(spec policy.Spec) registry.TimeLimit {
	switch {
	case in.Timeout != nil:
		return registry.TimeLimit{Span: time.Duration(*in.Timeout), From: registry.FromCall}
	case spec.Limits.Timeout > 0:
		return registry.TimeLimit{Span: time.Duration(spec.Limits.Timeout), From: registry.FromSandbox}
	case in.Background || in.YieldAfter != nil:
		return registry.TimeLimit{}
	}
	return registry.TimeLimit{Span: foregroundTime, From: registry.FromDefault}
}

// stdin returns the command's standard input: the text, or else the door's stream. Under
// rules it is empty: a command could be an interpreter, whose input is not checked.
func (in ExecInput) stdin(h *registry.Sandbox, stream *op.Stream) io.Reader {
	switch {
	case h.Spec().Commands != nil, in.NoStdin:
		return nil
	case in.Stdin != "":
		return strings.NewReader(in.Stdin)
	}
	return stream.Stdin
}

// start starts a command whose output is stored. It runs until it exits, its End is called, or
// the sandbox ends, even without a caller that waits. If the error is nil, the caller must call
// await.
func (in ExecInput) start(h *registry.Sandbox, env *op.Env, argv []string, stream *op.Stream) (*registry.Exec, error) {
	ctx, end := context.WithCancel(context.Background())
	told := in.Command
	if told == "" {
		told = osstring.String(strings.Join(in.Argv, " "))
	}
	if in.Background || in.YieldAfter != nil { // it belongs to the sandbox
		end()
		cmd, limit := h.Command(context.Background(), argv[0], argv[1:]...), env.BoundTime(in.limit(h.Spec()))
		cmd.Dir, cmd.AddEnv, cmd.SecretEnv, cmd.Timeout, cmd.Stdin = string(in.Cwd), in.Env, in.SecretEnv, limit.Span, in.stdin(h, stream)
		return h.StartJob(cmd, string(told), limit, env.Outputs)
	}
	x := &registry.Exec{Out: env.Outputs.New(h.Principal), Command: h.StoredCommand(string(told)), Began: time.Now(), End: end, Done: make(chan struct{})}
	if err := h.Execs.Add(x); err != nil {
		end()
		x.Out.Drop()
		return nil, err
	}
	x.Cmd = h.Command(ctx, argv[0], argv[1:]...)
	x.Limit = env.BoundTime(in.limit(h.Spec()))
	x.Cmd.Dir, x.Cmd.AddEnv, x.Cmd.SecretEnv, x.Cmd.Timeout = string(in.Cwd), in.Env, in.SecretEnv, x.Limit.Span
	x.Cmd.Stdout, x.Cmd.Stderr = x.Out.Side(0), x.Out.Side(1)
	x.Cmd.Stdin = in.stdin(h, stream)
	if err := x.Cmd.Start(); err != nil {
		end()
		x.Err = err
		close(x.Done)
		h.Execs.Drop(x)
		x.Out.Drop()
		return nil, err
	}
	return x, nil
}

// watch waits for the command's end and records it.
func watch(x *registry.Exec, h *registry.Sandbox) {
	err := brokenStream(x.Cmd.Wait())
	x.Result = x.Cmd.Result()
	x.End()
	if x.Result == nil || err != nil && !registry.Cancelled(err) {
		x.Err = h.Explain(err)
	}
	var refused []paddock.Denial
	if x.Result != nil && !x.Result.Success() {
		refused = x.Result.Denials
	}
	x.Out.End(x.How(), refused...)
	close(x.Done)
}

// await waits for the command's end, as long as the input says. If ctx ends first, it ends
// the command, unless that runs in the background.
func (in ExecInput) await(ctx context.Context, x *registry.Exec, h *registry.Sandbox) error {
	ended := func() error { return fmt.Errorf("cannot wait for the command, which was ended: %w", ctx.Err()) }
	if !in.Background && in.YieldAfter == nil {
		stop := context.AfterFunc(ctx, x.End)
		watch(x, h) // in this goroutine: another one would cost two more switches of threads
		if !stop() {
			return ended()
		}
		return x.Err
	}
	if in.Background {
		return nil
	}
	timer := time.NewTimer(time.Duration(*in.YieldAfter))
	defer timer.Stop()
	select {
	case <-x.Done:
		return x.Err
	case <-timer.C:
		return nil
	case <-ctx.Done():
		x.End()
		<-x.Done // with the proof that nothing is left
		return ended()
	}
}

// shownWhole is how much output an answer has if output_read cannot read the rest.
const shownWhole = 2 << 20

// answer returns the present state of a command.
func answer(h *registry.Sandbox, env *op.Env, x *registry.Exec) ExecAnswer {
	out := ExecAnswer{Exec: x.Out.ID(), Sandbox: h.Called(), State: registry.Running, Ended: Ended{DurationMS: time.Since(x.Began).Milliseconds()}}
	if !x.Running() {
		out.State = registry.Exited
		if x.Result != nil {
			out.ExitCode, out.Ended = &x.Result.ExitCode, newEnded(x.Result)
			if out.TimedOut {
				out.Limit, out.Denials = x.Limit.Ended(out.Denials)
			}
		}
	}
	out.Killed = x.Killed.Load()
	if !h.Lasting {
		out.Exec = "" // it cannot be found later
		defer x.Out.Drop()
	}
	room := env.Room(output.ShownExec)
	if !x.Out.Readable() {
		room = shownWhole // output_read cannot continue
	}
	stderr := x.Out.Excerpt(1, room/3)
	stdout := x.Out.Excerpt(0, room-text.Cost(stderr.Text))
	if cost := text.Cost(stdout.Text); cost < room/2 && stderr.CutBytes > 0 {
		stderr = x.Out.Excerpt(1, room-cost)
	}
	out.Stdout, out.Stderr = stdout.Text, stderr.Text
	out.StdoutCut, out.StderrCut = cut(stdout), cut(stderr)
	out.StdoutBytes, out.StderrBytes = x.Out.Totals()
	if out.State == registry.Running {
		out.Next = &ExecCursors{stdout.Next, stderr.Next}
	}
	return out
}

// cut returns what an excerpt has left out, or nil.
func cut(e output.Excerpt) *ExecCut {
	if e.CutBytes == 0 {
		return nil
	}
	return &ExecCut{Bytes: e.CutBytes, Lines: e.CutLines, Cursor: e.Next}
}

// ExitStatus returns the command's own status, 124 if it timed out, and 128+N if signal N
// ended it.
func (out ExecAnswer) ExitStatus() int {
	if out.ExitCode == nil {
		return out.status(0)
	}
	return out.status(*out.ExitCode)
}

// Render writes standard output alone, or the id of a command in the background.
func (out ExecAnswer) Render(w io.Writer) error {
	if out.State == registry.Running {
		_, err := fmt.Fprintln(w, out.Exec)
		return err
	}
	if out.Stdout == "" {
		return nil
	}
	_, err := io.WriteString(w, out.Stdout)
	return err
}

// Tell writes how the command ended, with all remarks, and then its output.
func (out ExecAnswer) Tell(w io.Writer) error {
	t := output.Teller{W: w}
	t.Frame(out.said(), out.Stdout, out.Stderr)
	return t.Err
}

// said returns how the command ended and all remarks about it.
func (out ExecAnswer) said() []string {
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	seconds := float64(out.DurationMS) / 1000
	memory := map[bool]string{true: " (out of memory)"}[out.OOMKilled]
	switch {
	case out.State == registry.Running:
		say("still running after %.3fs, exec %s", seconds, out.Exec)
	case out.ExitCode == nil:
		say("ended after %.3fs, its exit status is not known", seconds)
	case out.TimedOut:
		say("timed out and was ended after %.3fs%s", seconds, longer(out.Limit, out.Exec != ""))
	case out.Signal != "":
		say("ended by %s after %.3fs%s", out.Signal, seconds, memory)
	default:
		say("exit status %d after %.3fs%s", *out.ExitCode, seconds, memory)
	}
	all = append(all, output.DenialTexts(slices.DeleteFunc(slices.Clone(out.Denials), func(d paddock.Denial) bool { // the first line has it
		return out.TimedOut && d.Layer == "limit" && d.Rule == "timeout"
	}), out.ExitStatus())...)
	if n := out.SurvivorsKilled; n > 0 && !out.TimedOut { // if it timed out, the command itself is one of them
		say("it left processes running, which were ended: %d", n)
	}
	if out.State == registry.Exited && !out.DeathProved {
		say("it is not proved that all its processes are gone")
	}
	if out.Blocked != "" {
		say("the rule %s ended the output", out.Blocked)
	}
	if out.StdoutCut != nil {
		say("%d bytes of stdout left out", out.StdoutCut.Bytes)
	}
	if out.StderrCut != nil {
		say("%d bytes of stderr left out", out.StderrCut.Bytes)
	}
	if out.Next != nil {
		say(`output_read {"output": %q, "cursor": %d, "wait": "30s"} follows it, exec_kill {"exec": %q} ends it`, out.Exec, out.Next.Stdout, out.Exec)
	}
	return all
}

// longer returns which time limit ended a command, and what gives it more time.
func longer(limit string, background bool) string {
	switch {
	case strings.HasSuffix(limit, registry.FromOperator):
		return " (" + limit + ")"
	case limit != "":
		limit = " (" + limit + ")"
	}
	return limit + "; timeout gives it longer" + map[bool]string{true: ", background has it go on while you do something else"}[background]
}
