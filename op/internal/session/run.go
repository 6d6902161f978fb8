package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

type SessionRunInput struct {
	SessionID      string           `json:"session_id" help:"which session"`
	Command        *Command         `json:"command,omitempty" help:"the commands to run, any number of lines"`
	Restart        bool             `json:"restart,omitempty" help:"give the session a new shell, without the state of the old one"`
	Stdin          string           `json:"stdin,omitempty" help:"the command's whole standard input"`
	Timeout        *policy.Duration `json:"timeout,omitempty" help:"end the command after this time (default: the session's)"`
	MaxOutputLines *uint64          `json:"max_output_lines,omitempty" help:"lines of the output to keep (default: the session's)" min:"1" max:"2147483648"`
	MaxOutputBytes *policy.Size     `json:"max_output_bytes,omitempty" help:"bytes of the output to keep, at most 2MiB (default: the session's)"`
}

// Command is a command's text. A value that is no text is refused in the words of a contract, once it
// is known that no restart is asked for.
type Command struct {
	text  string
	wrong bool // the value is not a string
}

// UnmarshalJSON never fails.
func (c *Command) UnmarshalJSON(data []byte) error {
	*c = Command{}
	c.wrong = json.Unmarshal(data, (*osstring.String)(&c.text)) != nil
	return nil
}

// MarshalJSON is for the audit record.
func (c Command) MarshalJSON() ([]byte, error) { return osstring.String(c.text).MarshalJSON() }

// OSText says that a command need not be UTF-8.
func (Command) OSText() {}

// JSONSchema returns the schema of a text.
func (Command) JSONSchema() string { return `{"type":"string"}` }

// SessionRunOutput is the output of session_run. Text is for a model; the fields that follow
// it, up to RedactionMatches, are the artifact of a contract.
type SessionRunOutput struct {
	SessionID        string `json:"session_id"`
	Status           string `json:"status"` // success or error
	Text             string `json:"text"`
	TimedOut         bool   `json:"timed_out"`
	ExitCode         *int   `json:"exit_code"` // null if it timed out
	TruncatedByLines bool   `json:"truncated_by_lines"`
	TruncatedByBytes bool   `json:"truncated_by_bytes"`
	TotalLines       int64  `json:"total_lines"`
	TotalBytes       int64  `json:"total_bytes"`
	// RedactionMatches counts what the redaction rules replaced, by rule.
	RedactionMatches map[string]int64 `json:"redaction_matches"`
	// Blocked is the rule that ended the output. The output is then replaced.
	Blocked string `json:"blocked,omitempty"`

	Output         string         `json:"output"` // the lines in Text, also if it timed out
	Stdout         string         `json:"stdout"`
	Stderr         string         `json:"stderr"`
	Chunks         []SessionChunk `json:"chunks"` // both streams, in order
	Late           []SessionChunk `json:"late,omitempty"`
	LateBytes      int64          `json:"late_bytes,omitempty"`
	StdoutBytes    int64          `json:"stdout_bytes"`
	StderrBytes    int64          `json:"stderr_bytes"`
	Signal         string         `json:"signal,omitempty"`
	Interrupted    bool           `json:"interrupted"`
	DurationUS     int64          `json:"duration_us"`
	UserCPUMS      int64          `json:"user_cpu_ms"`
	SystemCPUMS    int64          `json:"system_cpu_ms"`
	PeakMemory     int64          `json:"peak_memory_bytes"`
	PeakMemoryFrom string         `json:"peak_memory_source,omitempty"`
	OOMKilled      bool           `json:"oom_killed"`
	Jobs           int            `json:"jobs"`
	op.Death
	StateKept  bool            `json:"state_kept"`
	ShellEnded bool            `json:"shell_ended"`
	Restarted  bool            `json:"restarted"`
	Cwd        osstring.String `json:"cwd"`
	Note       string          `json:"note,omitempty"`
	// Denials are the known refusals to the command. Those marked as guesses were concluded
	// from its error output.
	Denials []paddock.Denial `json:"denials,omitempty"`
	// Limit is, if it timed out, the time limit and where that comes from.
	Limit string `json:"time_limit,omitempty"`
	// Kept is the id for output_read, if Output has only a part of the lines.
	Kept string `json:"kept,omitempty"`

	cuts []string // what Text says about bounds that cut the output
}

