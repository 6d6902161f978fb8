// Package exec runs one command: captured (Run) or streamed in frames (Stream).
package exec

import (
	"bufio"
	"context"
	"encoding/base64"
	"io"
	"math"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/wire"
)

const (
	// defaultTimeout is that of a command text that is not streamed.
	defaultTimeout = 30 * time.Second
	// defaultOutput bounds a captured stream if the request does not, in bytes.
	defaultOutput = 1 << 20
	// MaxOutput is the most that a request can ask for, in bytes.
	MaxOutput = 8 << 20
)

// Run runs a command and returns its captured output.
func Run(ctx context.Context, box *core.Sandbox, r *wire.ExecRequest) (*wire.ExecResult, *wire.Error) {
	limit := int(r.MaxOutputBytes)
	if limit == 0 {
		limit = defaultOutput
	}
	stdout, stderr := newCapture(limit), newCapture(limit)
	x, werr := Start(box, r, stdout, stderr)
	if werr != nil {
		return nil, werr
	}
	res := x.Finish(ctx)
	res.StdoutBytes, res.StdoutTruncated = stdout.Total(), stdout.Truncated()
	res.StderrBytes, res.StderrTruncated = stderr.Total(), stderr.Truncated()
	note := ""
	if res.TimedOut {
		note = "command timed out after " + strconv.FormatFloat(Timeout(r).Seconds(), 'f', -1, 64) + "s"
	}
	if res.Blocked != "" { // what was printed before the match is not returned either
		stdout, stderr = newCapture(limit), newCapture(limit)
		_, _ = io.WriteString(stdout, redact.BlockedText(res.Blocked))
	}
	res.Stdout, res.Stderr = stdout.text(r.Encoding, ""), stderr.text(r.Encoding, note)
	return res, nil
}

// Start starts a command that is not streamed. Its output goes to the two writers,
// redacted. The caller must call Finish.
func Start(box *core.Sandbox, r *wire.ExecRequest, stdout, stderr io.Writer) (*Command, *wire.Error) {
	input := []byte(r.Stdin)
	if r.Encoding == "base64" {
		var err error
		if input, err = base64.StdEncoding.DecodeString(r.Stdin); err != nil {
			return nil, wire.Errorf(wire.CodeBadRequest, "cannot run the command: stdin is not base64: %v", err)
		}
	}
	x, werr := start(box, r, len(input) > 0, nil)
	if werr != nil {
		return nil, werr
	}
	if in := x.stdio.Stdin; in != nil {
		go func() {
			_, _ = in.Write(input) // a command may end without reading it
			_ = in.Close()
		}()
	}
	go x.pump(stdout, stderr)
	return x, nil
}

// Stream runs a command whose streams are frames on conn, except for the outputs that
// the client has passed. It returns when the command has ended and the client has its
// result, or is gone.
func Stream(ctx context.Context, box *core.Sandbox, conn net.Conn, in *bufio.Reader, r *wire.ExecRequest, outputs []*os.File) *wire.Error {
	x, werr := start(box, r, true, outputs)
	if werr != nil {
		return werr
	}
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	out := wire.NewFrameWriter(conn)
	s := &stream{run: x, out: out}
	s.stdin = newStdin(x.stdio, s.send)
	if err := wire.WriteLine(conn, wire.ExecStarted{ID: x.ID, Streaming: true, StdinWindow: wire.StdinWindow}); err != nil {
		gone()
	}
	go s.stdin.run()
	go func() {
		defer gone() // a client that vanishes ends its command
		s.receive(wire.NewFrameReader(in, wire.MaxFrame))
	}()
	stdout := &frameSink{out: out, stream: wire.StreamStdout, limit: r.MaxOutputBytes}
	stderr := &frameSink{out: out, stream: wire.StreamStderr, limit: r.MaxOutputBytes}
	go x.pump(stdout, stderr)
	res := x.Finish(ctx)
	s.stdin.close()
	var read int64
	if x.unread >= 0 {
		read = s.stdin.read(x.unread)
		_ = unix.Close(x.unread)
	}
	res.StdoutBytes, res.StdoutTruncated = stdout.total, stdout.truncated
	res.StderrBytes, res.StderrTruncated = stderr.total, stderr.truncated
	_ = s.send(wire.Control{Type: "exit", Result: res, Read: read})
	return nil
}

