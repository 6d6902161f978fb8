// Package exec has the operations that run commands: run, exec with exec_kill and
// output_read, and execute, which checks a command against rules first.
//
// run has a sandbox of its own for each command; exec works in one that is kept, and
// its commands go on without whoever asked for them.
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
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/command"
	"github.com/paddock-dev/paddock/wire"
)

// ExecInput asks for a command in a sandbox that stays.
type ExecInput struct {
	op.InSandbox
	Command    string           `json:"command,omitempty" flag:"-" help:"shell text, run by /bin/sh -c; give this or argv"`
	Cwd        string           `json:"cwd,omitempty" flag:"cwd" arg:"DIR" help:"working directory inside, relative to the workspace or absolute (default: the workspace)"`
	Env        op.Variables     `json:"env,omitempty" flag:"env" short:"e" arg:"K=V" secret:"env" help:"set an environment variable (may be repeated)"`
	SecretEnv  []string         `json:"secret_env,omitempty" flag:"-" help:"secrets of secret_set that are given as environment variables of the same name" max:"64"`
	Stdin      string           `json:"stdin,omitempty" flag:"-" help:"the command's whole standard input (default: empty)"`
	Timeout    *policy.Duration `json:"timeout,omitempty" flag:"timeout" arg:"DUR" help:"end the command and all it started after this time, 90s or 1h30m (default: the sandbox's; else, in the foreground of a server, 2m)"`
	Background bool             `json:"background,omitempty" flag:"-" help:"return at once; the command runs on, output_read reads what it prints, exec_kill ends it"`
	YieldAfter *policy.Duration `json:"yield_after,omitempty" flag:"-" help:"wait so long for the command's end, and then leave it in the background: 30s"`
	Argv       []string         `json:"argv,omitempty" arg:"CMD [ARG]..." help:"the command and its arguments, run without a shell"`
}

// ExecOp returns the operation exec.
func ExecOp() op.Op {
	return op.New(op.Desc{
		Name: "exec", CLI: []string{"exec"},
		Summary: "Run a command in a sandbox that stays",
		Doc:     execOpDoc,
		Examples: `  # beside what runs in sandbox pd-zpssdiq7p7h7e
  paddock exec --sandbox pd-zpssdiq7p7h7e -- ps aux`,
		Profile: op.ProfileWorkspace,
		Hints:   op.Hints{Destructive: true, LongRunning: true},
		Streams: op.Streams{In: true, Out: true},
	}, execCommand, renderExecAnswer)
}

const execOpDoc = `Run a command in a sandbox that stays, and tell how it ended. command is shell
text; argv is a program with its arguments, without a shell. It begins in the
workspace, /workspace inside, each time anew: a directory or a variable that one
command sets is not there for the next, files are. Standard input is what stdin
says.

The answer has the exit status, the time, standard output and standard error, and
what the walls refused, with a hint. Of long output it has the beginning and the
end; output_read with the exec's id reads the rest. When the command exits, all
that it started is ended, too.

background returns at once with the exec's id; output_read follows what it prints
and tells how it ended, exec_kill ends it. yield_after waits so long first. Use
them for what takes long; for servers that others talk to there are services.

A sandbox whose spec has "commands" keeps its rules: a command that they refuse is
not run, as with execute.

On the command line the command runs beside its owner's in a sandbox of another
process, which --sandbox names, with its streams passed through as they come.
Exit status: the command's own; 124 it timed out; 125 Paddock could not run it;
126 it cannot be executed, or a rule of the spec refuses it; 127 it does not exist; 128+N signal N ended it.`

