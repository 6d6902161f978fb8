package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/command"
	"github.com/paddock-dev/paddock/policy/executor"
)

// ExecuteOp returns the operation execute.
func ExecuteOp() op.Op {
	return op.New(op.Desc{
		Name:    "execute",
		CLI:     []string{"execute"},
		Summary: "Execute shell text that rules allow, and tell how it ended",
		Doc:     executeDoc,
		Examples: `  # a pipeline; each command in it is checked
  paddock execute 'grep -rn "a;b" . | sort | head -3'

  # a command and its arguments, without a shell
  paddock execute -- python3 -c 'print(6*7)'

  # refused, with the reason and the position: exit status 126
  paddock execute 'ls; curl example.com'

  # the settings of an older server, and the result as one JSON object
  paddock execute --config config.json --format json 'ls -la'`,
		Opens:   true,
		Profile: op.ProfileRun,
		Hints:   op.Hints{Destructive: true, LongRunning: true},
		Streams: op.Streams{Out: true},
	}, execute, renderExecute)
}

const executeDoc = `Check a command against rules, execute it in a sandbox of its own, and tell how
it ended: one result, not a stream.

One argument is shell text, parsed with the grammar of a shell: every command in
it, in substitutions and behind wrappers too, must be one that the rules allow.
Several arguments are a command and its arguments, which no shell reads. Without
"commands" in the spec the rules are the default ones; paddock policy check
explains a verdict.

The rules are a guard-rail. What holds is the sandbox: as with paddock run, and
of programs the allowed ones alone can be executed, found in a fixed PATH, where
the kernel has Landlock. Nothing in the workspace or in /tmp can be. Programs
that are interpreters can do what any program could, inside the same walls; go, cargo,
make and compilers are interpreters in this sense.

There is no network, standard input is empty, and nothing of the caller's
environment is handed on. HOME is the workspace. Limits that nobody wrote: 512
MiB of memory, 60 seconds of processor time a process, files of 100 MiB, 32
processes, 256 open files, 120 seconds; at most 300 can be asked for. limits and
network in the spec, or command.limits and command.network_isolated in a
config.json, say otherwise. A memory limit that was written is kept or refused;
the default one is weaker where the host has no control groups, and the result
says so.

Exit status: the command's own; 124 it timed out; 125 Paddock could not run it;
126 it was refused by a rule, or cannot be executed; 127 it does not exist; 128+N signal N ended
it.`

const formatJSON = "json"

// execution is one call of the operation.
type execution struct {
	in      ExecuteInput
	env     *op.Env
	stream  *op.Stream
	spec    policy.Spec
	timeout string // in seconds, for messages
	limit   registry.TimeLimit
	vars    []string // of the environment, "K=V"
	notes   []string
}

func execute(ctx context.Context, env *op.Env, in ExecuteInput, stream *op.Stream) (ExecuteOutput, error) {
	spec, config, err := in.settings(ctx, env)
	if err != nil {
		return ExecuteOutput{}, err
	}
	x := &execution{in: in, env: env, stream: stream}
	if len(config.Ignored) > 0 {
		x.note("%s: not about commands, ignored: %s", in.Config, strings.Join(config.Ignored, ", "))
	}
	out, err := x.run(ctx, spec, config.Disabled)
	if err != nil {
		return ExecuteOutput{}, err
	}
	out.Notes = append(x.notes, out.Notes...)
	out.asJSON = in.Format == formatJSON
	return out, x.tell(out)
}

func (x *execution) note(format string, args ...any) {
	x.notes = append(x.notes, fmt.Sprintf(format, args...))
}

// run goes through the checks in the order that the contract gives them.
func (x *execution) run(ctx context.Context, spec policy.Spec, disabled bool) (ExecuteOutput, error) {
	if disabled {
		return refused(command.Verdict{Rule: "enabled", Reason: "Command execution is disabled", Hint: "command.enabled is false in the configuration"}), nil
	}
	spec, err := x.env.UnderCeiling(spec)
	if err != nil {
		return ExecuteOutput{}, err
	}
	timeout, cut := executor.Timeout(spec.Limits, durationOf(x.in.Timeout))
	x.limit = registry.TimeLimit{Span: time.Duration(timeout), From: registry.FromSandbox}
	if x.in.Timeout != nil && !cut {
		x.limit.From = registry.FromCall
	}
	if x.limit = x.env.BoundTime(x.limit); x.limit.Span < time.Duration(timeout) {
		timeout, cut = policy.Duration(x.limit.Span), true
	}
	if cut {
		x.note("the timeout is cut to %s seconds, the most that can be asked for", executor.FormatSeconds(timeout))
	}
	spec.Limits.Timeout, x.timeout = timeout, executor.FormatSeconds(timeout)
	opts, err := x.env.OptionsFor(spec)
	if err != nil {
		return ExecuteOutput{}, err
	}
	if err := op.Meant(spec, opts.Dir); err != nil {
		return ExecuteOutput{}, err
	}
	if spec, err = paddock.Resolve(spec, opts); err != nil {
		return ExecuteOutput{}, err
	}
	x.spec = spec
	verdict, err := x.judge()
	if err != nil {
		return ExecuteOutput{}, err
	}
	if !verdict.Allowed {
		return refused(verdict), nil
	}
	rel, refusal := workingDir(spec.Workspace.Source, x.in.WorkingDir)
	if refusal != "" {
		return notRun(op.StatusFailed, refusal), nil
	}
	workspace := registry.WorkspaceAt(spec.Level, spec)
	paths := command.PathsIn(spec)
	paths.Workspace, paths.Cwd = workspace, path.Join(workspace, rel)
	if v := paths.Check(verdict); !v.Allowed {
		return refused(v), nil
	}
	if x.vars, err = x.in.environment(spec); err != nil {
		return ExecuteOutput{}, err
	}
	out, err := x.inSandbox(ctx, x.argv(verdict), rel)
	out.Script = verdict.Script
	out.Notes = append(out.Notes, verdict.Notes...)
	return out, err
}

