package paddock

import (
	"context"
	"strconv"
	"time"

	"github.com/paddock-dev/paddock/internal/layers"
	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// TimeoutStatus is the exit code of a command that ran out of time.
const TimeoutStatus = 124

// Result is how a command ended. The host side itself knows byte counts, truncation
// and isolation; the rest is what the agent says, checked for plausibility. If the
// agent never answered, only TimedOut or Signal are set.
type Result struct {
	// ExitCode is the exit status, -N if signal N ended the command, or
	// [TimeoutStatus] if it ran out of time.
	ExitCode int
	// Signal is the name of the signal that ended the command ("SIGKILL"), or
	// empty.
	Signal string
	// TimedOut says that the command ran out of time.
	TimedOut bool
	// OOMKilled says that the command was ended for using too much memory.
	OOMKilled bool
	// Duration is from the start of the command to its end.
	Duration time.Duration
	// UserCPU and SystemCPU are the times of the command and everything it started, if
	// a control group counts them, else of the command and the children it waited for.
	UserCPU, SystemCPU time.Duration
	// StdoutBytes and StderrBytes count everything that was printed, stored or not.
	// If both streams go into one pipe or writer, StdoutBytes counts them together.
	StdoutBytes, StderrBytes int64
	// StdoutTruncated and StderrTruncated say that captured output lacks its
	// middle, because it was longer than Limits.Output.
	StdoutTruncated, StderrTruncated bool
	// PeakMemory is the most memory used at a time ("cgroup") or the largest
	// resident set seen, in bytes, and PeakMemorySource how it was measured. Both
	// are empty if it is not known.
	PeakMemory       int64
	PeakMemorySource string
	// The counts of a control group for the command and everything it started, 0
	// without one: how long it waited for processor time because of a limit, the
	// most processes and threads at a time, and the bytes that block devices read
	// and wrote for it.
	Throttled         time.Duration
	ProcessesPeak     int64
	IORead, IOWritten int64
	// Survivors counts processes of the command's tree that still ran when the
	// command had ended, and SurvivorsKilled those that were then killed.
	Survivors, SurvivorsKilled int
	// DeathProved says that no process of the command's tree is left.
	DeathProved bool
	// RedactionMatches counts what the rules of Spec.Redaction have replaced, by
	// the names of the rules. nil: they replaced nothing.
	RedactionMatches map[string]int64
	// Blocked is the name of the rule that ended the output, or empty. Then
	// everything that was captured is replaced by "Output blocked: detected
	// NAME."; other writers got what came before the match.
	Blocked string
	// Denials are the known refusals to the command and everything it started:
	// refusals by the system call filter and by limits, and guesses, marked as such,
	// from captured error output.
	Denials []Denial
	// Isolation is what held while the command ran, verified from outside.
	Isolation Isolation
}

// Success reports whether the command ended by itself with exit status 0.
func (r *Result) Success() bool { return r.ExitCode == 0 && !r.TimedOut }

// String describes how the command ended, in the words of os/exec.
func (r *Result) String() string {
	switch {
	case r.TimedOut:
		return "timed out after " + r.Duration.Round(time.Millisecond).String()
	case r.Signal != "":
		return "killed by " + r.Signal
	default:
		return "exit status " + strconv.Itoa(r.ExitCode)
	}
}

// ExitError is the error of a command that ran and did not succeed.
type ExitError struct {
	*Result
	// Stderr is the beginning and the end of standard error, if [Cmd.Output] was
	// used and [Cmd].Stderr was nil.
	Stderr []byte

	cause error
}

// Error describes how the command ended.
func (e *ExitError) Error() string {
	if e.cause != nil {
		return e.Result.String() + ": " + e.cause.Error()
	}
	return e.Result.String()
}

// Is makes errors.Is(err, ErrTimeout) work.
func (e *ExitError) Is(target error) bool { return target == ErrTimeout && e.TimedOut }

// Unwrap returns the context's error if the context ended the command.
func (e *ExitError) Unwrap() error { return e.cause }

// newResult returns the agent's answer, which the wire client has checked for
// plausibility, as a Result.
func newResult(r wire.ExecResult) *Result {
	signal := run.SignalName(r.ExitCode)
	if r.TimedOut {
		r.ExitCode = TimeoutStatus
	}
	return &Result{
		ExitCode:         r.ExitCode,
		Signal:           signal,
		TimedOut:         r.TimedOut,
		OOMKilled:        r.OOMKilled,
		Duration:         milliseconds(r.DurationMS),
		UserCPU:          milliseconds(r.UserCPUMS),
		SystemCPU:        milliseconds(r.SystemCPUMS),
		PeakMemory:       r.PeakMemoryBytes,
		PeakMemorySource: r.PeakMemorySource,
		Throttled:        milliseconds(r.ThrottledMS),
		ProcessesPeak:    r.ProcessesPeak,
		IORead:           r.IOReadBytes,
		IOWritten:        r.IOWriteBytes,
		Survivors:        r.Survivors,
		SurvivorsKilled:  r.SurvivorsKilled,
		DeathProved:      r.DeathProved,
		Denials:          r.Denials,
		RedactionMatches: r.RedactionMatches,
		Blocked:          r.Blocked,
	}
}

// milliseconds returns n milliseconds. A hostile number does not overflow.
func milliseconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(n, most)) * time.Millisecond
}

// Grace is how long the agent may take after a command's timeout, or after it was
// told to kill a command, before the host side stops the whole sandbox.
const Grace = 2 * time.Second

// GuessDenials guesses from output what the sandbox may have refused. It is for output of
// commands whose exit status is not known, such as those in a shell on a terminal. For a
// [Cmd], and for a command in a [Session], the result has the denials.
func (s *Sandbox) GuessDenials(output []byte) []Denial {
	return s.hints().Denials(nil, run.StatusNotFound, output, "")
}

// GuessBackgroundDenials returns the denials of a command in the background that has failed, with
// what its output suggests. command is its text.
func (s *Sandbox) GuessBackgroundDenials(r *Result, output []byte, command string) []Denial {
	return s.hints().Denials(r.Denials, r.ExitCode, output, command)
}

// hints explains what failed in the sandbox.
func (s *Sandbox) hints() run.Hints {
	spec := s.spec
	if s.named.client != nil {
		spec.Network = s.named.current()
	}
	layer := ""
	if spec.Workspace.Mode == policy.ModeOverlay {
		layer = layers.Upper(s.state, s.ID())
	}
	return run.Hints{Spec: spec, Layer: layer, Covered: s.Isolation().CoveredSockets, Search: s.search, Discreet: s.discreet, Shell: func(dir, script string, args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(context.Background(), hintTime)
		defer cancel()
		cmd := s.Command(ctx, "/bin/sh", append([]string{"-c", script, "sh"}, args...)...)
		cmd.Dir, cmd.Timeout, cmd.unexplained = dir, hintTime, true
		return cmd.Output()
	}}
}

// hintTime is how long the sandbox may take to answer a question for a hint.
const hintTime = 5 * time.Second
