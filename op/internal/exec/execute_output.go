package exec

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/command"
)

// ExecuteOutput is how a command ended, or why it was not executed.
type ExecuteOutput struct {
	// Success says that the command ended by itself with exit status 0.
	Success bool `json:"success"`
	// ExitCode is the command's, -N where signal N ended it, and -1 where it
	// was not executed or ran out of time.
	ExitCode int    `json:"exit_code"`
	Stdout   string `json:"stdout"` // bounded: of more, head and tail are kept
	Stderr   string `json:"stderr"`
	// ExecutionTime is in seconds; 0 where the command was not executed.
	ExecutionTime float64 `json:"execution_time"`
	TimedOut      bool    `json:"timed_out"`
	// Error says why the command was refused, failed to run or was ended;
	// null for one that ran, whatever its exit status.
	Error *string `json:"error"`

	// Limit is, where time was up, how long the command had, and who says so.
	Limit string `json:"time_limit,omitempty"`
	// Position is where in the command the refused part is.
	Position *command.Position `json:"position,omitempty"`
	// Script is what the shell got: the printed form of what was parsed.
	Script          string           `json:"script,omitempty"`
	Signal          string           `json:"signal,omitempty"`
	OOMKilled       bool             `json:"oom_killed,omitempty"`
	StdoutBytes     int64            `json:"stdout_bytes"` // all that was printed, kept or not
	StderrBytes     int64            `json:"stderr_bytes"`
	StdoutTruncated bool             `json:"stdout_truncated"`
	StderrTruncated bool             `json:"stderr_truncated"`
	Output          string           `json:"output,omitempty"` // where it is long: for output_read, which has the whole
	Usage           *ExecuteUsage    `json:"usage,omitempty"`
	Survivors       int              `json:"survivors"` // processes that outlived the command
	SurvivorsKilled int              `json:"survivors_killed"`
	DeathProved     bool             `json:"death_proved"`
	Denials         []paddock.Denial `json:"denials,omitempty"`
	// RedactionMatches counts what the spec's rules have replaced, by their
	// names; Blocked is the rule that ended the output, if one did.
	RedactionMatches map[string]int64 `json:"redaction_matches,omitempty"`
	Blocked          string           `json:"blocked,omitempty"`
	op.Left
	Notes     []string          `json:"notes,omitempty"`
	Isolation *policy.Isolation `json:"isolation,omitempty"` // null where nothing was executed

	status int // of a program that did this
	asJSON bool
}

// ExecuteUsage is what a command and all it started used.
type ExecuteUsage struct {
	UserCPU          float64 `json:"user_cpu_seconds"`
	SystemCPU        float64 `json:"system_cpu_seconds"`
	PeakMemory       int64   `json:"peak_memory_bytes"`
	PeakMemorySource string  `json:"peak_memory_source,omitempty"`
	ProcessesPeak    int64   `json:"processes_peak,omitempty"`
	IOReadBytes      int64   `json:"io_read_bytes,omitempty"`
	IOWriteBytes     int64   `json:"io_write_bytes,omitempty"`
}

// ExitStatus is the command's own, 124 where it ran out of time, 125 where it
// could not be run, 126 where it was refused, and 128+N where signal N ended it.
func (o ExecuteOutput) ExitStatus() int { return o.status }

// Failed says, for [Failer], that the command was not executed. One that ran has no
// error, whatever became of it.
func (o ExecuteOutput) Failed() bool { return o.Error != nil && !o.TimedOut }

// notRun is the result of a command that was not executed.
func notRun(status int, reason string) ExecuteOutput {
	reason = strings.ToValidUTF8(reason, "\uFFFD")
	return ExecuteOutput{ExitCode: -1, Error: &reason, DeathProved: true, status: status}
}

// refused is the result of a command that a rule forbids.
func refused(v command.Verdict) ExecuteOutput {
	out := notRun(op.StatusRefused, v.Reason)
	out.Position, out.Notes = v.Position, v.Notes
	out.Denials = []paddock.Denial{{Layer: "command", Rule: v.Rule, Object: v.Command, Hint: v.Hint}}
	return out
}

// ended is the result of a command that ran.
func ended(r *paddock.Result, timeout string) ExecuteOutput {
	out := ExecuteOutput{
		Success:         r.Success(),
		ExitCode:        r.ExitCode,
		ExecutionTime:   r.Duration.Seconds(),
		TimedOut:        r.TimedOut,
		Signal:          r.Signal,
		OOMKilled:       r.OOMKilled,
		StdoutBytes:     r.StdoutBytes,
		StderrBytes:     r.StderrBytes,
		Survivors:       r.Survivors,
		SurvivorsKilled: r.SurvivorsKilled,
		DeathProved:     r.DeathProved,
		Denials:         r.Denials,

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

// How much of each stream the text shows, in characters.
const (
	shownStdout = 10000
	shownStderr = 5000
	truncated   = "\n... (truncated)"
)

// renderExecute writes the result as text for people and models, or as JSON.
func renderExecute(w io.Writer, out ExecuteOutput) error {
	if out.asJSON {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(out)
	}
	_, err := io.WriteString(w, formatResult(out)+"\n")
	return err
}

// Tell says beside the result how to read what it has no room for, and what
// the walls refused.
func (o ExecuteOutput) Tell(w io.Writer) error {
	t := output.Teller{W: w}
	t.Line("%s", formatResult(o))
	for _, text := range output.DenialTexts(o.Denials, o.status) {
		t.Line("%s", text)
	}
	for _, note := range o.Notes {
		t.Line("note: %s", text.ControlPictures(note))
	}
	if note := o.Left.Note(); note != "" {
		t.Line("%s", note)
	}
	if o.Limit != "" {
		t.Line("its time was up (%s)", o.Limit)
	}
	if o.Output != "" {
		t.Line(`output_read {"output": %q} reads all %d bytes of stdout, with "stream": "stderr" all %d of stderr`, o.Output, o.StdoutBytes, o.StderrBytes)
	}
	return t.Err
}

// formatResult tells a result. What a command printed cannot end its fence,
// move a terminal's cursor or pass for a line of ours.
func formatResult(out ExecuteOutput) string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch {
	case out.TimedOut:
		add("⏰ Command timed out after %.1fs", out.ExecutionTime)
	case out.Error != nil:
		add("❌ Error: %s", strings.ReplaceAll(text.ControlPictures(*out.Error), "\n", " "))
		return lines[0]
	case out.Success:
		add("✅ Command completed successfully (exit code: %d)", out.ExitCode)
	default:
		add("❌ Command failed (exit code: %d)", out.ExitCode)
	}
	if !out.TimedOut {
		add("⏱️ Execution time: %.3fs", out.ExecutionTime)
		add("")
	}
	stdout, stderr := strings.TrimSpace(out.Stdout), strings.TrimSpace(out.Stderr)
	if stdout != "" {
		if out.TimedOut {
			add("")
		}
		lines = append(lines, fenced("**stdout:**", text.TruncateCharacters(text.ControlPictures(stdout), shownStdout, truncated))...)
	}
	if stderr != "" {
		add("")
		lines = append(lines, fenced("**stderr:**", text.TruncateCharacters(text.ControlPictures(stderr), shownStderr, truncated))...)
	}
	return strings.Join(lines, "\n")
}

// fenced puts text between fences that are longer than any run of backticks
// in it.
func fenced(title, text string) []string {
	longest, run := 0, 0
	for _, c := range text {
		if run++; c != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", max(3, longest+1))
	return []string{title, fence, text, fence}
}
