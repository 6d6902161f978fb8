package session

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

// SessionChunk is a piece of a command's output.
type SessionChunk struct {
	Stream string `json:"stream"` // stdout or stderr
	Data   string `json:"data"`
}

// SessionRunOutput is how a command in a session ended. Text is what a model
// should be told of it; the first fields after that are the artifact that a
// contract names.
type SessionRunOutput struct {
	SessionID        string `json:"session_id"`
	Status           string `json:"status"` // success or error
	Text             string `json:"text"`
	TimedOut         bool   `json:"timed_out"`
	ExitCode         *int   `json:"exit_code"` // null where time was up
	TruncatedByLines bool   `json:"truncated_by_lines"`
	TruncatedByBytes bool   `json:"truncated_by_bytes"`
	TotalLines       int64  `json:"total_lines"`
	TotalBytes       int64  `json:"total_bytes"`
	// RedactionMatches count what was replaced by rules, by their names.
	RedactionMatches map[string]int64 `json:"redaction_matches"`
	// Blocked is the rule that ended the output, which is then replaced.
	Blocked string `json:"blocked,omitempty"`

	Output          string         `json:"output"` // the lines of Text, also where time was up
	Stdout          string         `json:"stdout"`
	Stderr          string         `json:"stderr"`
	Chunks          []SessionChunk `json:"chunks"` // both streams, in order
	Late            []SessionChunk `json:"late,omitempty"`
	LateBytes       int64          `json:"late_bytes,omitempty"`
	StdoutBytes     int64          `json:"stdout_bytes"`
	StderrBytes     int64          `json:"stderr_bytes"`
	Signal          string         `json:"signal,omitempty"`
	Interrupted     bool           `json:"interrupted"`
	DurationUS      int64          `json:"duration_us"`
	UserCPUMS       int64          `json:"user_cpu_ms"`
	SystemCPUMS     int64          `json:"system_cpu_ms"`
	PeakMemory      int64          `json:"peak_memory_bytes"`
	PeakMemoryFrom  string         `json:"peak_memory_source,omitempty"`
	OOMKilled       bool           `json:"oom_killed"`
	Jobs            int            `json:"jobs"`
	SurvivorsKilled int            `json:"survivors_killed"`
	DeathProved     bool           `json:"death_proved"`
	StateKept       bool           `json:"state_kept"`
	ShellEnded      bool           `json:"shell_ended"`
	Restarted       bool           `json:"restarted"`
	Cwd             string         `json:"cwd"`
	Note            string         `json:"note,omitempty"`
	// Denials are what the command was refused, as far as that is known; those
	// marked as guesses stem from its error output.
	Denials []paddock.Denial `json:"denials,omitempty"`
	// Limit is, where time was up, how long the command had, and who says so.
	Limit string `json:"time_limit,omitempty"`
	// Kept is where output_read finds the lines of Output, where the answer has
	// less of them than was printed.
	Kept string `json:"kept,omitempty"`
}

func newSessionRunOutput(id string, r *paddock.SessionResult, p registry.SessionPlan) SessionRunOutput {
	o := SessionRunOutput{
		SessionID: id, Status: "success", Text: sessionText(r, p), TimedOut: r.TimedOut, ExitCode: &r.ExitCode,
		TruncatedByLines: r.TruncatedByLines, TruncatedByBytes: r.TruncatedByBytes, TotalLines: r.TotalLines, TotalBytes: r.TotalBytes,
		RedactionMatches: map[string]int64{}, Blocked: r.Blocked,
		Output: outputText(r), Stdout: r.Stdout(), Stderr: r.Stderr(), Chunks: sessionChunks(r.Output),
		Late: sessionChunks(r.Late), LateBytes: r.LateBytes, StdoutBytes: r.StdoutBytes, StderrBytes: r.StderrBytes,
		Signal: r.Signal, Interrupted: r.Interrupted, DurationUS: r.Duration.Microseconds(),
		UserCPUMS: r.UserCPU.Milliseconds(), SystemCPUMS: r.SystemCPU.Milliseconds(),
		PeakMemory: r.PeakMemory, PeakMemoryFrom: r.PeakMemorySource, OOMKilled: r.OOMKilled, Denials: r.Denials, Jobs: r.Jobs,
		SurvivorsKilled: r.SurvivorsKilled, DeathProved: r.DeathProved, StateKept: r.StateKept,
		ShellEnded: r.ShellEnded, Restarted: r.Restarted, Cwd: r.Dir, Note: r.Note,
	}
	maps.Copy(o.RedactionMatches, r.RedactionMatches)
	if r.TimedOut {
		o.ExitCode = nil
	}
	if r.TimedOut || r.ExitCode != 0 {
		o.Status = "error"
	}
	return o
}

// denied are the denials that people and models are told of, and the status of the
// command; of the time that was up there is a sentence already.
func (out SessionRunOutput) denied() (list []paddock.Denial, status int) {
	if out.ExitCode != nil {
		status = *out.ExitCode
	}
	if out.TimedOut {
		status = op.StatusTimedOut
	}
	return slices.DeleteFunc(slices.Clone(out.Denials), func(d paddock.Denial) bool { return out.TimedOut && d.Rule == "timeout" }), status
}

func sessionChunks(list []paddock.SessionChunk) []SessionChunk {
	chunks := make([]SessionChunk, 0, len(list))
	for _, c := range list {
		stream := "stdout"
		if c.Stderr {
			stream = "stderr"
		}
		chunks = append(chunks, SessionChunk{stream, c.Data})
	}
	return chunks
}

// SessionOpenOutput is a session that was opened.
type SessionOpenOutput struct {
	SessionID string           `json:"session_id"`
	Sandbox   string           `json:"sandbox"`
	Workspace string           `json:"workspace"` // over a server as commands find it, else the directory outside
	Temporary bool             `json:"temporary"` // the workspace is removed with the session
	Isolation policy.Isolation `json:"isolation"`
}

// Tell names the session, and where its shell is.
func (out SessionOpenOutput) Tell(w io.Writer) error {
	_, err := fmt.Fprintf(w, "session %s, in sandbox %s, at %s: session_run {\"session_id\": %q, …} runs a command in it\n", out.SessionID, out.Sandbox, out.Workspace, out.SessionID)
	return err
}

// SessionRestartOutput says that a session has a new shell.
type SessionRestartOutput struct {
	SessionID string `json:"session_id"`
	Status    string `json:"status"`
	Text      string `json:"text"`
}

// SessionCloseOutput is a session that was closed.
type SessionCloseOutput struct {
	SessionID string `json:"session_id"`
	op.Left
}

// SessionListOutput are the sessions of who asks.
type SessionListOutput struct {
	Sessions []SessionSummary `json:"sessions"`
}

// SessionSummary is one of them.
type SessionSummary struct {
	SessionID string  `json:"session_id"`
	Sandbox   string  `json:"sandbox"`
	Workspace string  `json:"workspace"`
	Backend   string  `json:"backend"`
	State     string  `json:"state"` // ready, busy or ended
	Cwd       string  `json:"cwd"`
	Commands  int64   `json:"commands"`
	Restarts  int64   `json:"restarts"`
	StartedAt float64 `json:"started_at"` // seconds since 1970
}
