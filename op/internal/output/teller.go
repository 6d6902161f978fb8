package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
)

// ShownExec is how much an answer shows of both streams where no budget is
// given, in encoded characters.
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

// Text is output below a title, if there is any.
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

// Frame writes what is said of a command in one line, which comes first, so that nothing
// the command prints can pass for it, and then what it printed.
func (t *Teller) Frame(said []string, stdout, stderr string) {
	if strings.Contains("\n"+stdout+"\n"+stderr, "\n"+StderrTitle) { // where it looks so, which lines are which
		n := strings.Count(strings.TrimSuffix(stdout, "\n"), "\n")
		if stdout != "" {
			n++
		}
		said = append(said, text.Count(int64(n), "line")+" of stdout")
	}
	if len(said) > 0 {
		t.Line("%s", strings.ReplaceAll(strings.Join(said, "; "), "\n", "; "))
	}
	t.Text("", stdout)
	t.Text(StderrTitle, stderr)
}

// StderrTitle stands before standard error.
const StderrTitle = "[stderr]"

// DenialTexts are the denials of what failed: else nobody misses anything.
func DenialTexts(list []paddock.Denial, status int) (all []string) {
	if status == 0 {
		return nil
	}
	for _, d := range list {
		what := d.Layer + ": " + d.Rule
		if d.Object != "" {
			what += ", " + d.Object
		}
		if d.Hint != "" {
			what += " (" + d.Hint + ")"
		}
		all = append(all, map[bool]string{true: "perhaps "}[d.Guess]+"denied by the sandbox: "+what)
	}
	return all
}

// TellDenials says what a command that failed was refused.
func TellDenials(w io.Writer, list []paddock.Denial, status int) error {
	if w == nil || status == 0 {
		return nil
	}
	for _, d := range list {
		what := d.Layer + ": " + d.Rule
		if d.Object != "" {
			what += ", " + d.Object
		}
		if _, err := fmt.Fprintf(w, "paddock: %sdenied: %s (%s)\n", map[bool]string{true: "perhaps "}[d.Guess], what, d.Hint); err != nil {
			return err
		}
	}
	return nil
}

// Proof says how an end was.
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
