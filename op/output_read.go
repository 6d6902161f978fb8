package op

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
)

// OutputReadInput asks for a part of an output.
type OutputReadInput struct {
	Output   string           `json:"output" help:"which output: the exec of an exec, or what an answer says" max:"64"`
	Stream   string           `json:"stream,omitempty" help:"which of its streams (default: stdout)" choices:"stdout,stderr"`
	Cursor   *int64           `json:"cursor,omitempty" help:"where to begin: next_cursor of an answer before, or a number of bytes (default: the beginning)" min:"0"`
	Tail     *int64           `json:"tail,omitempty" help:"begin with the last so many lines, in place of cursor" min:"1" max:"100000"`
	Limit    *int64           `json:"limit,omitempty" help:"how many characters at most (default: as many as fit into an answer)" min:"16" max:"1048576"`
	Wait     *policy.Duration `json:"wait,omitempty" help:"where there is nothing to read yet, wait so long for more or for the end: 30s; at most 10m"`
	Encoding string           `json:"encoding,omitempty" help:"text (default: UTF-8 without control sequences) or base64 (the bytes as they are)" choices:"text,base64"`
}

// OutputReadOutput is a part of an output.
type OutputReadOutput struct {
	Output     string `json:"output"`
	Stream     string `json:"stream"`
	Text       string `json:"text"` // in base64 where that was asked for
	Encoding   string `json:"encoding"`
	Cursor     int64  `json:"cursor"`      // where Text begins
	NextCursor int64  `json:"next_cursor"` // where to read on
	// LostBytes were printed before Text, and are kept no more.
	LostBytes  int64 `json:"lost_bytes"`
	TotalBytes int64 `json:"total_bytes"` // of the stream, so far
	// EOF says that all was read and nothing more comes.
	EOF bool `json:"eof"`
	// Ended says that nothing more is printed, and State how that ended.
	Ended bool   `json:"ended"`
	State string `json:"state,omitempty"`
	// OtherBytes is how much the other stream has.
	OtherBytes int64 `json:"other_bytes"`
	// Denials are, at the end of a stream, what a command that failed was refused.
	Denials []paddock.Denial `json:"denials,omitempty"`
}

const (
	maxOutputWait = 10 * time.Minute
	// gather is how long one that waits is given what comes next, too: who follows
	// a command that prints line by line would ask for each of them.
	gather = 200 * time.Millisecond
)

func outputReadOp() Op {
	return New(Desc{
		Name: "output_read", Summary: "Read output of a command by cursor, also while it runs",
		Doc: `Read what a command printed: the rest of what an answer had no room for, or what
a background exec has printed so far. output is the exec's id, or the id that an
answer names; stream says which of the two. cursor is where to begin, and
next_cursor of the answer where to go on; eof says that nothing is left. tail
gives the last lines instead. With wait the call returns soon after there is
something new, or the command has ended: ask again with next_cursor to follow
it, instead of asking often. Text is UTF-8 without control sequences; base64 is
every byte as it was printed.

Of each stream the first and the last 16 MiB are kept; lost_bytes says how many
bytes before the text are not. Outputs are dropped with their sandbox, and the
oldest that have ended where there are too many.`,
		Lasting: true, Profile: ProfileRun | ProfileWorkspace, // answers of run name it
		Hints: Hints{ReadOnly: true, Idempotent: true, LongRunning: true},
	}, outputRead, renderOutputRead)
}

func (in OutputReadInput) check() error {
	if in.Cursor != nil && in.Tail != nil {
		return &policy.FieldError{Field: "tail", Reason: "a cursor is given, too", Hint: "give one of the two"}
	}
	if err := errors.Join(oneOf("stream", in.Stream, "stdout", "stderr"), oneOf("encoding", in.Encoding, "text", "base64")); err != nil {
		return err
	}
	if in.Wait != nil && (*in.Wait < 0 || time.Duration(*in.Wait) > maxOutputWait) {
		return &policy.FieldError{Field: "wait", Value: in.Wait.String(), Reason: "it must be from 0s to 10m"}
	}
	return nil
}

func outputRead(ctx context.Context, env *Env, in OutputReadInput, stream *Stream) (OutputReadOutput, error) {
	if err := in.check(); err != nil {
		return OutputReadOutput{}, err
	}
	n, err := env.Outputs.find(env.principal(), in.Output)
	if err != nil {
		return OutputReadOutput{}, err
	}
	limit := env.room(20000)
	if in.Limit != nil {
		limit = min(int(*in.Limit), env.room(1<<20))
	}
	var late <-chan time.Time
	gathers := false
	if in.Wait != nil && *in.Wait > 0 {
		timer := time.NewTimer(time.Duration(*in.Wait))
		defer timer.Stop()
		late = timer.C
		defer stream.beat(time.Duration(*in.Wait), n.printed)()
	}
	for {
		out, more, err := n.part(in, limit)
		switch {
		case err != nil:
			return OutputReadOutput{}, err
		case late == nil || out.Ended || out.NextCursor < out.TotalBytes && out.NextCursor > out.Cursor:
			return out, nil
		case out.NextCursor > out.Cursor && !gathers:
			gathers, late = true, time.After(gather)
		}
		select {
		case <-more:
		case <-late:
			late = nil
		case <-ctx.Done():
			return OutputReadOutput{}, fmt.Errorf("cannot wait for output: %w", ctx.Err())
		}
	}
}

