package output

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
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
	// LostBytes were printed before Text, and have been dropped.
	LostBytes  int64 `json:"lost_bytes"`
	TotalBytes int64 `json:"total_bytes"` // of the stream, so far
	// EOF says that all was read and nothing more comes.
	EOF bool `json:"eof"`
	// Ended says that nothing more is printed, and State how that ended.
	Ended bool   `json:"ended"`
	State string `json:"state,omitempty"`
	// OtherBytes is how much the other stream has.
	OtherBytes int64 `json:"other_bytes"`
	// Denials are the refusals to a command that failed; they come with the end of a stream.
	Denials []paddock.Denial `json:"denials,omitempty"`
}

// Render writes the text alone.
func (out OutputReadOutput) Render(w io.Writer) error {
	_, err := io.WriteString(w, out.Text)
	return err
}

// Tell writes a line that says which part of the output follows and how to read on, and then
// the text.
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
	t := Teller{W: w}
	said := fmt.Sprintf("%s, bytes %d to %d of %d (%s)%s; %s", out.Stream, out.Cursor, out.NextCursor, out.TotalBytes, state, lost, next)
	t.Line("%s", strings.Join(append([]string{said}, DenialTexts(out.Denials, 1)...), "; "))
	t.Text("", out.Text)
	return t.Err
}

// Part returns a part of the output, as far as it has been printed. more is closed when more
// arrives.
func (n *Output) Part(in OutputReadInput, limit int) (out OutputReadOutput, more <-chan struct{}, err error) {
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
	if from == right && left != right { // the gap has cut a character
		rest := text.TrimPartialStart(data)
		from, data = from+int64(len(data)-len(rest)), rest
	}
	var used int
	if in.Encoding == "base64" {
		used = min(len(data), limit/4*3)
		out.Encoding, out.Text = "base64", base64.StdEncoding.EncodeToString(data[:used])
	} else {
		out.Text, used = text.StripPart(data, final, limit)
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
	if n.wake == nil {
		n.wake = make(chan struct{})
	}
	return out, n.wake, nil
}

// lastLines returns where the last n lines begin, in as much of the end as fits into limit bytes.
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
			return from + int64(len(data)-len(text.TrimPartialStart(data)))
		}
		end = i
	}
	return from + int64(end) + 1
}

// Excerpt is the beginning and the end of a stream, as far as an answer has room.
type Excerpt struct {
	Text string
	// CutBytes and CutLines are left out between the two. Next is where they begin.
	CutBytes, CutLines int64
	Next               int64
}

// Excerpt returns an excerpt of a stream that costs so much at most ([text.Cost]). A line in
// place of the middle says how to read it.
func (n *Output) Excerpt(stream, cost int) Excerpt {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.streams[stream]
	all, _, err := s.read(0, 4*cost)
	if left, right := s.gap(); err == nil && left == right && int64(len(all)) == s.total {
		if shown, used := text.StripPart(all, n.ended, cost); used == len(all) || !n.ended && used >= len(all)-text.MaxControl {
			return Excerpt{Text: shown, Next: int64(used)}
		}
	}
	head, used := text.StripPart(all, false, cost/2)
	if line := bytes.LastIndexByte(all[:used], '\n') + 1; line >= used/2 { // end with a line
		head, _ = text.StripPart(all[:line], true, math.MaxInt)
		used = line
	}
	tail, raw := s.end(int64(used), cost/2, n.ended)
	shown := bytes.Count(all[:used], []byte{'\n'}) + bytes.Count(raw, []byte{'\n'})
	e := Excerpt{Next: int64(used), CutBytes: s.total - int64(used+len(raw)), CutLines: s.lines - int64(shown)}
	if head != "" && head[len(head)-1] != '\n' {
		head += "\n"
	}
	how := ""
	if n.Readable() {
		name := [2]string{"", `, "stream": "stderr"`}[stream]
		how = fmt.Sprintf(`: output_read {"output": %q%s, "cursor": %d}`, n.id, name, e.Next)
	}
	e.Text = head + fmt.Sprintf("... %d bytes in %d lines left out%s ...\n", e.CutBytes, e.CutLines, how) + tail
	return e
}

// end returns as much of the end of the stream as the cost allows, but nothing before byte
// number from; raw is the same text as it was printed.
func (s *spool) end(from int64, cost int, final bool) (shown string, raw []byte) {
	for n := int64(cost); n > 0; n = n * 2 / 3 {
		at := max(from, s.total-n)
		data, got, err := s.read(at, int(s.total-at))
		if err != nil || got != at || got+int64(len(data)) != s.total {
			return "", nil // the disk failed, or the end is not stored
		}
		if i := bytes.IndexByte(data, '\n'); i >= 0 && i < len(data)/2 { // begin with a line
			data = data[i+1:]
		} else {
			data = text.TrimPartialStart(data)
		}
		t, used := text.StripPart(data, final, cost)
		if used == len(data) || !final && len(data)-used < text.MaxControl && used > 0 {
			return t, data
		}
	}
	return "", nil
}
