// Package exec runs one command: captured (Run) or streamed in frames (Stream).
package exec

import (
	"context"
	"encoding/base64"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/wire"
)

// run is one exec from its clone to its result, shared by captured and
// streamed execs.
type run struct {
	box      *core.Sandbox
	id       string
	request  *wire.ExecRequest
	process  *spawn.Process
	stdio    *spawn.Stdio
	peak     *spawn.PeakSampler
	used     cgroup.Stats // by the whole tree, where its group counts
	redactor *core.Redactor
	sinks    []*os.File    // of the client, for outputs that must pass the agent
	drained  chan struct{} // closed when both outputs have ended
	// abandoned is closed when the client has gone or the time is up: then a
	// sink is not waited for.
	abandoned chan struct{}
}

// startRun starts a command. No process is left where it fails. The command
// gets the outputs that it is given, which are then closed, unless there are
// secrets to hide: then what it prints reaches them through the agent.
func startRun(box *core.Sandbox, r *wire.ExecRequest, withStdin bool, outputs []*os.File) (*run, *wire.Error) {
	if err := checkExec(r); err != nil {
		return nil, err
	}
	c, werr := command(box, r)
	if werr != nil {
		return nil, werr
	}
	hidden, werr := box.Redactor(r.RedactValues, r.Redaction)
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
	c.Files = s.Child[:]
	p, err := box.Spawner.Start(c)
	s.CloseChild()
	if err != nil {
		s.CloseAll()
		return nil, core.StartError(c.Argv[0], c.Dir, err)
	}
	p.Terminal = s.Terminal
	return &run{box: box, id: box.Running.Add("exec", hidden.Text(c.Argv[0]), p), request: r, process: p, stdio: s,
		peak: box.Trees.SamplePeak(p), redactor: hidden, sinks: sinks, drained: make(chan struct{}), abandoned: make(chan struct{})}, nil
}

// finish waits for the command's end, by itself, by its timeout or by ctx,
// ends its whole tree and says how it went. Output is complete when it returns.
func (x *run) finish(ctx context.Context) *wire.ExecResult {
	res := &wire.ExecResult{ID: x.id, DeathProved: true, Encoding: x.request.Encoding}
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
	x.leftovers(res)
	res.DurationMS = time.Since(x.process.Started).Milliseconds()
	x.settle(res)
	return res
}

// killAll ends the tree while its command still runs.
func (x *run) killAll(res *wire.ExecResult) {
	res.SurvivorsKilled, res.DeathProved = x.box.Trees.Kill(x.process.Mark)
	res.Survivors = res.SurvivorsKilled
}

// leftovers deals with processes that outlive their command. Output gets a
// short grace first, since the last process of a pipeline may still write.
func (x *run) leftovers(res *wire.ExecResult) {
	switch {
	case !res.TimedOut && x.linger():
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
	x.box.Running.Remove(x.id)
	x.used = x.process.Mark.Stats()
	x.process.Mark.Close()
	// Whatever still holds a pipe now is outside of the tree or unkillable.
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

// linger waits until output has ended, but for OutputGrace at most. Where the
// client gave pipes of its own, only the end of all who may write tells that:
// linger reports whether it is proved. Those whom the client wants to live on
// are not waited for.
func (x *run) linger() (empty bool) {
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

// settle fills in how the command itself ended and what it used.
func (x *run) settle(res *wire.ExecResult) {
	p := x.process
	switch {
	case res.TimedOut:
		res.ExitCode = 124
	case p.Status.Signaled():
		res.ExitCode = -int(p.Status.Signal())
	default:
		res.ExitCode = p.Status.ExitStatus()
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
		res.Denials = append(res.Denials, wire.Denial{Layer: "limit", Rule: "timeout", Hint: "give it more time: --timeout"})
	}
}

// Run runs a command and answers with its captured output.
func Run(ctx context.Context, box *core.Sandbox, r *wire.ExecRequest) (*wire.ExecResult, *wire.Error) {
	input := []byte(r.Stdin)
	if r.Encoding == "base64" {
		var err error
		if input, err = base64.StdEncoding.DecodeString(r.Stdin); err != nil {
			return nil, wire.Errorf(wire.CodeBadRequest, "cannot run the command: stdin is not base64: %v", err)
		}
	}
	limit := int(r.MaxOutputBytes)
	if limit == 0 {
		limit = defaultOutput
	}
	x, werr := startRun(box, r, len(input) > 0, nil)
	if werr != nil {
		return nil, werr
	}
	if in := x.stdio.Stdin; in != nil {
		go func() {
			_, _ = in.Write(input) // a command may end without reading it
			_ = in.Close()
		}()
	}
	stdout, stderr := &capture{limit: limit}, &capture{limit: limit}
	go x.pump(stdout, stderr)
	res := x.finish(ctx)
	res.StdoutBytes, res.StdoutTruncated = stdout.total, stdout.truncated()
	res.StderrBytes, res.StderrTruncated = stderr.total, stderr.truncated()
	note := ""
	if res.TimedOut {
		note = "command timed out after " + strconv.FormatFloat(Timeout(r).Seconds(), 'f', -1, 64) + "s"
	}
	if res.Blocked != "" { // what was printed before the match is not told either
		stdout, stderr = &capture{limit: limit}, &capture{limit: limit}
		_, _ = io.WriteString(stdout, redact.BlockedText(res.Blocked))
	}
	res.Stdout, res.Stderr = stdout.text(r.Encoding, ""), stderr.text(r.Encoding, note)
	return res, nil
}

// accountGroup fills in what a tree's group has counted. It counts the whole tree,
// and so replaces what is known of the command's process alone.
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
