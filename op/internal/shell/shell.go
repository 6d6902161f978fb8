// Package shell has the operations on shells: interactive programs on a PTY in a sandbox.
// Calls type into them, and read their output by cursor.
package shell

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

const shellDoc = `A shell is an interactive bash on a terminal of its own in a sandbox. It stays
from one call to the next: use it for programs that ask questions, debuggers, REPLs,
and everything that needs a terminal. For a single command and its result use exec
or session_run. Everything that it runs ends with it, and it ends with its sandbox. A
sandbox can have 32.`

// ShellState is the present state of a shell.
type ShellState struct {
	ShellID   string          `json:"shell_id"`
	State     string          `json:"state"` // running or stopped
	Cwd       osstring.String `json:"cwd"`   // its first directory
	Rows      int64           `json:"rows"`
	Cols      int64           `json:"cols"`
	StartedAt time.Time       `json:"started_at"`
	EndedAt   *time.Time      `json:"ended_at,omitempty"`
	ExitCode  *int            `json:"exit_code,omitempty"` // if it has ended; -N if signal N ended it
	EndedBy   string          `json:"ended_by,omitempty"`  // the time limit that ended it, if one did
}

// line returns the state in one line.
func (s ShellState) line() string {
	text := "shell " + s.ShellID + ": " + s.State
	if s.ExitCode != nil {
		text += ", " + registry.EndedHow(*s.ExitCode)
	}
	if s.EndedBy != "" {
		text += ", its time was up (" + s.EndedBy + ")"
	}
	return text
}

func (s ShellState) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s, %d rows of %d columns\n", s.line(), s.Rows, s.Cols)
	return err
}

// shellState returns the state of a shell, and the reason if it has ended.
func shellState(h *registry.Sandbox, s wire.Shell) ShellState {
	state := newShellState(s)
	state.EndedBy = h.ShellEndedBy(s.ShellID)
	return state
}

func newShellState(s wire.Shell) ShellState {
	return ShellState{ShellID: s.ShellID, State: s.State, Cwd: s.Cwd, Rows: s.Rows, Cols: s.Cols,
		StartedAt: wire.Time(s.StartedAt), EndedAt: registry.MomentOr(s.EndedAt), ExitCode: s.ExitCode}
}

// ShellOutput is the output of shell_open, shell_read and shell_write: a part of the shell's
// output.
type ShellOutput struct {
	ShellState
	Output string `json:"output"`
	// Cursor is where Output begins, NextCursor where to continue, in characters from
	// the beginning of the shell's output.
	Cursor     int64 `json:"cursor"`
	NextCursor int64 `json:"next_cursor"`
	// More reports that more output is available now.
	More bool `json:"more"`
	// DroppedChars counts characters after the cursor that have been dropped.
	DroppedChars int64 `json:"dropped_chars,omitempty"`
	// Found reports that the text of wait_for was printed; TimedOut that the wait ended
	// before that, or while the shell was still printing.
	Found    bool `json:"found,omitempty"`
	TimedOut bool `json:"timed_out,omitempty"`
	// Denials are guesses from the output, since it is unknown how each command ended.
	Denials []paddock.Denial `json:"denials,omitempty"`
}

// Tell writes the state, and then the output.
func (out ShellOutput) Tell(w io.Writer) error {
	var notes []string
	if out.DroppedChars > 0 {
		notes = append(notes, fmt.Sprintf("%d characters before this are no longer kept", out.DroppedChars))
	}
	if out.More {
		notes = append(notes, fmt.Sprintf("there is more: shell_read with cursor %d", out.NextCursor))
	}
	if out.TimedOut {
		notes = append(notes, "the wait was over first")
	}
	text := out.line() + fmt.Sprintf(" (next_cursor %d)", out.NextCursor)
	said := slices.Concat([]string{text}, notes, output.DenialTexts(out.Denials, op.StatusFailed))
	t := output.Teller{W: w}
	t.Line("%s\n%s", strings.Join(said, "; "), out.Output)
	return t.Err
}

// Render writes the shell's output.
func (out ShellOutput) Render(w io.Writer) error {
	_, err := io.WriteString(w, out.Output)
	return err
}