// room is how much variable text an answer may have, in encoded characters: a
// half of the budget is the text's, a half the structured answer's.
func (e *Env) room(otherwise int) int {
	if e.Budget <= 0 {
		return otherwise
	}
	return max(e.Budget/2-answerFrame, 256)
}

// answerFrame is what the fields around the text of an answer may take.
const answerFrame = 2000

// part is what is there now. more is closed when something comes.
func (n *Output) part(in OutputReadInput, limit int) (out OutputReadOutput, more <-chan struct{}, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone {
		return out, nil, noOutputOf(n.id)
	}
	side := 0
	if in.Stream == "stderr" {
		side = 1
	}
	s := n.streams[side]
	out = OutputReadOutput{Output: n.id, Stream: [2]string{"stdout", "stderr"}[side], Encoding: "text",
		TotalBytes: s.total, Ended: n.ended, State: n.state, OtherBytes: n.streams[1-side].total}
	at := int64(0)
	switch {
	case in.Cursor != nil:
		if at = *in.Cursor; at > s.total {
			return out, nil, &policy.FieldError{Field: "cursor", Value: fmt.Sprint(at), Reason: fmt.Sprintf("the stream has %d bytes so far", s.total)}
		}
	case in.Tail != nil:
		at = s.lastLines(*in.Tail, limit)
	}
	data, from, err := s.read(at, 4*limit)
	if err != nil {
		return out, nil, fmt.Errorf("cannot read the output: %w", err)
	}
	final := n.ended && from+int64(len(data)) >= s.kept
	left, right := s.gap()
	final = final || left != right && from+int64(len(data)) == left
	if from == right && left != right {
		from, data = skipHalf(from, data)
	}
	var used int
	if in.Encoding == "base64" {
		used = min(len(data), limit/4*3)
		out.Encoding, out.Text = "base64", base64.StdEncoding.EncodeToString(data[:used])
	} else {
		out.Text, used = clearText(data, final, limit)
	}
	out.LostBytes = from - at
	out.Cursor, out.NextCursor = from, from+int64(used)
	if s.kept < s.total && out.NextCursor == s.kept && n.ended {
		out.LostBytes += s.total - s.kept // a disk that was full
		out.NextCursor = s.total
	}
	if out.EOF = n.ended && out.NextCursor == s.total; out.EOF {
		out.Denials = n.denials
	}
	return out, n.waker(), nil
}

// skipHalf leaves out the rest of a character that the gap has cut.
func skipHalf(from int64, data []byte) (int64, []byte) {
	for i := 0; i < min(3, len(data)) && data[0]&0xc0 == 0x80; i++ {
		from, data = from+1, data[1:]
	}
	return from, data
}

// lastLines is where the last so many lines begin, of as much of the end as fits.
func (s *spool) lastLines(n int64, limit int) int64 {
	at := max(0, s.kept-int64(limit))
	data, from, err := s.read(at, int(s.kept-at))
	if err != nil {
		return at
	}
	end := len(data)
	if end > 0 && data[end-1] == '\n' {
		end--
	}
	for ; n > 0; n-- {
		i := bytes.LastIndexByte(data[:end], '\n')
		if i < 0 {
			from, _ = skipHalf(from, data)
			return from
		}
		end = i
	}
	return from + int64(end) + 1
}

func renderOutputRead(w io.Writer, out OutputReadOutput) error {
	_, err := io.WriteString(w, out.Text)
	return err
}

// Tell says before the text what it is a part of, and how to go on.
func (out OutputReadOutput) Tell(w io.Writer) error {
	state := "running"
	if out.Ended {
		state = "ended"
		if out.State != "" {
			state += ": " + out.State
		}
	}
	lost := ""
	if out.LostBytes > 0 {
		lost = fmt.Sprintf("; %d bytes before that are not kept any more", out.LostBytes)
	}
	next := fmt.Sprintf("next_cursor %d", out.NextCursor)
	if out.EOF {
		next = "the end"
	}
	if out.OtherBytes > 0 {
		next += fmt.Sprintf("; the other stream has %d bytes", out.OtherBytes)
	}
	t := teller{w: w}
	t.line("%s, bytes %d to %d of %d (%s)%s; %s", out.Stream, out.Cursor, out.NextCursor, out.TotalBytes, state, lost, next)
	t.text("", out.Text)
	t.denials(out.Denials, statusFailed)
	return t.err
}
