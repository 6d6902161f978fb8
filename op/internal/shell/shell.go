// Package shell has the operations on shells: interactive programs at a terminal inside,
// which are typed into and read from by cursors.
package shell

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

const shellDoc = `A shell is an interactive bash on a terminal of its own in a sandbox, which
stays from one call to the next: for programs that ask questions, debuggers,
REPLs, and whatever needs a terminal. For one command and its result, exec or
session_run serve better. All that it runs ends with it, and it ends with its
sandbox; a sandbox has 32 at most.`

// ShellState is what a shell is now.
type ShellState struct {
	ShellID   string     `json:"shell_id"`
	State     string     `json:"state"` // running or stopped
	Cwd       string     `json:"cwd"`   // where it began
	Rows      int64      `json:"rows"`
	Cols      int64      `json:"cols"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	ExitCode  *int       `json:"exit_code,omitempty"` // of one that has ended; -N where signal N ended it
	EndedBy   string     `json:"ended_by,omitempty"`  // the limit of time that has ended it, if one has
}

// line says in one line what the shell is.
func (s ShellState) line() string {
	text := "shell " + s.ShellID + ": " + s.State
	if s.ExitCode != nil {
		text += ", exit status " + strconv.Itoa(*s.ExitCode)
	}
	if s.EndedBy != "" {
		text += ", its time was up (" + s.EndedBy + ")"
	}
	return text
}

// Render writes the output for people.
func (s ShellState) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s, %d rows of %d columns\n", s.line(), s.Rows, s.Cols)
	return err
}

func shellState(h *registry.Sandbox, s wire.Shell) ShellState {
	state := newShellState(s)
	state.EndedBy = h.ShellEndedBy(s.ShellID)
	return state
}

func newShellState(s wire.Shell) ShellState {
	return ShellState{ShellID: s.ShellID, State: s.State, Cwd: strings.ToValidUTF8(string(s.Cwd), "\uFFFD"), Rows: s.Rows, Cols: s.Cols,
		StartedAt: registry.Moment(s.StartedAt), EndedAt: registry.MomentOr(s.EndedAt), ExitCode: s.ExitCode}
}

// ShellOutput is a part of what a shell has printed.
type ShellOutput struct {
	ShellState
	Output string `json:"output"`
	// Cursor is where Output begins, NextCursor where to read on, in characters
	// since the shell's first.
	Cursor     int64 `json:"cursor"`
	NextCursor int64 `json:"next_cursor"`
	// More says that there is more to read at once.
	More bool `json:"more"`
	// DroppedChars were asked for, and are no longer kept.
	DroppedChars int64 `json:"dropped_chars,omitempty"`
	// Found says that the text of wait_for was printed; TimedOut that the wait
	// ended before that, or before there was silence.
	Found    bool `json:"found,omitempty"`
	TimedOut bool `json:"timed_out,omitempty"`
	// Denials are guesses, by what was printed: of no command is it known how it ended.
	Denials []paddock.Denial `json:"denials,omitempty"`
}

// Tell is for [Teller]: the state first, then the output.
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

// Render writes the output for people.
func (out ShellOutput) Render(w io.Writer) error {
	_, err := io.WriteString(w, out.Output)
	return err
}

// ShellWait says how long a call waits for what a shell prints.
type ShellWait struct {
	WaitForIdleMS *uint64          `json:"wait_for_idle_ms,omitempty" help:"wait until nothing more is printed for so many milliseconds; 0 does not wait" max:"60000"`
	WaitFor       string           `json:"wait_for,omitempty" help:"wait until this text is printed (a prompt, say), instead of for silence" max:"1024"`
	Timeout       *policy.Duration `json:"timeout,omitempty" help:"wait no longer than this in all, at most 10m (default: 30s)"`
	Limit         *uint64          `json:"limit,omitempty" help:"characters of output to return at most (default: 16000)" min:"1" max:"65536"`
	Plain         *bool            `json:"plain,omitempty" help:"return text as a person would read it, without control sequences (default: true)"`
}

// reading is how a shell's output is read.
type reading struct {
	idle    time.Duration
	until   string
	timeout time.Duration
	chars   int // at most
	encoded int // bytes of JSON at most, 0: no bound of its own
	plain   bool
}

// reading puts the defaults and the door's budget to what is asked.
func (in ShellWait) reading(env *op.Env, idle uint64) (reading, error) {
	r := reading{idle: time.Duration(op.OrCount(in.WaitForIdleMS, idle)) * time.Millisecond, until: in.WaitFor,
		chars: int(op.OrCount(in.Limit, op.ShellChars)), plain: in.Plain == nil || *in.Plain}
	if env.Budget > 0 {
		r.encoded = env.Room(0)
	}
	var err error
	r.timeout, err = op.Span("timeout", in.Timeout, op.ShellTimeout, op.MaxTimeout)
	return r, err
}

// untilWithin is how much of the end is looked through for a text that is waited
// for, in bytes: looking through all of it at each piece that comes would take for ever.
const untilWithin = 16 << 10

// maxCursor is a place that no shell gets to.
const maxCursor = 1 << 53

// readShell reads from a cursor on, and waits as it is told to.
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
		out.Found = how.until != "" && strings.Contains(text.PlainText(text.LastOf(shown.String(), untilWithin)), how.until)
		over := !time.Now().Before(deadline)
		quiet := r.Output == "" && (how.until == "" || over || r.State != registry.Running)
		if quiet || out.Found || chars >= how.chars || how.idle == 0 && how.until == "" || over {
			out.TimedOut = over && !quiet && !out.Found || how.until != "" && over && !out.Found
			break
		}
	}
	out.take(shown.String(), how)
	out.Denials = h.GuessDenials([]byte(text.PlainText(out.Output)))
	return out, nil
}

// take puts the text into the answer: as much of it as the budget leaves room
// for, and no part of a control sequence, of which the rest is still to come.
func (out *ShellOutput) take(shown string, how reading) {
	kept := shown
	if cut := text.Unfinished(kept); how.plain && out.State == registry.Running && cut > 0 {
		kept = kept[:cut]
	}
	for {
		if out.Output = kept; how.plain {
			out.Output = text.PlainText(kept)
		}
		if how.encoded == 0 || text.EncodedLen(out.Output) <= how.encoded || len(kept) < 16 {
			break
		}
		kept = halfOf(kept)
	}
	out.More = out.More || len(kept) < len(shown) && text.Unfinished(shown) > len(kept)
	out.NextCursor = out.Cursor + int64(utf8.RuneCountInString(kept))
}

// halfOf cuts a text near its middle, at a line's end where there is one, and
// in no control sequence.
func halfOf(shown string) string {
	n := len(shown) / 2
	if line := strings.LastIndexByte(shown[:n], '\n'); line > n/2 {
		return shown[:line+1]
	}
	for n > 0 && !utf8.RuneStart(shown[n]) {
		n--
	}
	if cut := text.Unfinished(shown[:n]); cut > 0 {
		return shown[:cut]
	}
	return shown[:n]
}
