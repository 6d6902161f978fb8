package paddock

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/wire"
)

// Exec is a command that was started in the background by [Cmd.StartBackground]. It belongs
// to its sandbox and not to the process that started it: every process that has the sandbox
// finds it by its id, and reads its output from the beginning. All methods may be called
// concurrently.
type Exec struct {
	sandbox *Sandbox
	id      string
}

// ExecStatus describes a command in the background, as the agent reports it.
type ExecStatus struct {
	ID string
	// Command is the command, with its arguments, redacted, and at most 256 bytes of it.
	Command string
	Started time.Time
	// StdoutBytes and StderrBytes count what it has printed so far.
	StdoutBytes, StderrBytes int64
	// Ended is when it ended, and Result how. While it runs, Result is nil.
	Ended  time.Time
	Result *Result
}

// ExecCursors are positions in the two streams of a command in the background: bytes from
// the beginning of each.
type ExecCursors struct{ Stdout, Stderr int64 }

// ExecOutput is a part of what a command in the background has printed, redacted.
type ExecOutput struct {
	ExecStatus
	Stdout, Stderr []byte
	// StdoutDropped and StderrDropped count the bytes between the cursors and the parts: the
	// sandbox does not store them any more. At least the last 4 MiB of each stream are
	// stored, unless the streams of all commands together have more than 32 MiB.
	StdoutDropped, StderrDropped int64
	// Next are the positions after the parts.
	Next ExecCursors
	// Complete reports that the command has ended, and that nothing is beyond the parts.
	Complete bool
}

// StartBackground starts the command in the background, where it continues without this
// process until it ends, its time is up, or the sandbox ends. It has no terminal; Stdout and
// Stderr must be nil; of Stdin at most 1 MiB is read first. The command's context applies only
// to the start.
//
// The sandbox stores the end of the output. At most 64 commands run in the background at a
// time; the last 256 that have ended are remembered.
func (c *Cmd) StartBackground() (*Exec, error) {
	switch {
	case c.run != nil:
		return nil, errors.New("cannot start the command: it was started before")
	case c.Stdout != nil || c.Stderr != nil || c.TTY != nil || c.Detach:
		return nil, &Error{Message: "cannot start the command: in the background it has no Stdout, Stderr, TTY and Detach", Code: wire.CodeBadRequest}
	}
	req, err := c.request()
	if err != nil {
		return nil, err
	}
	req.Stream = false
	if c.Stdin != nil {
		input, err := io.ReadAll(io.LimitReader(c.Stdin, wire.MaxBackgroundStdin+1))
		if err != nil {
			return nil, &Error{Message: "cannot read standard input: " + err.Error()}
		}
		if len(input) > wire.MaxBackgroundStdin {
			return nil, &Error{Message: "cannot start the command: in the background its standard input must be at most 1 MiB", Code: wire.CodeTooLarge,
				Hint: "put it into a file in the sandbox, and let the command read that"}
		}
		req.Stdin, req.Encoding = base64.StdEncoding.EncodeToString(input), "base64"
	}
	ctx, cancel := context.WithTimeout(c.ctx, execGrace)
	defer cancel()
	r, err := c.sandbox.client.StartExec(ctx, req)
	if err != nil {
		return nil, c.sandbox.explainMissing(c.sandbox.execError(c.ctx, "start "+strconv.Quote(c.Args[0]), err), c.Args[0], c.Dir)
	}
	return c.sandbox.Exec(r.ID), nil
}

// execGrace is how long an answer of the agent may take, besides what it waits for.
const execGrace = 30 * time.Second

// execError returns the error of a request about a command in the background. ctx is the
// caller's.
func (s *Sandbox) execError(ctx context.Context, what string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		hint := ""
		if s.Paused() {
			hint = "it is paused; its commands continue with: paddock resume " + s.called()
		}
		return &Error{Message: "cannot " + what + ": the agent of sandbox " + s.called() + " does not answer", Hint: hint, Code: wire.CodeTimeout}
	}
	return agentError(what, err)
}

// Exec returns the command in the background with an id. That there is one is found out by
// its methods: if not, their errors are [ErrNotFound].
func (s *Sandbox) Exec(id string) *Exec { return &Exec{s, id} }

