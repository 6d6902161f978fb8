package op

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
)

// Bounds of what a door that keeps outputs is given of a command's output, where
// who asks has named none, in bytes.
const (
	sessionHead = 1 << 20
	sessionTail = 1 << 20
)

// unbounded asks for as much of a command's output as the agent can keep.
func unbounded(c *paddock.SessionCommand, p *sessionPlan) {
	c.MaxLines, c.MaxBytes, c.TailBytes = math.MaxInt32, sessionHead, sessionTail
	p.opts.MaxLines, p.opts.MaxBytes = c.MaxLines, sessionHead+sessionTail
}

// sessionAnswer is what is told of a command. A door that keeps outputs keeps the
// lines for output_read, and the answer has their beginning and end.
func (e *Env) sessionAnswer(id string, r *paddock.SessionResult, p sessionPlan) SessionRunOutput {
	if r.Omitted == 0 && len(r.Tail) > 0 { // all is there
		r.Output, r.Tail, r.TruncatedByBytes = append(r.Output, r.Tail...), nil, false
	}
	if e.Outputs == nil {
		return newSessionRunOutput(id, r, p)
	}
	whole := e.Outputs.New(e.principal())
	_, _ = whole.Write([]byte(keptLines(r))) // it never fails
	whole.End("")
	room := e.room(shownExec) / 3 // text, output, and the streams
	lines := whole.excerptOf(0, room)
	out := newSessionRunOutput(id, r, p)
	out.Output = strings.TrimSuffix(lines.text, "\n")
	out.Text = sessionTextOf(r, p, out.Output)
	out.Stdout, out.Stderr = streamsOf(r, room)
	if lines.cutBytes > 0 {
		out.TruncatedByBytes, out.Kept = true, whole.id
	} else {
		e.Outputs.remove(whole)
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
	both := (*Outputs)(nil).New("")
	for _, c := range slices.Concat(r.Output, r.Tail) {
		_, _ = outputSide{both, map[bool]int{true: 1}[c.Stderr]}.Write([]byte(c.Data)) // it never fails
	}
	both.End("")
	second := both.excerptOf(1, room/3)
	first := both.excerptOf(0, room-textCost(second.text))
	both.store.remove(both)
	return first.text, second.text
}

// Tell says after the text what a command had printed before its time was up.
func (out SessionRunOutput) Tell(w io.Writer) error {
	t := teller{w: w}
	t.line("%s", out.Text)
	if out.TimedOut {
		t.line("its time was up (%s)", out.Limit)
		t.text("it had printed:", out.Output)
	}
	t.denials(out.denied())
	if out.Note != "" {
		t.line("%s", out.Note)
	}
	return t.err
}
