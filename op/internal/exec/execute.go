package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/lazyregexp"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/command"
	"github.com/paddock-dev/paddock/policy/executor"
)

type ExecuteInput struct {
	WorkingDir osstring.String  `json:"working_dir,omitempty" flag:"working-dir" arg:"DIR" help:"directory to work in; \"/\" is the workspace (default)"`
	Timeout    *Seconds         `json:"timeout,omitempty" flag:"timeout" arg:"SECONDS" help:"end the command and everything it started after this time, such as 90 or 1.5 (default 120; more than 300 is cut to that, unless limits.max_timeout says otherwise)"`
	Env        op.Variables     `json:"env,omitempty" flag:"env" short:"e" arg:"K=V" help:"set an environment variable; those that decide what programs load or execute are refused (may be repeated)"`
	Workspace  *osstring.String `json:"workspace,omitempty" flag:"workspace" short:"w" arg:"DIR" complete:"dir" help:"directory that the command may change (default: the current directory)"`
	Config     osstring.String  `json:"config,omitempty" flag:"config" arg:"FILE" complete:"file" help:"read limits and network_isolated from a config.json; the spec overrides them" within:"files"`
	SpecFile   osstring.String  `json:"spec_file,omitempty" flag:"spec" arg:"FILE" complete:"file" help:"read the sandbox's spec, with commands, limits and network, from a YAML or JSON file" within:"files"`
	Format     string           `json:"format,omitempty" flag:"format" arg:"FORMAT" choices:"text,json" help:"text, for people and models (default), or json, as --json"`
	Command    Words            `json:"command" arg:"TEXT | CMD ARG..." help:"one argument is shell text; several are a command and its arguments, run without a shell"`
}

// ExecuteOutput is the output of execute: how the command ended, or why it was not executed.
type ExecuteOutput struct {
	// Success reports that the command ended by itself with exit status 0.
	Success bool `json:"success"`
	// ExitCode is the command's, -N if signal N ended it, and -1 if it was not
	// executed or timed out.
	ExitCode int    `json:"exit_code"`
	Stdout   string `json:"stdout"` // if it is longer, head and tail
	Stderr   string `json:"stderr"`
	// ExecutionTime is in seconds; 0 if the command was not executed.
	ExecutionTime float64 `json:"execution_time"`
	TimedOut      bool    `json:"timed_out"`
	// Error says why the command was refused, could not run or was ended. It is null
	// for one that ran, even if its exit status is not 0.
	Error *string `json:"error"`

	// Limit is, if it timed out, the time limit and where that comes from.
	Limit string `json:"time_limit,omitempty"`
	// Position is where in the command the refused part is.
	Position *command.Position `json:"position,omitempty"`
	// Script is what the shell executed: the printed form of the parsed text.
	Script          string        `json:"script,omitempty"`
	Signal          string        `json:"signal,omitempty"`
	OOMKilled       bool          `json:"oom_killed,omitempty"`
	StdoutBytes     int64         `json:"stdout_bytes"` // everything that was printed, kept or not
	StderrBytes     int64         `json:"stderr_bytes"`
	StdoutTruncated bool          `json:"stdout_truncated"`
	StderrTruncated bool          `json:"stderr_truncated"`
	Output          string        `json:"output,omitempty"` // if it is long: the id for output_read, which has all of it
	Usage           *ExecuteUsage `json:"usage,omitempty"`
	Survivors       int           `json:"survivors"` // processes that outlived the command
	op.Death
	Denials []paddock.Denial `json:"denials,omitempty"`
	// RedactionMatches counts what the redaction rules replaced, by rule. Blocked is the
	// rule that ended the output, if one did.
	RedactionMatches map[string]int64 `json:"redaction_matches,omitempty"`
	Blocked          string           `json:"blocked,omitempty"`
	op.Left
	Notes     []string          `json:"notes,omitempty"`
	Isolation *policy.Isolation `json:"isolation,omitempty"` // null if nothing was executed

	status int // the exit status
	asJSON bool
}

// ExecuteUsage is the resource use of a command and everything it started.
type ExecuteUsage struct {
	UserCPU          float64 `json:"user_cpu_seconds"`
	SystemCPU        float64 `json:"system_cpu_seconds"`
	PeakMemory       int64   `json:"peak_memory_bytes"`
	PeakMemorySource string  `json:"peak_memory_source,omitempty"`
	ProcessesPeak    int64   `json:"processes_peak,omitempty"`
	IOReadBytes      int64   `json:"io_read_bytes,omitempty"`
	IOWriteBytes     int64   `json:"io_write_bytes,omitempty"`
}

func (ExecuteInput) Desc() op.Desc {
	return op.Desc{
		Name:    "execute",
		CLI:     []string{"execute"},
		Summary: "Execute shell text that rules allow, and report how it ended",
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
	}
}