// SessionChunk is a piece of a command's output.
type SessionChunk struct {
	Stream string `json:"stream"` // stdout or stderr
	Data   string `json:"data"`
}

func (SessionRunInput) Desc() op.Desc {
	return op.Desc{
		Name: "session_run", Summary: "Run a command in a session",
		Doc: sessionDoc + `

The call returns when the command has ended, with its output, its exit status and the
shell's directory. Of long output the answer has head and tail, and says how
output_read gets the rest: the first and the last 1 MiB are kept. With
max_output_lines or max_output_bytes, here or in session_open, output beyond them is
only counted. A command that exceeds its time limit (30 seconds by default) is ended
with everything it has started; the shell stays if it can be interrupted, and the
answer says whether it did. If a command ends the shell, such as exit, the answer
says so: session_restart gives the session a new one.`,
		Lasting: true, Profile: op.ProfileWorkspace,
		Hints: op.Hints{Destructive: true, LongRunning: true},
	}
}

// check checks the input. A contract fixes the first three texts.
func (in SessionRunInput) check() error {
	switch {
	case in.Command != nil && in.Restart:
		return &paddock.Error{Message: needOne}
	case in.Command == nil && !in.Restart:
		return &paddock.Error{Message: needEither, Hint: "command is shell text"}
	case in.Command != nil && in.Command.wrong:
		return &paddock.Error{Message: needCommand}
	case in.Timeout != nil && *in.Timeout <= 0:
		return &policy.FieldError{Field: "timeout", Value: in.Timeout.String(), Reason: "it must be above 0"}
	case in.MaxOutputBytes != nil && (*in.MaxOutputBytes == 0 || *in.MaxOutputBytes > maxSessionOutput):
		return &policy.FieldError{Field: "max_output_bytes", Reason: "it must be from 1 byte to 2MiB"}
	}
	return nil
}