func (in ExecInput) check(env *op.Env) error {
	switch {
	case in.Command == "" && len(in.Argv) == 0 && env.Sandboxes == nil:
		return &paddock.Error{Message: "cannot run: no command was given", Hint: "paddock exec --sandbox ID -- CMD [ARG]..."}
	case in.Command == "" && len(in.Argv) == 0:
		return &policy.FieldError{Field: "command", Reason: "no command was given", Hint: "give command (shell text) or argv"}
	case in.Command != "" && len(in.Argv) > 0:
		return &policy.FieldError{Field: "argv", Reason: "command is given, too", Hint: "give one of the two"}
	case len(in.Argv) > 0 && in.Argv[0] == "":
		return &policy.FieldError{Field: "argv[0]", Reason: "it is empty"}
	case in.Timeout != nil && *in.Timeout <= 0:
		return &policy.FieldError{Field: "timeout", Value: in.Timeout.String(), Reason: "it must be above 0", Hint: "leave it out for the default"}
	case in.YieldAfter != nil && (*in.YieldAfter < 0 || in.Background):
		return &policy.FieldError{Field: "yield_after", Value: in.YieldAfter.String(), Reason: "it must not be below 0, nor beside background"}
	case env.Sandboxes == nil && (in.Background || in.YieldAfter != nil):
		return &policy.FieldError{Field: "background", Reason: "only a server keeps what runs on"}
	case env.Sandboxes == nil && in.Sandbox == "":
		return &policy.FieldError{Field: "sandbox", Reason: "it is missing", Hint: "name a sandbox that runs, see paddock list; paddock run makes one for a command"}
	}
	return in.Env.Check()
}

// execCommand runs the command, and waits for it where that was asked for.
func execCommand(ctx context.Context, env *op.Env, in ExecInput, stream *op.Stream) (out ExecAnswer, err error) {
	if err := in.check(env); err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, h *registry.Sandbox) error {
		if in.Env, err = h.WithSecrets(in.Env, in.SecretEnv); err != nil {
			return err
		}
		argv, err := argv(h, in)
		if err != nil {
			return err
		}
		if stream.Stdout != nil {
			out, err = followed(ctx, h, env, argv, in, stream)
			return err
		}
		x, err := start(h, env, argv, in, stream)
		if err != nil {
			return err
		}
		stop, quiet := handOn(x.Cmd, stream), stream.Beat(x.Cmd.Timeout, x.Out.Printed)
		err = await(ctx, x, h, in)
		stop()
		quiet()
		out = told(h, env, x)
		return err
	})
	return out, err
}

// await waits as long as was asked for. Who does not wait any more ends the
// command, unless that is what was asked for.
func await(ctx context.Context, x *registry.Exec, h *registry.Sandbox, in ExecInput) error {
	switch {
	case in.Background:
		go watch(x, h)
		return nil
	case in.YieldAfter != nil:
		go watch(x, h)
		return yield(ctx, x, time.Duration(*in.YieldAfter))
	}
	stop := context.AfterFunc(ctx, x.End)
	watch(x, h) // here: beside, each command would cost two changes of threads more
	if !stop() {
		return errEnded(ctx)
	}
	return x.Err
}

// yield waits for the end, and after some time does not any more.
func yield(ctx context.Context, x *registry.Exec, after time.Duration) error {
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-x.Done:
		return x.Err
	case <-timer.C:
		return nil
	case <-ctx.Done():
		x.End()
		<-x.Done // with the proof that nothing is left
		return errEnded(ctx)
	}
}

func errEnded(ctx context.Context) error {
	return fmt.Errorf("cannot wait for the command, which was ended: %w", ctx.Err())
}

// argv is what is executed, once the rules of the sandbox have allowed it.
func argv(h *registry.Sandbox, in ExecInput) ([]string, error) {
	spec := h.Spec()
	if spec.Commands != nil {
		return ruled(h, in, spec)
	}
	if in.Command != "" {
		return []string{"/bin/sh", "-c", in.Command}, nil
	}
	return in.Argv, nil
}

