package output

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
)

// ShownExec is how much an answer shows of both streams if no budget is given, as [text.Cost]
// counts.
const ShownExec = 30000

// Teller writes lines until one fails.
type Teller struct {
	W   io.Writer
	Err error
}

// Line writes a line.
func (t *Teller) Line(format string, args ...any) {
	if t.Err == nil {
		_, t.Err = fmt.Fprintf(t.W, format+"\n", args...)
	}
}

// Row adds a row to a table; tabs separate its cells.
type Row = func(format string, args ...any)

// Table writes the rows that fill adds in aligned columns, without spaces at the ends of lines.
func Table(w io.Writer, fill func(row Row)) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fill(func(format string, args ...any) { _, _ = fmt.Fprintf(table, format+"\n", args...) })
	_ = table.Flush() // a Builder cannot fail
	t := Teller{W: w}
	for line := range strings.Lines(b.String()) {
		t.Line("%s", strings.TrimRight(line, " \n"))
	}
	return t.Err
}

// Text writes output below a title, unless it is empty.
func (t *Teller) Text(title, text string) {
	if text == "" {
		return
	}
	if title != "" {
		t.Line("%s", title)
	}
	if text[len(text)-1] == '\n' {
		text = text[:len(text)-1]
	}
	t.Line("%s", text)
}

// Frame writes the remarks about a command in one line, and then its output. The line comes
// first, so that the command cannot print a text that is mistaken for it.
func (t *Teller) Frame(said []string, stdout, stderr string) {
	if strings.Contains("\n"+stdout+"\n"+stderr, "\n"+StderrTitle) { // the output looks like the title: say where stdout ends
		n := strings.Count(strings.TrimSuffix(stdout, "\n"), "\n")
		if stdout != "" {
			n++
		}
		said = append(said, text.Count(n, "line")+" of stdout")
	}
	if len(said) > 0 {
		t.Line("%s", strings.ReplaceAll(strings.Join(said, "; "), "\n", "; "))
	}
	t.Text("", stdout)
	t.Text(StderrTitle, stderr)
}

// StderrTitle is the heading of standard error.
const StderrTitle = "[stderr]"

// DenialTexts returns the denials of a command as messages.
func DenialTexts(list []paddock.Denial, status int) (all []string) {
	for _, d := range list {
		if !worthTelling(d, status) {
			continue
		}
		perhaps, what := denied(d)
		if d.Hint != "" {
			what += " (" + d.Hint + ")"
		}
		all = append(all, perhaps+"denied by the sandbox: "+what)
	}
	return all
}

// denied returns what was denied, with "perhaps " if that is a guess.
func denied(d paddock.Denial) (perhaps, what string) {
	if d.Guess {
		perhaps = "perhaps "
	}
	switch {
	case d.Object == "":
		return perhaps, d.Layer + ": " + d.Rule
	case d.Object == d.Rule || strings.HasPrefix(d.Object, d.Rule+":"): // a rule for one host
		return perhaps, d.Layer + ": " + d.Object
	}
	return perhaps, d.Layer + ": " + d.Rule + ", " + d.Object
}

// worthTelling reports whether a refusal is shown. Of a command that succeeded only what the
// network refused is, which is no guess: in "curl … | head" nothing else tells.
func worthTelling(d paddock.Denial, status int) bool {
	return status != 0 || d.Layer == "network" && !d.Guess
}

// TellDenials writes the refusals to a command, for people.
func TellDenials(w io.Writer, list []paddock.Denial, status int) error {
	if w == nil {
		return nil
	}
	for _, d := range list {
		if !worthTelling(d, status) {
			continue
		}
		perhaps, what := denied(d)
		if _, err := fmt.Fprintf(w, "paddock: %sdenied: %s (%s)\n", perhaps, what, d.Hint); err != nil {
			return err
		}
	}
	return nil
}

// Proof returns how processes ended: how many were killed, and whether none is left.
func Proof(killed int, proved bool) string {
	text := ""
	if killed > 0 {
		text = fmt.Sprintf("; processes killed: %d", killed)
	}
	if !proved {
		text += "; not proved that none is left"
	}
	return text
}
