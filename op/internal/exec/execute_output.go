package exec

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

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
)

// Render writes the result as text for people and models, or as JSON.
func (out ExecuteOutput) Render(w io.Writer) error {
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
		t.Line("note: %s", text.Harmless(note))
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
		add("❌ Error: %s", strings.ReplaceAll(text.Harmless(*out.Error), "\n", " "))
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
		lines = append(lines, fenced("**stdout:**", shorten(text.Harmless(stdout), shownStdout))...)
	}
	if stderr != "" {
		add("")
		lines = append(lines, fenced("**stderr:**", shorten(text.Harmless(stderr), shownStderr))...)
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

// shorten cuts text to so many characters, and not inside one that is made of
// several: what joins on to a character stays with it or goes with it.
func shorten(text string, most int) string {
	at, count := 0, 0
	for i := range text {
		if at = i; count == most {
			break
		}
		count++
	}
	if count < most || at == 0 || utf8.RuneCountInString(text) <= most {
		return text
	}
	return text[:boundary(text, at)] + "\n... (truncated)"
}

// maxCluster bounds how far a boundary is looked for, in characters: marks can
// be piled up without end.
const maxCluster = 64

// boundary is at, or the nearest place before it where a character begins that
// does not belong to the one before.
func boundary(text string, at int) int {
	cut := at
	for range maxCluster {
		next, _ := utf8.DecodeRuneInString(text[cut:])
		before, size := utf8.DecodeLastRuneInString(text[:cut])
		if cut == 0 || !joins(before, next, text[:cut]) {
			return cut
		}
		cut -= size
	}
	return at
}

const zeroWidthJoiner = 0x200d

// joins says whether next is part of the character that before is in.
func joins(before, next rune, upTo string) bool {
	switch {
	case next == zeroWidthJoiner, before == zeroWidthJoiner, unicode.Is(unicode.M, next):
		return true
	case next >= 0x1f3fb && next <= 0x1f3ff: // skin tones
		return true
	case next >= 0xe0020 && next <= 0xe007f: // tags of flags
		return true
	case isRegional(before) && isRegional(next):
		return regionalRun(upTo)%2 == 1
	case next >= 0x1160 && next <= 0x11ff: // vowels and finals of Hangul
		return true
	}
	return false
}

func isRegional(c rune) bool { return c >= 0x1f1e6 && c <= 0x1f1ff }

// regionalRun counts the letters of flags at the end of text, of which two
// make one.
func regionalRun(text string) int {
	n := 0
	for n < maxCluster {
		c, size := utf8.DecodeLastRuneInString(text)
		if !isRegional(c) {
			break
		}
		text = text[:len(text)-size]
		n++
	}
	return n
}
