package paddock

import (
	"encoding/base64"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// SessionResult is how a command in a session ended. Isolation is the host
// side's own knowledge; the rest is the agent's word, checked for sense.
type SessionResult struct {
	// ExitCode is the command's status; -N where signal N ended the shell, and
	// [TimeoutStatus] where time was up.
	ExitCode int
	// Signal is the name of the signal that ended the shell, empty where none did.
	Signal string
	// TimedOut and Interrupted say that the command was ended, with all it had
	// started; partial output is there.
	TimedOut, Interrupted bool
	// Output is what was kept, in the order in which it arrived. It is exact for
	// each stream; between the two it is as exact as two pipes can tell.
	Output []SessionChunk
	// Tail is the end of what the bounds have cut, where SessionCommand.TailBytes
	// asks for it; Omitted bytes are missing between Output and it.
	Tail    []SessionChunk
	Omitted int64
	// Late is what background jobs printed after the command before this one
	// had ended, of LateBytes in all; at most 64 KiB of it are kept.
	Late      []SessionChunk
	LateBytes int64
	// What was printed, kept or not, and whether all of it was kept.
	TotalLines, TotalBytes, StdoutBytes, StderrBytes int64
	TruncatedByLines, TruncatedByBytes               bool
	// RedactionMatches counts what the rules of Spec.Redaction have replaced;
	// Blocked names the rule that ended the output, all of which is then
	// replaced by "Output blocked: detected NAME.".
	RedactionMatches map[string]int64
	Blocked          string
	// Duration is the command's, UserCPU and SystemCPU the shell's and of what
	// it has waited for, since the command before.
	Duration, UserCPU, SystemCPU time.Duration
	// PeakMemory is the most since the shell's start, of its tree ("cgroup") or
	// of its own process ("vmhwm"), in bytes; 0 where it is not known.
	PeakMemory       int64
	PeakMemorySource string
	// OOMKilled says that something of the shell's tree was killed for want of
	// memory, Denials what the tree was refused, since the command before; see
	// [Result].
	OOMKilled bool
	Denials   []Denial
	// Jobs counts processes in the background that live on.
	Jobs int
	// SurvivorsKilled counts processes that were killed when the command or the
	// shell was ended; DeathProved says that none of those is left.
	SurvivorsKilled int
	DeathProved     bool
	// StateKept says that the shell lives on with all its state. Else either
	// ShellEnded, and nothing can be run until a restart; or Restarted, and a
	// new shell took its place, because the old one could not be interrupted.
	StateKept, ShellEnded, Restarted bool
	// Dir is the shell's directory after the command.
	Dir string
	// Note says what is out of the ordinary; mostly it is empty.
	Note string
	// Isolation is what held while the command ran, verified from outside.
	Isolation Isolation
}

// SessionChunk is a piece of output.
type SessionChunk struct {
	Stderr bool // else it is of standard output
	Data   string
}

// Stdout is what was kept of standard output.
func (r *SessionResult) Stdout() string { return r.stream(false) }

// Stderr is what was kept of standard error.
func (r *SessionResult) Stderr() string { return r.stream(true) }

func (r *SessionResult) stream(stderr bool) string {
	var b strings.Builder
	for _, c := range r.Output {
		if c.Stderr == stderr {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}

// request is a command as it crosses the wire.
func (c SessionCommand) request(id string) wire.RunSessionRequest {
	q := wire.RunSessionRequest{SessionID: id, Command: c.Text, Timeout: c.Timeout.Seconds(),
		MaxOutputLines: c.MaxLines, MaxOutputBytes: c.MaxBytes, MaxTailBytes: c.TailBytes, Stdin: string(c.Stdin)}
	if c.Raw {
		q.Encoding = "base64"
		q.Stdin = base64.StdEncoding.EncodeToString(c.Stdin)
	}
	return q
}

// newSessionResult is the agent's answer, which the wire client has checked.
func newSessionResult(r *wire.RunSessionResult, raw bool) *SessionResult {
	n := &SessionResult{
		ExitCode: r.ExitCode, TimedOut: r.TimedOut, Interrupted: r.Interrupted,
		LateBytes: r.LateBytes, TotalLines: r.TotalLines, TotalBytes: r.TotalBytes, StdoutBytes: r.StdoutBytes, StderrBytes: r.StderrBytes,
		TruncatedByLines: r.TruncatedByLines, TruncatedByBytes: r.TruncatedByBytes,
		RedactionMatches: r.RedactionMatches, Blocked: r.Blocked,
		Duration: milliseconds(r.DurationUS / 1000), UserCPU: milliseconds(r.UserCPUMS), SystemCPU: milliseconds(r.SystemCPUMS),
		PeakMemory: r.PeakMemoryBytes, PeakMemorySource: r.PeakMemorySource, Jobs: r.Jobs,
		OOMKilled: r.OOMKilled, Denials: r.Denials,
		SurvivorsKilled: r.SurvivorsKilled, DeathProved: r.DeathProved,
		StateKept: r.StateKept, ShellEnded: r.ShellEnded, Restarted: r.Restarted, Dir: string(r.Cwd), Note: r.Note,
	}
	n.Duration += time.Duration(r.DurationUS%1000) * time.Microsecond
	n.Signal = signalName(wire.ExecResult{ExitCode: r.ExitCode})
	n.Output, n.Late = sessionChunks(r.Output, raw), sessionChunks(r.Late, false)
	n.Tail, n.Omitted = sessionChunks(r.Tail, raw), r.OmittedBytes
	return n
}

func sessionChunks(list []wire.SessionChunk, raw bool) []SessionChunk {
	chunks := make([]SessionChunk, 0, len(list))
	for _, c := range list {
		data := c.Data
		if raw {
			b, _ := base64.StdEncoding.DecodeString(data) // the client has tried it
			data = string(b)
		}
		chunks = append(chunks, SessionChunk{Stderr: c.Stream == "stderr", Data: data})
	}
	return chunks
}
