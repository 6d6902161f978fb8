package exec

import (
	"io"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

// RunInput asks for one command in a sandbox of its own.
type RunInput struct {
	op.SpecInput
	Cwd   string   `json:"cwd,omitempty" flag:"cwd" arg:"DIR" help:"working directory inside, relative to the workspace or absolute (default: the workspace)"`
	TTY   *bool    `json:"tty,omitempty" flag:"tty" only:"cli" short:"t" help:"give the command a terminal, made inside the sandbox; needs one on standard input (default: for a shell without a command, where standard input and output are one)"`
	Quiet bool     `json:"quiet,omitempty" flag:"quiet" only:"cli" short:"q" help:"print no notes of Paddock's own on standard error, errors aside"`
	Argv  []string `json:"argv" arg:"CMD [ARG]..." help:"the command and its arguments"`
}

// Ended is how a command ended, in the answers of run and exec; while it runs, what is
// known so far.
type Ended struct {
	Signal      string `json:"signal,omitempty"`
	TimedOut    bool   `json:"timed_out"`
	Limit       string `json:"time_limit,omitempty"` // where it timed out: how long it had, and who says so
	OOMKilled   bool   `json:"oom_killed"`
	StdoutBytes int64  `json:"stdout_bytes"` // all that was printed, kept or not
	StderrBytes int64  `json:"stderr_bytes"`
	DurationMS  int64  `json:"duration_ms"`
	UserCPUMS   int64  `json:"user_cpu_ms"`
	SystemCPUMS int64  `json:"system_cpu_ms"`
	PeakMemory  int64  `json:"peak_memory_bytes"`
	// PeakMemoryFrom is "cgroup", "vmhwm_sampled" or "ru_maxrss".
	PeakMemoryFrom  string `json:"peak_memory_source,omitempty"`
	ThrottledMS     int64  `json:"throttled_ms,omitempty"` // waited for processor time because of a limit
	ProcessesPeak   int64  `json:"processes_peak,omitempty"`
	IOReadBytes     int64  `json:"io_read_bytes,omitempty"`
	IOWriteBytes    int64  `json:"io_write_bytes,omitempty"`
	Survivors       int    `json:"survivors"`        // processes that it left behind
	SurvivorsKilled int    `json:"survivors_killed"` // those of them that were then killed
	DeathProved     bool   `json:"death_proved"`     // nothing of it is left
	// RedactionMatches counts what the spec's rules have replaced, by their
	// names; Blocked is the rule that ended the output, if one did.
	RedactionMatches map[string]int64 `json:"redaction_matches,omitempty"`
	Blocked          string           `json:"blocked,omitempty"`
	// Denials are what the command was refused, as far as that is known; those
	// marked as guesses stem from its error output.
	Denials []paddock.Denial `json:"denials,omitempty"`
}

func newEnded(r *paddock.Result) Ended {
	return Ended{
		Signal:           r.Signal,
		TimedOut:         r.TimedOut,
		OOMKilled:        r.OOMKilled,
		StdoutBytes:      r.StdoutBytes,
		StderrBytes:      r.StderrBytes,
		DurationMS:       r.Duration.Milliseconds(),
		UserCPUMS:        r.UserCPU.Milliseconds(),
		SystemCPUMS:      r.SystemCPU.Milliseconds(),
		PeakMemory:       r.PeakMemory,
		PeakMemoryFrom:   r.PeakMemorySource,
		ThrottledMS:      r.Throttled.Milliseconds(),
		ProcessesPeak:    r.ProcessesPeak,
		IOReadBytes:      r.IORead,
		IOWriteBytes:     r.IOWritten,
		Survivors:        r.Survivors,
		SurvivorsKilled:  r.SurvivorsKilled,
		DeathProved:      r.DeathProved,
		RedactionMatches: r.RedactionMatches,
		Blocked:          r.Blocked,
		Denials:          r.Denials,
	}
}

// status is the exit status for a program that passes it on: 124 where the command timed
// out, 128+N where signal N ended it, else its own.
func (e Ended) status(exitCode int) int {
	switch {
	case e.TimedOut:
		return op.StatusTimedOut
	case exitCode < 0:
		return op.StatusSignal - exitCode
	}
	return exitCode
}

// RunOutput is how the command of run ended.
type RunOutput struct {
	Command  []string `json:"command"`
	Sandbox  string   `json:"sandbox"`   // its id
	ExitCode int      `json:"exit_code"` // -N where signal N ended the command, 124 where it timed out
	Ended
	Stdout          string `json:"stdout"` // empty where output went to a stream
	Stderr          string `json:"stderr"`
	StdoutTruncated bool   `json:"stdout_truncated"`
	StderrTruncated bool   `json:"stderr_truncated"`
	Output          string `json:"output,omitempty"` // where it was cut: for output_read, which has the whole
	op.Left
	Isolation policy.Isolation `json:"isolation"`
}

// ExitStatus is the command's own, 124 where it timed out, and 128+N where
// signal N ended it.
func (o RunOutput) ExitStatus() int { return o.status(o.ExitCode) }

// Tell says first how the command ended, then what it printed; of one that did not
// start, what is left alone.
func (o RunOutput) Tell(w io.Writer) error {
	var said []string
	if o.Command != nil {
		said = ExecAnswer{State: registry.Exited, ExitCode: &o.ExitCode, Ended: o.Ended}.said()
	}
	for _, one := range []struct {
		is   bool
		says string
	}{
		{o.StdoutTruncated, "some of stdout left out"}, {o.StderrTruncated, "some of stderr left out"},
		{op.LostNote(o.Isolation) != "", op.LostNote(o.Isolation)}, {o.Left.Note() != "", o.Left.Note()},
	} {
		if one.is {
			said = append(said, one.says)
		}
	}
	t := output.Teller{W: w}
	t.Frame(said, o.Stdout, o.Stderr)
	return t.Err
}