const executeDoc = `Check a command against rules, execute it in a sandbox of its own, and report how
it ended: one result, not a stream.

One argument is shell text. It is parsed as a shell would: every command in it,
also in substitutions and behind wrappers, must be allowed by the rules. Several
arguments are a command and its arguments, run without a shell. Without
"commands" in the spec the default rules apply; paddock policy check explains a
verdict.

The rules are a guard-rail. The sandbox is the wall: it is that of paddock run,
and if the kernel has Landlock, only the allowed programs can be executed, found
in a fixed PATH, and nothing in the workspace or in /tmp. Programs that are
interpreters can do what any program could, inside the same walls; go, cargo,
make and compilers are interpreters in this sense.

There is no network, standard input is empty, and nothing of the caller's
environment is passed on. HOME is the workspace. The default limits are 512 MiB
of memory, 60 seconds of processor time per process, files of 100 MiB, 32
processes, 256 open files, and 120 seconds, of which a call can ask for at most
300. Change them with limits and network in the spec, or command.limits and
command.network_isolated in a config.json. A memory limit that is written there
is enforced or refused; the default one is weaker if the host has no control
groups, and the result says so.

Exit status: the command's own; 124 it timed out; 125 Paddock could not run it;
126 it was refused by a rule, or cannot be executed; 127 it does not exist; 128+N signal N ended
it.`

const formatJSON = "json"

// execution is the state of one call.
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