func durationOf(s *Seconds) policy.Duration {
	if s == nil {
		return 0
	}
	return policy.Duration(*s)
}

// judge asks the rules; one word is shell text, for bash where there is one.
func (x *execution) judge() (command.Verdict, error) {
	rules, err := command.New(*x.spec.Commands)
	if err != nil {
		return command.Verdict{}, err
	}
	rules = rules.Given(x.in.variables(x.spec)...)
	text := strings.Join(x.in.Command, "") // of one word at most
	switch {
	case len(x.in.Command) > 1:
		return rules.Argv(x.in.Command), nil
	case hasBash(x.spec.RootFS):
		return rules.Shell(text), nil
	}
	return rules.ShellPOSIX(text), nil
}

// hasBash says whether the sandbox has a bash in its PATH.
func hasBash(rootfs string) bool {
	if rootfs == policy.RootHost {
		rootfs = "/"
	}
	for dir := range strings.SplitSeq(policy.SearchPath, ":") {
		if _, err := os.Lstat(filepath.Join(rootfs, dir, "bash")); err == nil {
			return true
		}
	}
	return false
}

// argv is what is executed: the printed form of what was parsed, by the shell
// in whose dialect it is printed, or the arguments as they are.
func (x *execution) argv(v command.Verdict) []string {
	switch {
	case len(x.in.Command) > 1:
		return x.in.Command
	case v.Dialect == command.DialectBash:
		return []string{"bash", "--noprofile", "--norc", "-c", v.Script}
	}
	return []string{"sh", "-c", v.Script}
}

// inSandbox runs argv in a sandbox of its own. What goes wrong is the result's
// error; the caller's own end, or a sandbox whose death is not proved, is an
// error of the operation.
func (x *execution) inSandbox(ctx context.Context, argv []string, dir string) (out ExecuteOutput, err error) {
	env := *x.env
	env.Options.GitUser = false // the environment is the policy's
	sandbox, err := env.OpenFor(ctx, x.spec, x.limit, x.stream)
	if err != nil {
		return x.failed(ctx, err)
	}
	defer func() {
		err = errors.Join(err, sandbox.Close())
		out.Left = op.NewLeft(sandbox)
	}()
	cmd := sandbox.Command(ctx, argv[0], argv[1:]...)
	workspace := registry.WorkspaceAt(sandbox.Isolation().Level, x.spec) // the level may be another than asked for
	cmd.Dir, cmd.AddEnv = dir, append([]string{"HOME=" + workspace, "PWD=" + path.Join(workspace, dir)}, x.vars...)
	bound := int64(sandbox.Spec().Limits.Output)
	k := keep(x.env, cmd, bound)
	if err := cmd.Start(); err != nil {
		k.drop()
		return x.failed(ctx, err)
	}
	stop, quiet := handOn(cmd, x.stream), x.stream.Beat(cmd.Timeout, k.whole.Printed)
	err = brokenStream(cmd.Wait())
	stop()
	quiet()
	result := cmd.Result()
	if result == nil || err != nil {
		k.drop()
		return x.failed(ctx, err)
	}
	out = ended(result, x.timeout)
	if out.TimedOut {
		out.Limit, out.Denials = x.limit.Ended(out.Denials)
	}
	c := k.end(result.String(), shownStderr)
	out.Stdout, out.StdoutTruncated = c.stdout, c.stdoutCut
	out.Stderr, out.StderrTruncated = c.stderr, c.stderrCut
	out.Output = c.output
	return out, nil
}

// degradedField is a field with a flag that other commands have, and execute in its spec alone.
var degradedField = regexp.MustCompile("`allow_degraded`=([a-z_]+)")