// ShellWait has the fields that say how long a call waits for output, and how much it returns.
type ShellWait struct {
	WaitForIdleMS *uint64          `json:"wait_for_idle_ms,omitempty" help:"wait until nothing has been printed for this many milliseconds; 0 does not wait" max:"60000"`
	WaitFor       string           `json:"wait_for,omitempty" help:"wait until this text is printed, such as a prompt, instead of for silence" max:"1024"`
	Timeout       *policy.Duration `json:"timeout,omitempty" help:"wait at most this long altogether, up to 10m (default: 30s)"`
	Limit         *uint64          `json:"limit,omitempty" help:"characters of output to return at most (default: 16000)" min:"1" max:"65536"`
	Plain         *bool            `json:"plain,omitempty" help:"return text as a person would read it, without control sequences (default: true)"`
}

// reading says how a shell's output is read.
type reading struct {
	idle    time.Duration
	until   string
	timeout time.Duration
	chars   int // at most
	encoded int // bytes of JSON at most, 0: no bound
	plain   bool
}

// reading returns the fields with defaults and the door's budget applied.
func (in ShellWait) reading(env *op.Env, idle uint64) (reading, error) {
	r := reading{idle: time.Duration(op.CountOr(in.WaitForIdleMS, idle)) * time.Millisecond, until: in.WaitFor,
		chars: int(op.CountOr(in.Limit, op.ShellChars)), plain: in.Plain == nil || *in.Plain}
	if env.Budget > 0 {
		r.encoded = env.Room(0)
	}
	var err error
	r.timeout, err = op.DurationWithin("timeout", in.Timeout, op.ShellTimeout, op.MaxTimeout)
	return r, err
}

// untilWithin is how much of the output's end is searched for the text of wait_for, in bytes:
// searching everything again for each new piece would take too long.
const untilWithin = 16 << 10

// maxCursor is a cursor that no shell reaches.
const maxCursor = 1 << 53

// readShell reads from a cursor, and waits as how says.
func readShell(ctx context.Context, h *registry.Sandbox, id string, from int64, how reading) (ShellOutput, error) {
	deadline := time.Now().Add(how.timeout)
	var shown strings.Builder
	out, next, chars := ShellOutput{}, from, 0
	for first := true; ; first = false {
		wait := how.idle
		if how.until != "" {
			wait = time.Until(deadline)
		}
		wait = min(max(0, min(wait, time.Until(deadline))), time.Minute)
		r, err := wire.Call(ctx, h.Client(), wire.ReadShell, wire.ReadShellRequest{
			ShellID: id, Cursor: next, MaxChars: int64(how.chars - chars), WaitMS: wait.Milliseconds()})
		if err != nil {
			return ShellOutput{}, registry.Refusal("read shell "+id, err)
		}
		if first {
			out.Cursor, out.DroppedChars = r.Cursor, r.DroppedChars
		}
		out.ShellState, out.More, next = shellState(h, r.Shell), r.Truncated, r.NextCursor
		shown.WriteString(r.Output)
		chars += utf8.RuneCountInString(r.Output)
		out.Found = how.until != "" && strings.Contains(text.RenderTerminal(text.Tail(shown.String(), untilWithin)), how.until)
		over := !time.Now().Before(deadline)
		quiet := r.Output == "" && (how.until == "" || over || r.State != registry.Running)
		if quiet || out.Found || chars >= how.chars || how.idle == 0 && how.until == "" || over {
			out.TimedOut = over && !quiet && !out.Found || how.until != "" && over && !out.Found
			break
		}
	}
	out.take(shown.String(), how)
	out.Denials = h.GuessDenials([]byte(text.RenderTerminal(out.Output)))
	return out, nil
}

// take sets the output to as much of shown as the budget has room for, without an incomplete
// control sequence at the end.
func (out *ShellOutput) take(shown string, how reading) {
	kept := shown
	if cut := text.Unfinished(kept); how.plain && out.State == registry.Running && cut > 0 {
		kept = kept[:cut]
	}
	for {
		if out.Output = kept; how.plain {
			out.Output = text.RenderTerminal(kept)
		}
		if how.encoded == 0 || text.JSONSize(out.Output) <= how.encoded || len(kept) < 16 {
			break
		}
		kept = halfOf(kept)
	}
	out.More = out.More || len(kept) < len(shown) && text.Unfinished(shown) > len(kept)
	out.NextCursor = out.Cursor + int64(utf8.RuneCountInString(kept))
}

// halfOf cuts a text near its middle: at the end of a line if there is one, and not inside a
// control sequence.
func halfOf(shown string) string {
	n := len(shown) / 2
	if line := strings.LastIndexByte(shown[:n], '\n'); line > n/2 {
		return shown[:line+1]
	}
	half := text.Prefix(shown, n)
	if cut := text.Unfinished(half); cut > 0 {
		return half[:cut]
	}
	return half
}