// Do runs a command in the session, or restarts its shell.
func (in SessionRunInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (SessionRunOutput, error) {
	if err := in.check(); err != nil {
		return SessionRunOutput{}, err
	}
	k, err := find(ctx, env, in.SessionID)
	if err != nil {
		return SessionRunOutput{}, err
	}
	if in.Restart {
		out, err := restart(ctx, k)
		none := 0
		return SessionRunOutput{SessionID: out.SessionID, Status: out.Status, Text: out.Text, ExitCode: &none, Restarted: err == nil,
			Death: op.Death{DeathProved: true}, RedactionMatches: map[string]int64{}, Chunks: []SessionChunk{}}, err
	}
	p := k.Plan
	c := paddock.SessionCommand{Text: in.Command.text, Stdin: []byte(in.Stdin)}
	limit := registry.TimeLimit{Span: p.Opts.CommandTimeout, From: registry.FromSession}
	if in.Timeout != nil {
		limit = registry.TimeLimit{Span: time.Duration(*in.Timeout), From: registry.FromCall}
	}
	limit = env.BoundTime(limit)
	c.Timeout, p.Opts.CommandTimeout = limit.Span, limit.Span
	if in.MaxOutputLines != nil {
		c.MaxLines = int64(*in.MaxOutputLines)
		p.Opts.MaxLines = c.MaxLines
	}
	if in.MaxOutputBytes != nil {
		c.MaxBytes = int64(*in.MaxOutputBytes)
		p.Opts.MaxBytes = c.MaxBytes
	}
	if env.Outputs != nil && !p.Bounded && in.MaxOutputLines == nil && in.MaxOutputBytes == nil {
		c.MaxLines, c.MaxBytes, c.TailBytes = math.MaxInt32, sessionHead, sessionTail
		p.Opts.MaxLines, p.Opts.MaxBytes = c.MaxLines, sessionHead+sessionTail
	}
	stop := stream.ReportProgress(p.Opts.CommandTimeout, (*output.Output)(nil).Printed)
	r, err := k.Shell.Run(ctx, c)
	stop()
	if r == nil {
		return SessionRunOutput{}, err
	}
	out := sessionAnswer(env, k.Key.ID, r, p)
	if out.TimedOut {
		out.Limit, out.Denials = limit.Ended(out.Denials)
	}
	return out, err
}

// Render writes the whole answer as one text.
func (out SessionRunOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintln(w, out.Text)
	return err
}

// Tell writes how the command ended, with all remarks, and then its output.
func (out SessionRunOutput) Tell(w io.Writer) error {
	t := output.Teller{W: w}
	if out.Output == "" && (out.Text == restarted || out.Text == restartFailed) {
		t.Line("%s", out.Text)
		return t.Err
	}
	denied, status := out.denied()
	said := []string{fmt.Sprintf(exitCode, status)}
	if out.TimedOut {
		said[0] = out.Text + " (" + out.Limit + ")"
	}
	said = append(said, output.DenialTexts(denied, status)...)
	if out.Kept != "" {
		said = append(said, "some of the output left out")
	} else {
		said = append(said, out.cuts...)
	}
	if out.ShellEnded {
		said = append(said, shellEndedNote)
	}
	if out.Note != "" {
		said = append(said, out.Note)
	}
	if strings.Contains("\n"+out.Stdout, "\n"+stderrPrefix) {
		said = append(said, "lines of stdout, too, begin with "+output.StderrTitle)
	}
	t.Line("%s", strings.ReplaceAll(strings.Join(said, "; "), "\n", "; "))
	t.Text("", cmp.Or(out.Output, noOutput))
	return t.Err
}

func newSessionRunOutput(id string, r *paddock.SessionResult, p registry.SessionPlan) SessionRunOutput {
	o := SessionRunOutput{cuts: cutsOf(r, p),
		SessionID: id, Status: "success", Text: sessionText(r, p, outputText(r)), TimedOut: r.TimedOut, ExitCode: &r.ExitCode,
		TruncatedByLines: r.TruncatedByLines, TruncatedByBytes: r.TruncatedByBytes, TotalLines: r.TotalLines, TotalBytes: r.TotalBytes,
		RedactionMatches: map[string]int64{}, Blocked: r.Blocked,
		Output: outputText(r), Stdout: r.Stdout(), Stderr: r.Stderr(), Chunks: sessionChunks(r.Output),
		Late: sessionChunks(r.Late), LateBytes: r.LateBytes, StdoutBytes: r.StdoutBytes, StderrBytes: r.StderrBytes,
		Signal: r.Signal, Interrupted: r.Interrupted, DurationUS: r.Duration.Microseconds(),
		UserCPUMS: r.UserCPU.Milliseconds(), SystemCPUMS: r.SystemCPU.Milliseconds(),
		PeakMemory: r.PeakMemory, PeakMemoryFrom: r.PeakMemorySource, OOMKilled: r.OOMKilled, Denials: r.Denials, Jobs: r.Jobs,
		Death: op.Death{SurvivorsKilled: r.SurvivorsKilled, DeathProved: r.DeathProved}, StateKept: r.StateKept,
		ShellEnded: r.ShellEnded, Restarted: r.Restarted, Cwd: osstring.String(r.Dir), Note: r.Note,
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

// denied returns the denials to show, and the exit status of the command. It leaves out the
// timeout, which a separate sentence reports.
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

// Texts about a command in a session. A contract fixes them.
const (
	noOutput       = "<no output>"
	exitCode       = "Exit code: %d"
	restarted      = "Shell session restarted."
	restartFailed  = "Failed to restart shell session."
	needEither     = "Shell tool requires either 'command' or 'restart'."
	needOne        = "Specify only one of 'command' or 'restart'."
	needCommand    = "Shell tool expects a 'command' string when restart is not requested."
	stderrPrefix   = "[stderr] "
	shellEndedNote = "The shell has ended; restart the session to go on."
)

// outputLines returns the stored lines of the output, in the order in which they were completed.
// Lines of standard error are marked. A last line that was cut by a bound is left out, unless it
// is the only one.
func outputLines(r *paddock.SessionResult) []string {
	var list []string
	var part [2]strings.Builder
	add := func(stream int) {
		prefix := ""
		if stream == 1 {
			prefix = stderrPrefix
		}
		list = append(list, prefix+strings.ToValidUTF8(part[stream].String(), "\uFFFD"))
		part[stream].Reset()
	}
	last := 0
	for _, c := range r.Output {
		last = 0
		if c.Stderr {
			last = 1
		}
		for rest := c.Data; rest != ""; {
			line, after, whole := strings.Cut(rest, "\n")
			part[last].WriteString(line)
			if rest = after; whole {
				add(last)
			}
		}
	}
	for stream := range part {
		if part[stream].Len() > 0 && (!r.TruncatedByBytes || stream != last || len(list) == 0) {
			add(stream)
		}
	}
	return list
}

// outputText returns the output as one text.
func outputText(r *paddock.SessionResult) string { return strings.Join(outputLines(r), "\n") }

// sessionText returns the whole answer as one text, in which text is the output.
func sessionText(r *paddock.SessionResult, p registry.SessionPlan, text string) string {
	if r.TimedOut {
		limit := p.Opts.CommandTimeout.Seconds()
		return fmt.Sprintf("Error: Command timed out after %.1f seconds.", limit)
	}
	if text == "" {
		text = noOutput
	}
	add := func(format string, args ...any) {
		text = strings.TrimRight(text, " \t\r\n") + "\n\n" + fmt.Sprintf(format, args...)
	}
	for _, cut := range cutsOf(r, p) {
		add("%s", cut)
	}
	if r.ExitCode != 0 {
		add(exitCode, r.ExitCode)
	}
	if r.ShellEnded {
		add("%s", shellEndedNote)
	}
	return text
}

// cutsOf returns what is said about the bounds that have cut the output.
func cutsOf(r *paddock.SessionResult, p registry.SessionPlan) (cuts []string) {
	if r.TruncatedByLines {
		cuts = append(cuts, fmt.Sprintf("... Output truncated at %d lines (observed %d).", p.Opts.MaxLines, r.TotalLines))
	}
	if r.TruncatedByBytes {
		cuts = append(cuts, fmt.Sprintf("... Output truncated at %d bytes (observed %d).", p.Opts.MaxBytes, r.TotalBytes))
	}
	return cuts
}

// How much of a command's output a server keeps if the input has no bounds, in bytes.
const (
	sessionHead = 1 << 20
	sessionTail = 1 << 20
)

// sessionAnswer returns the output for a command's result. A server keeps the lines for
// output_read, and the output has their head and tail.
func sessionAnswer(e *op.Env, id string, r *paddock.SessionResult, p registry.SessionPlan) SessionRunOutput {
	if r.Omitted == 0 && len(r.Tail) > 0 { // head and tail are everything
		r.Output, r.Tail, r.TruncatedByBytes = append(r.Output, r.Tail...), nil, false
	}
	if e.Outputs == nil {
		return newSessionRunOutput(id, r, p)
	}
	whole := e.Outputs.New(e.PrincipalName())
	_, _ = whole.Write([]byte(keptLines(r))) // it never fails
	whole.End("")
	room := e.Room(output.ShownExec) / 3 // text, output, and the streams
	lines := whole.Excerpt(0, room)
	out := newSessionRunOutput(id, r, p)
	out.Output = strings.TrimSuffix(lines.Text, "\n")
	out.Text = sessionText(r, p, out.Output)
	out.Stdout, out.Stderr = streamsOf(r, room)
	if lines.CutBytes > 0 {
		out.TruncatedByBytes, out.Kept = true, whole.ID()
	} else {
		whole.Drop()
	}
	if e.Budget > 0 {
		out.Chunks = []SessionChunk{} // Stdout and Stderr have the same
	}
	return out
}

// keptLines returns the lines of all stored output, with a remark on how much is missing
// between head and tail.
func keptLines(r *paddock.SessionResult) string {
	lines := outputLines(r)
	if r.Omitted > 0 {
		end := outputLines(&paddock.SessionResult{Output: r.Tail})
		lines = append(append(lines, fmt.Sprintf("... %d bytes are not kept ...", r.Omitted)), end...)
	}
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// streamsOf returns each stream by itself, both together within the room.
func streamsOf(r *paddock.SessionResult, room int) (stdout, stderr string) {
	both := (*output.Outputs)(nil).New("")
	for _, c := range slices.Concat(r.Output, r.Tail) {
		_, _ = both.Side(map[bool]int{true: 1}[c.Stderr]).Write([]byte(c.Data)) // it never fails
	}
	both.End("")
	second := both.Excerpt(1, room/3)
	first := both.Excerpt(0, room-text.Cost(second.Text))
	both.Drop()
	return first.Text, second.Text
}