// failed is the result of a command that could not be run. Whoever asked for
// it learns the cause without the host's paths, and the caller's terminal the
// whole of it.
func (x *execution) failed(ctx context.Context, err error) (ExecuteOutput, error) {
	if ctx.Err() != nil {
		return ExecuteOutput{}, errors.Join(ctx.Err(), err)
	}
	if errors.As(err, new(*op.InterruptedError)) {
		return ExecuteOutput{}, err
	}
	out := notRun(op.StatusFailed, "Execution failed: "+x.cause(err))
	switch {
	case errors.Is(err, paddock.ErrTimeout): // of the start
		out.status = op.StatusTimedOut
	case errors.Is(err, paddock.ErrNotFound):
		out.status = op.StatusNotFound
	case errors.Is(err, paddock.ErrNotExecutable):
		out.status = op.StatusRefused
	}
	if x.stream.Stderr == nil {
		return out, nil
	}
	if x.env.Call != nil {
		op.LocateFields(err, []byte("{}"), x.env.NamedSpec()) // the text above names no file of the host
	}
	_, werr := fmt.Fprintf(x.stream.Stderr, "paddock: %v\n", err)
	if hint := op.FlagHint(degradedField.ReplaceAllString(op.HintOf(err), "allow_degraded: [$1] in the spec")); hint != "" && werr == nil {
		_, werr = fmt.Fprintf(x.stream.Stderr, "paddock: hint: %s\n", hint)
	}
	return out, werr
}

// tell says on the caller's terminal what the text for models has no place for.
func (x *execution) tell(out ExecuteOutput) error {
	w := x.stream.Stderr
	if w == nil {
		return nil
	}
	var b strings.Builder
	switch p := out.Position; {
	case p == nil:
	case p.Line > 0:
		fmt.Fprintf(&b, "paddock: refused at line %d, column %d\n", p.Line, p.Column)
	default:
		fmt.Fprintf(&b, "paddock: refused at argument %d\n", p.Argument+1)
	}
	for _, d := range out.Denials {
		if d.Hint != "" && !out.Success {
			fmt.Fprintf(&b, "paddock: denied: %s: %s (%s)\n", d.Layer, strings.TrimSpace(d.Rule+" "+d.Object), op.FlagHint(d.Hint))
		}
	}
	for _, note := range out.Notes {
		fmt.Fprintf(&b, "paddock: note: %s\n", note)
	}
	if out.Isolation != nil {
		if err := op.TellLost(&b, *out.Isolation); err != nil {
			return err
		}
	}
	if err := out.Left.Warn(&b); err != nil {
		return err
	}
	_, err := io.WriteString(w, text.Harmless(b.String()))
	return err
}

// hostPaths are absolute paths in a message.
var hostPaths = regexp.MustCompile(`(^|[\s"'(=:])(/[^\s"'():,;]*)`)

// cause is what went wrong, without the host's paths: of each the last name
// is left, but for those inside that a command knows anyway.
func (x *execution) cause(err error) string {
	text := strings.ReplaceAll(err.Error(), x.spec.Workspace.Source, policy.WorkspacePath)
	text = strings.ReplaceAll(text, "\n", "; ")
	return hostPaths.ReplaceAllStringFunc(text, func(found string) string {
		i := strings.IndexByte(found, '/')
		before, name := found[:i], found[i:]
		for _, known := range []string{policy.WorkspacePath, policy.TmpPath} {
			if name == known || strings.HasPrefix(name, known+"/") && known == policy.WorkspacePath {
				return found
			}
		}
		return before + path.Base(name)
	})
}

// workingDir checks a directory that is written from the workspace, and
// returns its path from there. It is looked up beneath a handle of the
// workspace, name by name, so that neither ".." nor a link leads out of it. A
// refusal is what the executor answers.
func workingDir(workspace, written string) (rel, refusal string) {
	const invalid = "Failed to validate working directory"
	written = strings.TrimPrefix(written, "/")
	if written == "" || written == "." {
		return ".", ""
	}
	root, err := os.OpenRoot(workspace)
	if err != nil || strings.ContainsRune(written, 0) {
		return "", invalid
	}
	defer root.Close()
	info, err := root.Stat(written)
	switch {
	case err == nil && !info.IsDir():
		return "", "Execution failed: the working directory is not a directory: /" + written
	case err == nil:
		return path.Clean(written), ""
	case errors.Is(err, fs.ErrNotExist):
		return "", "Working directory does not exist: /" + written
	case escapes(err):
		return "", "Working directory outside workspace is not allowed"
	}
	return "", invalid
}

// escapes says whether a path was refused because it leads out of its root.
// Package os has no name for that error; what is an errno is another one.
func escapes(err error) bool {
	e := (*fs.PathError)(nil)
	return errors.As(err, &e) && strings.Contains(e.Err.Error(), "escapes")
}