// Execs returns the commands in the background that run or are remembered, oldest first.
func (s *Sandbox) Execs(ctx context.Context) ([]ExecStatus, error) {
	asked, cancel := context.WithTimeout(ctx, execGrace)
	defer cancel()
	list, err := s.client.ListExecs(asked)
	if err != nil {
		return nil, s.execError(ctx, "list the commands in the background", err)
	}
	all := make([]ExecStatus, len(list))
	for i, r := range list {
		all[i] = s.execStatus(&r)
	}
	return all, nil
}

func (s *Sandbox) execStatus(r *wire.BackgroundExec) ExecStatus {
	x := ExecStatus{ID: r.ID, Command: r.Command, Started: wire.Time(r.StartedAt), StdoutBytes: r.StdoutBytes, StderrBytes: r.StderrBytes}
	if r.Result != nil {
		if r.EndedAt != nil {
			x.Ended = wire.Time(*r.EndedAt)
		}
		x.Result = newResult(*r.Result)
		x.Result.Isolation = s.Isolation()
	}
	return x
}

// ID returns the command's id in its sandbox.
func (x *Exec) ID() string { return x.id }

// Status returns the command's state.
func (x *Exec) Status(ctx context.Context) (ExecStatus, error) {
	out, err := x.read(ctx, "look at", wire.ReadExecRequest{StdoutCursor: math.MaxInt64, StderrCursor: math.MaxInt64})
	return out.ExecStatus, err
}

// Read returns output from the cursors on, at most 1 MiB of each stream. Without any it waits
// until there is some, the command ends or wait is over, at most a minute.
func (x *Exec) Read(ctx context.Context, from ExecCursors, wait time.Duration) (ExecOutput, error) {
	return x.read(ctx, "read the output of", wire.ReadExecRequest{StdoutCursor: from.Stdout, StderrCursor: from.Stderr, MaxBytes: wire.MaxStreamRead,
		WaitMS: min(max(wait.Milliseconds(), 0), wire.MaxReadWaitMS)})
}

// read asks for output; what is the purpose, for errors.
func (x *Exec) read(ctx context.Context, what string, q wire.ReadExecRequest) (ExecOutput, error) {
	asked, cancel := context.WithTimeout(ctx, time.Duration(q.WaitMS)*time.Millisecond+execGrace)
	defer cancel()
	q.ID, q.MaxBytes = x.id, cmp.Or(q.MaxBytes, 1)
	r, err := x.sandbox.client.ReadExec(asked, q)
	if err != nil {
		return ExecOutput{}, x.sandbox.execError(ctx, what+" "+strconv.Quote(x.id), err)
	}
	return ExecOutput{ExecStatus: x.sandbox.execStatus(&r.BackgroundExec), Stdout: r.Stdout.Data, Stderr: r.Stderr.Data,
		StdoutDropped: r.Stdout.DroppedBytes, StderrDropped: r.Stderr.DroppedBytes,
		Next: ExecCursors{r.Stdout.NextCursor, r.Stderr.NextCursor}, Complete: r.Complete()}, nil
}

// Wait waits for the command's end, and returns how it ended, whatever its exit status.
func (x *Exec) Wait(ctx context.Context) (*Result, error) {
	for {
		out, err := x.read(ctx, "wait for", wire.ReadExecRequest{StdoutCursor: math.MaxInt64, StderrCursor: math.MaxInt64, WaitMS: wire.MaxReadWaitMS})
		if err != nil || out.Result != nil {
			return out.Result, err
		}
	}
}

// Signal sends a signal, "INT" or "SIGINT", to the command's process group. For a command
// that has ended the error has the code [wire.CodeConflict].
func (x *Exec) Signal(ctx context.Context, name string) error {
	if !run.IsSignal(name) {
		return &Error{Message: "cannot signal the command: there is no signal " + strconv.Quote(name), Code: wire.CodeBadRequest}
	}
	asked, cancel := context.WithTimeout(ctx, execGrace)
	defer cancel()
	if _, err := x.sandbox.client.SignalExec(asked, x.id, name); err != nil {
		return x.sandbox.execError(ctx, "signal "+strconv.Quote(x.id), err)
	}
	return nil
}

// Kill kills the command with everything it has started, and returns how it ended. For a
// command that has ended, it returns that.
func (x *Exec) Kill(ctx context.Context) (*Result, error) {
	asked, cancel := context.WithTimeout(ctx, execGrace)
	defer cancel()
	r, err := x.sandbox.client.KillExec(asked, x.id)
	if err != nil {
		return nil, x.sandbox.execError(ctx, "kill "+strconv.Quote(x.id), err)
	}
	return x.sandbox.execStatus(&r).Result, nil
}