// ruled is argv under rules. Shell text is run as it was parsed.
func ruled(h *registry.Sandbox, in ExecInput, spec policy.Spec) ([]string, error) {
	rules, err := command.New(*spec.Commands)
	if err != nil {
		return nil, err
	}
	names := slices.Collect(maps.Keys(spec.Env))
	for _, text := range in.Env {
		name, _, _ := strings.Cut(text, "=")
		if command.DangerousVariable(name) {
			return nil, &policy.FieldError{Field: policy.FieldPath("env", name),
				Reason: "it decides what programs load or execute, and the sandbox has rules for that", Hint: "leave it out"}
		}
		names = append(names, name)
	}
	if in.Stdin != "" {
		return nil, &policy.FieldError{Field: "stdin", Reason: "under rules for commands standard input is empty: nobody judges what a command would do with it"}
	}
	rules = rules.Given(names...)
	verdict := rules.Argv(in.Argv)
	switch {
	case in.Command == "":
	case hasBash(spec.RootFS):
		verdict = rules.Shell(in.Command)
	default:
		verdict = rules.ShellPOSIX(in.Command)
	}
	if verdict.Allowed {
		paths := command.PathsIn(spec)
		paths.Workspace, paths.Cwd = registry.WorkspaceAt(h.Isolation().Level, spec), dir(h, in.Cwd)
		verdict = paths.Check(verdict)
	}
	switch {
	case !verdict.Allowed:
		return nil, &paddock.Error{Message: "cannot run: " + verdict.Reason, Hint: verdict.Hint, Code: wire.CodeNotExecutable}
	case in.Command == "":
		return in.Argv, nil
	case verdict.Dialect == command.DialectBash:
		return []string{"bash", "--noprofile", "--norc", "-c", verdict.Script}, nil
	}
	return []string{"sh", "-c", verdict.Script}, nil
}

// maxCommand bounds what is remembered of a command, in bytes.
const maxCommand = 1 << 10

// remembered is the command without the secrets of the sandbox, as much of it as is
// told afterwards.
func remembered(h *registry.Sandbox, in ExecInput) string {
	pair := in.Command
	if pair == "" {
		pair = strings.Join(in.Argv, " ")
	}
	return text.FirstOf(h.Hide(pair), maxCommand)
}

// followed passes the command's streams on as they come.
func followed(ctx context.Context, h *registry.Sandbox, env *op.Env, argv []string, in ExecInput, stream *op.Stream) (ExecAnswer, error) {
	cmd := h.Command(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.AddEnv, cmd.Stdin = in.Cwd, in.Env, in.stdin(h, stream)
	if in.Timeout != nil {
		cmd.Timeout = time.Duration(*in.Timeout)
	}
	run, err := follow(cmd, policy.Spec{}, false, stream)
	out := ExecAnswer{Sandbox: h.Called(), State: registry.Exited, ExitCode: &run.ExitCode, Ended: run.Ended}
	return out, errors.Join(err, output.TellDenials(stream.Stderr, op.RenderHints(run.Denials, op.FlagHint), run.ExitStatus()))
}

// foregroundTime ends a command that is waited for and has no other bound.
const foregroundTime = 2 * time.Minute

// start starts a command whose output is kept. It runs until it ends, until end
// is called, or until the sandbox ends, whoever waits. Where the error is nil the
// caller has await bring it to its end.
func start(h *registry.Sandbox, env *op.Env, argv []string, in ExecInput, stream *op.Stream) (*registry.Exec, error) {
	ctx, end := context.WithCancel(context.Background())
	x := &registry.Exec{Out: env.Outputs.New(h.Principal), Command: remembered(h, in), Began: time.Now(), End: end, Done: make(chan struct{})}
	if err := h.Execs.Add(x); err != nil {
		end()
		x.Out.Drop()
		return nil, err
	}
	x.Cmd = h.Command(ctx, argv[0], argv[1:]...)
	x.Limit = env.BoundTime(in.limit(h.Spec()))
	x.Cmd.Dir, x.Cmd.AddEnv, x.Cmd.Timeout = in.Cwd, in.Env, x.Limit.Span
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

// stdin is the command's input: the door's where it has one and no text is given.
// Under rules there is none: nobody judges what a command would do with it.
func (in ExecInput) stdin(h *registry.Sandbox, stream *op.Stream) io.Reader {
	switch {
	case h.Spec().Commands != nil:
		return nil
	case in.Stdin != "":
		return strings.NewReader(in.Stdin)
	}
	return stream.Stdin
}

// watch brings the command to its end.
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

// limit is how long the command may run, as far as nobody else has a word on it.
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

// dir is where a command begins, as it sees it.
func dir(h *registry.Sandbox, written string) string {
	workspace := registry.WorkspaceAt(h.Isolation().Level, h.Spec())
	if path.IsAbs(written) {
		return path.Clean(written)
	}
	return path.Join(workspace, written)
}
