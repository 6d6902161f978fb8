package shell

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

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

// ShellCloseOutput is a shell at its end.
type ShellCloseOutput struct {
	ShellState
	Closed bool `json:"closed"`
	// SurvivorsKilled counts processes that outlived the shell's own end;
	// DeathProved says that none is left.
	SurvivorsKilled int  `json:"survivors_killed"`
	DeathProved     bool `json:"death_proved"`
}

// ShellListOutput is every shell of a sandbox.
type ShellListOutput struct {
	Shells []ShellState `json:"shells"`
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

// Tell is for [Teller]: the state first, then the output.
func (o ShellOutput) Tell(w io.Writer) error {
	var notes []string
	if o.DroppedChars > 0 {
		notes = append(notes, fmt.Sprintf("%d characters before this are no longer kept", o.DroppedChars))
	}
	if o.More {
		notes = append(notes, fmt.Sprintf("there is more: shell_read with cursor %d", o.NextCursor))
	}
	if o.TimedOut {
		notes = append(notes, "the wait was over first")
	}
	text := o.line() + fmt.Sprintf(" (next_cursor %d)", o.NextCursor)
	said := slices.Concat([]string{text}, notes, output.DenialTexts(o.Denials, op.StatusFailed))
	t := output.Teller{W: w}
	t.Line("%s\n%s", strings.Join(said, "; "), o.Output)
	return t.Err
}

// Render writes the output for people.
func (o ShellOutput) Render(w io.Writer) error {
	_, err := io.WriteString(w, o.Output)
	return err
}

// Render writes the output for people.
func (s ShellState) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s, %d rows of %d columns\n", s.line(), s.Rows, s.Cols)
	return err
}

// Render writes the output for people.
func (o ShellCloseOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "closed %s%s\n", o.line(), output.Proof(o.SurvivorsKilled, o.DeathProved))
	return err
}

// Render writes the output for people.
func (o ShellListOutput) Render(w io.Writer) error {
	if len(o.Shells) == 0 {
		_, err := fmt.Fprintln(w, "no shell is open")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range o.Shells {
		if _, err := fmt.Fprintf(t, "%s\t%s\t%s\n", s.ShellID, s.State, s.Cwd); err != nil {
			return err
		}
	}
	return t.Flush()
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
func (o *ShellOutput) take(shown string, how reading) {
	kept := shown
	if cut := text.Unfinished(kept); how.plain && o.State == registry.Running && cut > 0 {
		kept = kept[:cut]
	}
	for {
		if o.Output = kept; how.plain {
			o.Output = text.PlainText(kept)
		}
		if how.encoded == 0 || text.EncodedLen(o.Output) <= how.encoded || len(kept) < 16 {
			break
		}
		kept = halfOf(kept)
	}
	o.More = o.More || len(kept) < len(shown) && text.Unfinished(shown) > len(kept)
	o.NextCursor = o.Cursor + int64(utf8.RuneCountInString(kept))
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
