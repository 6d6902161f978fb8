package shell

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/paddock-dev/paddock"
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

func renderShell(w io.Writer, o ShellOutput) error {
	_, err := io.WriteString(w, o.Output)
	return err
}

func renderShellState(w io.Writer, s ShellState) error {
	_, err := fmt.Fprintf(w, "%s, %d rows of %d columns\n", s.line(), s.Rows, s.Cols)
	return err
}

func renderShellClose(w io.Writer, o ShellCloseOutput) error {
	_, err := fmt.Fprintf(w, "closed %s%s\n", o.line(), output.Proof(o.SurvivorsKilled, o.DeathProved))
	return err
}

func renderShellList(w io.Writer, o ShellListOutput) error {
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