// Command is one exec from its clone to its result, whether it is captured, streamed or
// started in the background.
type Command struct {
	ID       string // in the registry
	box      *core.Sandbox
	request  *wire.ExecRequest
	process  *spawn.Process
	stdio    *spawn.Stdio
	peak     *spawn.PeakSampler
	used     cgroup.Stats // by the whole tree, empty without a control group
	redactor *core.Redactor
	sinks    []*os.File    // of the client, for outputs that must pass through the agent
	unread   int           // the reading end of standard input, to count what is left in it; -1: none
	drained  chan struct{} // closed when both outputs have ended
	// abandoned is closed when the client has gone or the time is up: a sink is not
	// waited for any more.
	abandoned chan struct{}
}

// start starts a command. If it fails, no process is left. The command
// gets the given outputs, which are then closed. If there are secrets to hide, its
// output goes through the agent instead, which writes to them.
func start(box *core.Sandbox, r *wire.ExecRequest, withStdin bool, outputs []*os.File) (*Command, *wire.Error) {
	if err := checkExec(r); err != nil {
		return nil, err
	}
	env, secrets, werr := box.WithSecrets(r.Env, r.SecretEnv)
	if werr != nil {
		return nil, werr
	}
	r.Env = env
	c, werr := command(box, r)
	if werr != nil {
		return nil, werr
	}
	hidden, werr := box.Redactor(slices.Concat(r.RedactValues, secrets), r.Redaction)
	if werr != nil {
		return nil, werr
	}
	var sinks []*os.File
	if hidden.Any() {
		outputs, sinks = nil, outputs
	}
	var s *spawn.Stdio
	var err error
	if r.TTY != nil {
		s, err = spawn.NewTerminal(*r.TTY)
	} else {
		s, err = spawn.NewPipes(withStdin, outputs)
	}
	if err != nil {
		return nil, wire.Errorf(wire.CodeStart, "cannot run %s: cannot make its standard streams: %v", c.Argv[0], err)
	}
	unread := -1
	if r.CountStdin {
		if unread, err = unix.FcntlInt(uintptr(s.Child[0]), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			s.CloseAll()
			return nil, wire.Errorf(wire.CodeStart, "cannot run %s: cannot make its standard streams: %v", c.Argv[0], err)
		}
	}
	c.Files = s.Child[:]
	p, err := box.Spawner.Start(c)
	s.CloseChild()
	if err != nil {
		s.CloseAll()
		_ = unix.Close(unread)
		return nil, core.StartError(c.Argv[0], c.Dir, err)
	}
	p.Terminal = s.Terminal
	return &Command{ID: box.Running.Add("exec", hidden.Text(c.Argv[0]), p), box: box, request: r, process: p, stdio: s,
		peak: box.Trees.SamplePeak(p), redactor: hidden, sinks: sinks, unread: unread, drained: make(chan struct{}), abandoned: make(chan struct{})}, nil
}

// Text returns the command as its request gives it, redacted and cut to 256 bytes.
func (x *Command) Text() string {
	text := string(x.request.Command)
	if len(x.request.Argv) > 0 {
		text = strings.Join(x.request.Argv, " ")
	}
	return core.ShortName(x.redactor.Text(text))
}

// Started returns when the command was started.
func (x *Command) Started() time.Time { return x.process.Started }

