package exec

import (
	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
)

// Ended says how a command ended, in the outputs of run and exec. While the command is running,
// it has the facts so far.
type Ended struct {
	Signal      string `json:"signal,omitempty"`
	TimedOut    bool   `json:"timed_out"`
	Limit       string `json:"time_limit,omitempty"` // if it timed out: the limit, and where that comes from
	OOMKilled   bool   `json:"oom_killed"`
	StdoutBytes int64  `json:"stdout_bytes"` // everything that was printed, kept or not
	StderrBytes int64  `json:"stderr_bytes"`
	DurationMS  int64  `json:"duration_ms"`
	UserCPUMS   int64  `json:"user_cpu_ms"`
	SystemCPUMS int64  `json:"system_cpu_ms"`
	PeakMemory  int64  `json:"peak_memory_bytes"`
	// PeakMemoryFrom is "cgroup", "vmhwm_sampled" or "ru_maxrss".
	PeakMemoryFrom string `json:"peak_memory_source,omitempty"`
	ThrottledMS    int64  `json:"throttled_ms,omitempty"` // time that it waited for a processor because of a limit
	ProcessesPeak  int64  `json:"processes_peak,omitempty"`
	IOReadBytes    int64  `json:"io_read_bytes,omitempty"`
	IOWriteBytes   int64  `json:"io_write_bytes,omitempty"`
	Survivors      int    `json:"survivors"` // processes that outlived it
	op.Death
	// RedactionMatches counts what the redaction rules replaced, by rule. Blocked is the
	// rule that ended the output, if one did.
	RedactionMatches map[string]int64 `json:"redaction_matches,omitempty"`
	Blocked          string           `json:"blocked,omitempty"`
	// Denials are the known refusals to the command. Those marked as guesses were concluded
	// from its error output.
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
		Death:            op.DeathOf(r),
		RedactionMatches: r.RedactionMatches,
		Blocked:          r.Blocked,
		Denials:          r.Denials,
	}
}

// status returns the exit status for the program: 124 if the command timed out, 128+N if
// signal N ended it, else exitCode.
func (e Ended) status(exitCode int) int {
	switch {
	case e.TimedOut:
		return op.StatusTimedOut
	case exitCode < 0:
		return op.StatusSignal - exitCode
	}
	return exitCode
}