// Do checks the command and executes it.
func (in ExecuteInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (ExecuteOutput, error) {
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

// run makes the checks in the order of the contract, and then executes the command.
func (x *execution) run(ctx context.Context, spec policy.Spec, disabled bool) (ExecuteOutput, error) {
	if disabled {
		return refused(command.Verdict{Rule: "enabled", Reason: "Command execution is disabled", Hint: "command.enabled is false in the configuration"}), nil
	}
	spec, err := x.env.UnderCeiling(spec)
	if err != nil {
		return ExecuteOutput{}, err
	}
	var asked policy.Duration
	if x.in.Timeout != nil {
		asked = policy.Duration(*x.in.Timeout)
	}
	timeout, cut := executor.Timeout(spec.Limits, asked)
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
	if err := op.CheckImpliedWorkspace(spec, opts.Dir); err != nil {
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
	rel, refusal := workingDir(spec.Workspace.Source, string(x.in.WorkingDir))
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
	argv := shellArgv(verdict)
	if len(x.in.Command) > 1 {
		argv = x.in.Command
	}
	out, err := x.inSandbox(ctx, argv, rel)
	out.Script = verdict.Script
	out.Notes = append(out.Notes, verdict.Notes...)
	return out, err
}

// judge returns the rules' verdict. One argument is shell text, for bash if the sandbox has
// one.
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

// hasBash reports whether the sandbox has a bash in its PATH.
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

// shellArgv returns the command that executes the printed form of shell text, with the shell
// of its dialect.
func shellArgv(v command.Verdict) []string {
	if v.Dialect == command.DialectBash {
		return []string{"bash", "--noprofile", "--norc", "-c", v.Script}
	}
	return []string{"sh", "-c", v.Script}
}

// inSandbox runs argv in a new sandbox. A failure becomes the output's error. Only the
// cancellation of the call, and a sandbox whose end is not proved, are errors of the
// operation.
func (x *execution) inSandbox(ctx context.Context, argv []string, dir string) (out ExecuteOutput, err error) {
	env := *x.env
	env.Options.GitUser, env.Options.Caches.Auto, env.Options.Toolchains = false, false, nil // the environment is the policy's
	sandbox, err := env.OpenFor(ctx, x.spec, x.limit, x.stream)
	if err != nil {
		return x.failed(ctx, err)
	}
	defer func() {
		err = errors.Join(err, sandbox.Close())
		out.Left = op.NewLeft(sandbox, "paddock try")
	}()
	cmd := sandbox.Command(ctx, argv[0], argv[1:]...)
	workspace := registry.WorkspaceAt(sandbox.Isolation().Level, x.spec) // the level may differ from the one asked for
	cmd.Dir, cmd.AddEnv = dir, append([]string{"HOME=" + workspace, "PWD=" + path.Join(workspace, dir)}, x.vars...)
	bound := int64(sandbox.Spec().Limits.Output)
	k := capture(x.env, cmd, bound)
	if err := cmd.Start(); err != nil {
		k.drop()
		return x.failed(ctx, err)
	}
	stop, quiet := passSignals(cmd, x.stream), x.stream.ReportProgress(cmd.Timeout, k.whole.Printed)
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

// degradedField matches a field in hints that has a flag elsewhere, but is only in execute's spec.
var degradedField = lazyregexp.New("`allow_degraded`=([a-z_]+)")

// failed returns the output for a command that could not be run. The output has the cause
// without paths of the host; the caller's terminal gets all of it.
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
		op.LocateFields(err, []byte("{}"), x.env.NamedSpec()) // the output above names no file of the host
	}
	_, werr := fmt.Fprintf(x.stream.Stderr, "paddock: %v\n", err)
	if hint := op.FlagHint(degradedField().ReplaceAllString(op.HintOf(err), "allow_degraded: [$1] in the spec")); hint != "" && werr == nil {
		_, werr = fmt.Fprintf(x.stream.Stderr, "paddock: hint: %s\n", hint)
	}
	return out, werr
}

// tell writes to the caller's terminal the remarks that are not in the rendered text.
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
	_, err := io.WriteString(w, text.ControlPictures(b.String()))
	return err
}

// hostPaths matches absolute paths in a message.
var hostPaths = lazyregexp.New(`(^|[\s"'(=:])(/[^\s"'():,;]*)`)

// cause returns the text of an error with paths of the host reduced to their last names. Paths
// inside, which the command can see anyway, are not changed.
func (x *execution) cause(err error) string {
	text := strings.ReplaceAll(err.Error(), x.spec.Workspace.Source, policy.WorkspacePath)
	text = strings.ReplaceAll(text, "\n", "; ")
	return hostPaths().ReplaceAllStringFunc(text, func(found string) string {
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

// notRun returns the output for a command that was not executed.
func notRun(status int, reason string) ExecuteOutput {
	reason = strings.ToValidUTF8(reason, "\uFFFD")
	return ExecuteOutput{ExitCode: -1, Error: &reason, Death: op.Death{DeathProved: true}, status: status}
}

// refused returns the output for a command that a rule forbids.
func refused(v command.Verdict) ExecuteOutput {
	out := notRun(op.StatusRefused, v.Reason)
	out.Position, out.Notes = v.Position, v.Notes
	out.Denials = []paddock.Denial{{Layer: "command", Rule: v.Rule, Object: v.Command, Hint: v.Hint}}
	return out
}

// ended returns the output for a command that ran.
func ended(r *paddock.Result, timeout string) ExecuteOutput {
	out := ExecuteOutput{
		Success:       r.Success(),
		ExitCode:      r.ExitCode,
		ExecutionTime: r.Duration.Seconds(),
		TimedOut:      r.TimedOut,
		Signal:        r.Signal,
		OOMKilled:     r.OOMKilled,
		StdoutBytes:   r.StdoutBytes,
		StderrBytes:   r.StderrBytes,
		Survivors:     r.Survivors,
		Death:         op.DeathOf(r),
		Denials:       r.Denials,

		RedactionMatches: r.RedactionMatches, Blocked: r.Blocked,
		Isolation: &r.Isolation,
		Usage: &ExecuteUsage{
			UserCPU: r.UserCPU.Seconds(), SystemCPU: r.SystemCPU.Seconds(),
			PeakMemory: r.PeakMemory, PeakMemorySource: r.PeakMemorySource, ProcessesPeak: r.ProcessesPeak,
			IOReadBytes: r.IORead, IOWriteBytes: r.IOWritten,
		},
		status: r.ExitCode,
	}
	switch {
	case r.TimedOut:
		reason := "Command timed out after " + timeout + " seconds"
		out.ExitCode, out.Error, out.status = -1, &reason, op.StatusTimedOut
	case r.ExitCode < 0:
		out.status = op.StatusSignal - r.ExitCode
	}
	return out
}

// ExitStatus returns the command's own status, 124 if it timed out, 125 if it could not be
// run, 126 if it was refused, and 128+N if signal N ended it.
func (out ExecuteOutput) ExitStatus() int { return out.status }

// Failed reports that the command was not executed.
func (out ExecuteOutput) Failed() bool { return out.Error != nil && !out.TimedOut }

// Tell writes the result, the refusals of the walls, and how to read the rest of the output.
func (out ExecuteOutput) Tell(w io.Writer) error {
	t := output.Teller{W: w}
	t.Line("%s", formatResult(out))
	for _, text := range output.DenialTexts(out.Denials, out.status) {
		t.Line("%s", text)
	}
	for _, note := range out.Notes {
		t.Line("note: %s", text.ControlPictures(note))
	}
	if note := out.Left.Note(); note != "" {
		t.Line("%s", note)
	}
	if out.Limit != "" {
		t.Line("its time was up (%s)", out.Limit)
	}
	if out.Output != "" {
		t.Line(`output_read {"output": %q} reads all %d bytes of stdout, with "stream": "stderr" all %d of stderr`, out.Output, out.StdoutBytes, out.StderrBytes)
	}
	return t.Err
}

// Render writes the result as text, or as JSON if the input asks for that.
func (out ExecuteOutput) Render(w io.Writer) error {
	if out.asJSON {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(out)
	}
	_, err := io.WriteString(w, formatResult(out)+"\n")
	return err
}