// checkExec refuses invalid requests.
func checkExec(r *wire.ExecRequest) *wire.Error {
	bad := func(object, reason string) *wire.Error {
		return &wire.Error{Code: wire.CodeBadRequest, Object: object, Message: "cannot run the command: " + reason}
	}
	switch {
	case r.Command != "" && len(r.Argv) > 0:
		return bad("argv", "both command and argv are given")
	case len(r.Argv) > 0 && r.Argv[0] == "":
		return bad("argv", "its name is empty")
	case r.TimeoutSeconds != nil && !(*r.TimeoutSeconds >= 0 && *r.TimeoutSeconds <= math.MaxInt32):
		return bad("timeout_seconds", "timeout_seconds must be from 0 to 2147483647")
	case r.MaxOutputBytes < 0:
		return bad("max_output_bytes", "max_output_bytes must not be negative")
	case !r.Stream && r.MaxOutputBytes > MaxOutput:
		return bad("max_output_bytes", "max_output_bytes must be at most 8388608 for captured output")
	case r.TTY != nil && !r.Stream:
		return bad("tty", "a terminal needs stream")
	case r.CountStdin && (!r.Stream || r.TTY != nil || r.Detach):
		return bad("count_stdin", "count_stdin needs stream, and excludes tty and detach")
	case r.TTY != nil && r.Stdin != "", r.Stream && r.Stdin != "":
		return bad("stdin", "standard input of a streamed command comes in frames")
	case r.Encoding != "" && r.Encoding != "base64":
		return bad("encoding", `encoding must be "base64" or absent`)
	}
	for _, s := range append([]string{string(r.Command), string(r.Cwd)}, r.Argv...) {
		if strings.IndexByte(s, 0) >= 0 {
			return bad("argv", "a NUL byte cannot be part of an argument or a path")
		}
	}
	return nil
}

// command returns what the spawner needs for a checked request, without the standard
// streams.
func command(box *core.Sandbox, r *wire.ExecRequest) (*clone.Command, *wire.Error) {
	// A path below /workspace is one in the workspace, which may have another name.
	cwd := string(r.Cwd)
	dir := path.Clean("/" + cwd)
	if !path.IsAbs(cwd) {
		dir = path.Join(box.Workspace, cwd)
	} else if below, ok := strings.CutPrefix(dir+"/", "/workspace/"); ok {
		dir = path.Join(box.Workspace, below)
	}
	env, err := environment(box, r, dir)
	if err != nil {
		return nil, err
	}
	c := &clone.Command{Dir: dir, Umask: 0o022, Argv: r.Argv, TTY: r.TTY != nil, Rlimits: box.Rlimits(r.Limits), Env: core.AsList(env)}
	if len(r.Argv) == 0 {
		c.Argv = box.ShellArgv(string(r.Command), c.Env)
	}
	c.Path, err = core.LookPath(c.Argv[0], core.SearchPath(env), dir)
	return c, err
}

// environment returns a command's whole environment.
func environment(box *core.Sandbox, r *wire.ExecRequest, dir string) (map[string]string, *wire.Error) {
	if r.ClearEnv {
		return r.Env, core.CheckEnv(r.Env)
	}
	own, err := core.CommandEnv(r.Env)
	if err != nil {
		return nil, err
	}
	return box.BaseEnv(dir, own), nil
}

// Timeout returns how long a command may run, 0 for no limit. A positive time below a
// nanosecond is rounded up, so that it does not become 0.
func Timeout(r *wire.ExecRequest) time.Duration {
	if r.TimeoutSeconds != nil {
		return time.Duration(math.Ceil(*r.TimeoutSeconds * float64(time.Second)))
	}
	if r.Command != "" && !r.Stream {
		return defaultTimeout
	}
	return 0
}

// Finish waits until the command ends by itself, by its timeout or by ctx,
// kills its whole tree and returns the result. Output is complete when it returns.
func (x *Command) Finish(ctx context.Context) *wire.ExecResult {
	res := &wire.ExecResult{ID: x.ID, DeathProved: true, Encoding: x.request.Encoding}
	var expired <-chan time.Time
	wanted, cancel := context.WithCancel(ctx)
	defer cancel()
	if limit := Timeout(x.request); limit > 0 {
		wanted, cancel = context.WithDeadline(wanted, x.process.Started.Add(limit))
		defer cancel()
		timer := time.NewTimer(limit - time.Since(x.process.Started))
		defer timer.Stop()
		expired = timer.C
	}
	defer context.AfterFunc(wanted, func() { close(x.abandoned) })()
	gone := ctx.Done()
	if x.request.Detach {
		gone = nil
	}
	select {
	case <-x.process.Done:
	case <-expired:
		res.TimedOut = true
		x.killAll(res)
	case <-gone:
		x.killAll(res)
	}
	<-x.process.Done
	x.endTree(res)
	res.DurationMS = time.Since(x.process.Started).Milliseconds()
	x.fillResult(res)
	return res
}

// killAll kills the tree while its command still runs.
func (x *Command) killAll(res *wire.ExecResult) {
	res.SurvivorsKilled, res.DeathProved = x.box.Trees.Kill(x.process.Mark)
	res.Survivors = res.SurvivorsKilled
}

