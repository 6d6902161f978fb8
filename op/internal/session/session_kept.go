package session

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
)

// Bounds of what a door that keeps outputs is given of a command's output, where
// who asks has named none, in bytes.
const (
	sessionHead = 1 << 20
	sessionTail = 1 << 20
)

// unbounded asks for as much of a command's output as the agent can keep.
func unbounded(c *paddock.SessionCommand, p *registry.SessionPlan) {
	c.MaxLines, c.MaxBytes, c.TailBytes = math.MaxInt32, sessionHead, sessionTail
	p.Opts.MaxLines, p.Opts.MaxBytes = c.MaxLines, sessionHead+sessionTail
}

// sessionAnswer is what is told of a command. A door that keeps outputs keeps the
// lines for output_read, and the answer has their beginning and end.
func sessionAnswer(e *op.Env, id string, r *paddock.SessionResult, p registry.SessionPlan) SessionRunOutput {
	if r.Omitted == 0 && len(r.Tail) > 0 { // all is there
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
	out.Text = sessionTextOf(r, p, out.Output)
	out.Stdout, out.Stderr = streamsOf(r, room)
	if lines.CutBytes > 0 {
		out.TruncatedByBytes, out.Kept = true, whole.ID()
	} else {
		whole.Drop()
	}
	if e.Budget > 0 {
		out.Chunks = []SessionChunk{} // Stdout and Stderr have it once more
	}
	return out
}

// keptLines are the lines of all that there is of the output, and where some is
// missing how much.
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

// streamsOf is each stream by itself, both of them within the room.
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

// Tell says first how the command ended, and all else that there is to say of it, then
// what it printed.
func (out SessionRunOutput) Tell(w io.Writer) error {
	t := output.Teller{W: w}
	if out.Output == "" && (out.Text == restarted || out.Text == restartFailed) {
		t.Line("%s", out.Text)
		return t.Err
	}
	denied, status := out.denied()
	said := []string{fmt.Sprintf("exit status %d", status)}
	if out.TimedOut {
		said[0] = "timed out (" + out.Limit + ")"
	}
	said = append(said, output.DenialTexts(denied, status)...)
	switch {
	case out.Kept != "":
		said = append(said, "some of the output left out")
	case out.TruncatedByLines || out.TruncatedByBytes:
		said = append(said, fmt.Sprintf("the output is cut: %d lines, %d bytes in all", out.TotalLines, out.TotalBytes))
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
	t.Text("", out.Output)
	return t.Err
}