// endTree kills the processes that outlive their command, unless they may live on. It
// waits for output first, since the last process of a pipeline may still write.
func (x *Command) endTree(res *wire.ExecResult) {
	switch {
	case !res.TimedOut && x.awaitOutput():
		res.DeathProved = true
	case !res.TimedOut && x.request.Detach:
		var proved bool
		res.Survivors, proved = x.box.Trees.Count(x.process.Mark)
		res.DeathProved = proved && res.Survivors == 0
	default:
		killed, proved := x.box.Trees.Kill(x.process.Mark)
		res.SurvivorsKilled += killed
		res.Survivors += killed
		res.DeathProved = proved
	}
	x.used = x.process.Mark.Stats()
	x.box.Release(x.ID, x.process, res.DeathProved || x.request.Detach && !res.TimedOut)
	// A process that still holds a pipe now is outside of the tree or unkillable.
	select {
	case <-x.drained:
	case <-time.After(core.OutputGrace):
		past := time.Unix(1, 0)
		for _, f := range []*os.File{x.stdio.Stdout, x.stdio.Stderr} {
			if f != nil {
				_ = f.SetReadDeadline(past)
			}
		}
		<-x.drained
	}
	x.stdio.CloseAll()
}

// awaitOutput waits until output has ended, for OutputGrace at most. If the client
// passed its own pipes, output ends only when all processes that may write to them have
// ended; awaitOutput reports whether that is proved. It does not wait for these processes
// if the client wants them to continue.
func (x *Command) awaitOutput() (empty bool) {
	grace := time.NewTimer(core.OutputGrace)
	defer grace.Stop()
	if len(x.request.Pass) > 0 && !x.request.Detach {
		empty = x.box.Trees.Await(x.process.Mark, time.Now().Add(core.OutputGrace))
	}
	select {
	case <-x.drained:
	case <-grace.C:
	}
	return empty
}

// fillResult fills in how the command itself ended and what it used.
func (x *Command) fillResult(res *wire.ExecResult) {
	p := x.process
	if res.ExitCode = spawn.ExitCode(p.Status); res.TimedOut {
		res.ExitCode = 124
	}
	if p.Status.Signaled() {
		res.Signal = unix.SignalName(p.Status.Signal())
	}
	res.UserCPUMS = p.Usage.Utime.Nano() / int64(time.Millisecond)
	res.SystemCPUMS = p.Usage.Stime.Nano() / int64(time.Millisecond)
	res.PeakMemoryBytes, res.PeakMemorySource = x.box.Trees.Peak(x.peak, p)
	accountGroup(res, x.used)
	res.RedactionMatches, res.Blocked = x.redactor.Matches()
	b := core.Bounds{Ended: res.TimedOut, OOMKilled: res.OOMKilled, ForksRefused: x.used.Pids != nil && x.used.Pids.Refused > 0}
	if x.request.Limits != nil {
		b.Asked = *x.request.Limits
	}
	if res.Denials = x.box.Denials(p, b); res.TimedOut {
		res.Denials = append(res.Denials, wire.Denial{Layer: "limit", Rule: "timeout", Hint: "give it more time: `limits.timeout`"})
	}
}

// accountGroup fills in the counts of a tree's control group. They cover the whole
// tree, and so replace the numbers of the command's process alone.
func accountGroup(res *wire.ExecResult, s cgroup.Stats) {
	if m := s.Memory; m != nil {
		res.OOMKilled = m.OOMKills > 0
		if m.Peak != nil {
			res.PeakMemoryBytes, res.PeakMemorySource = *m.Peak, spawn.SourceGroup
		}
	}
	if c := s.CPU; c != nil {
		res.UserCPUMS, res.SystemCPUMS = c.User.Milliseconds(), c.System.Milliseconds()
		if c.Waited != nil {
			res.ThrottledMS = c.Waited.Milliseconds()
		}
	}
	if p := s.Pids; p != nil && p.Peak != nil {
		res.ProcessesPeak = int64(*p.Peak)
	}
	if io := s.IO; io != nil {
		res.IOReadBytes, res.IOWriteBytes = int64(io.ReadBytes), int64(io.WriteBytes)
	}
}
