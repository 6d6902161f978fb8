package session

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"io"
	"strings"
	"sync"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/wire"
)

// Bounds of the output that a session records, in bytes.
const (
	defaultOutput = 1 << 20
	// maxLate bounds what background jobs print between two commands.
	maxLate = 64 << 10
)

// Indexes of the streams of a session.
const (
	stdoutStream = iota
	stderrStream
)

var streamNames = [2]string{"stdout", "stderr"}

// record stores the beginning of two streams in the order of arrival, up to a number
// of lines and of bytes. It also counts the lines and bytes beyond these bounds.
type record struct {
	maxLines, maxBytes int64 // maxLines 0 means that lines are not bounded
	maxTail            int64 // bytes of the end of the output that these bounds cut off
	base64             bool

	kept       int64
	totalLines int64
	total      [2]int64
	inLine     [2]bool
	drop       [2]bool // whether the rest of the line is beyond maxLines
	byLines    bool
	byBytes    bool
	chunks     []recorded
	tail       recordTail
	matches    wire.RedactCounts // by rule; complete when the record is
	blocked    string            // the rule that ended the output, if one did
}

type recorded struct {
	stream int
	data   []byte
}

// write adds output of one stream.
func (r *record) write(stream int, p []byte) {
	for len(p) > 0 {
		if !r.inLine[stream] {
			r.inLine[stream] = true
			r.totalLines++
			if r.drop[stream] = r.maxLines > 0 && r.totalLines > r.maxLines; r.drop[stream] {
				r.byLines = true
			}
		}
		line := p
		if i := bytes.IndexByte(p, '\n'); i >= 0 {
			line, r.inLine[stream] = p[:i+1], false
		}
		if r.drop[stream] {
			r.tail.add(stream, line, r.maxTail)
		} else {
			r.keep(stream, line)
		}
		p = p[len(line):]
	}
}

// keep stores as much of p as fits, and does not cut a character of a text.
func (r *record) keep(stream int, p []byte) {
	if room := r.maxBytes - r.kept; r.byBytes || int64(len(p)) > room {
		if r.byBytes || room < 0 {
			r.tail.add(stream, p, r.maxTail)
			return
		}
		r.byBytes = true
		whole := p
		if p = p[:room]; !r.base64 {
			p = text.TrimPartialEnd(p)
		}
		defer r.tail.add(stream, whole[len(p):], r.maxTail)
	}
	if len(p) == 0 {
		return
	}
	r.kept += int64(len(p))
	last := len(r.chunks) - 1
	if len(r.chunks) >= wire.MaxSessionChunks { // append to the last chunk of the stream instead
		for last > 0 && r.chunks[last].stream != stream {
			last--
		}
	}
	if last < 0 || r.chunks[last].stream != stream && len(r.chunks) < wire.MaxSessionChunks {
		r.chunks = append(r.chunks, recorded{stream: stream})
		last = len(r.chunks) - 1
	}
	r.chunks[last].data = append(r.chunks[last].data, p...)
}

// output returns the recorded beginning of the output, encoded for the wire.
func (r *record) output() []wire.SessionChunk {
	chunks := r.chunks
	if r.blocked != "" { // what was printed before the match is not returned either
		chunks = []recorded{{stream: stdoutStream, data: []byte(redact.BlockedText(r.blocked))}}
	}
	return r.encoded(chunks)
}

// end returns the tail, encoded for the wire, and how many bytes are missing before it.
func (r *record) end() (list []wire.SessionChunk, omitted int64) {
	if r.blocked != "" {
		return nil, 0
	}
	r.tail.trim(r.maxTail, !r.base64)
	return r.encoded(r.tail.chunks), r.tail.dropped
}

func (r *record) encoded(chunks []recorded) []wire.SessionChunk {
	list := make([]wire.SessionChunk, 0, len(chunks))
	for _, c := range chunks {
		data := string(c.data)
		if r.base64 {
			data = base64.StdEncoding.EncodeToString(c.data)
		}
		list = append(list, wire.SessionChunk{Stream: streamNames[c.stream], Data: data})
	}
	return list
}

// text returns the recorded beginning of both streams as one text.
func (r *record) text() string {
	if r.blocked != "" {
		return redact.BlockedText(r.blocked)
	}
	var b strings.Builder
	for _, c := range r.chunks {
		b.Write(c.data)
	}
	return b.String()
}

// shellOutput writes a session's output to the record of the running command, or between
// two commands to a record of late output.
type shellOutput struct {
	redactor *core.Redactor

	mu       sync.Mutex
	rec      *record
	writers  [2]*outputFilter
	newlines int // how many line feeds to drop from standard error
}

// recordWriter is one stream of a record.
type recordWriter struct {
	rec    *record
	stream int
}

func (w recordWriter) Write(p []byte) (int, error) {
	w.rec.write(w.stream, p)
	return len(p), nil
}

// begin starts the record next, and completes and returns the previous one.
func (o *shellOutput) begin(next *record) *record {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.rec
	for _, w := range o.writers {
		if w != nil {
			_ = w.Close()
			w.addCounts(before)
		}
	}
	o.rec = next
	for stream := range o.writers {
		var w io.Writer = recordWriter{next, stream}
		var decoder *text.Decoder
		if !next.base64 {
			decoder = &text.Decoder{Dst: w}
			w = decoder
		}
		o.writers[stream] = &outputFilter{HidingWriter: o.redactor.Writer(w), text: decoder}
	}
	return before
}

// outputFilter redacts a stream, and turns it into valid UTF-8 unless bytes are wanted.
type outputFilter struct {
	*core.HidingWriter
	text *text.Decoder // nil if bytes are wanted
}

// Close writes output that redaction and decoding have held back.
func (c *outputFilter) Close() error {
	err := c.HidingWriter.Close()
	if c.text != nil {
		_ = c.text.Close()
	}
	return err
}

// addCounts adds to a record how often rules have matched in this stream.
func (c *outputFilter) addCounts(rec *record) {
	if c.Writer.Matches() == 0 {
		return
	}
	if rec.matches == nil {
		rec.matches = wire.RedactCounts{}
	}
	c.Writer.Counts(rec.matches)
	rec.blocked = cmp.Or(rec.blocked, c.Writer.Blocked())
}

// write adds output of one stream.
func (o *shellOutput) write(stream int, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.newlines > 0 && stream == stderrStream && len(p) > 0 && p[0] == '\n' {
		o.newlines--
		p = p[1:]
	}
	o.rec.total[stream] += int64(len(p))
	_, _ = o.writers[stream].Write(p)
}

// expectNewline makes write drop the line feed that a shell prints after an interrupt.
func (o *shellOutput) expectNewline() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.newlines++
}

// expectNone makes write drop no line feeds from now on.
func (o *shellOutput) expectNone() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.newlines = 0
}

// newRecord returns an empty record with the bounds of a command.
func newRecord(lines, size, tail int64, encoding string) *record {
	return &record{maxLines: lines, maxBytes: size, maxTail: tail, base64: encoding == "base64"}
}

func lateRecord() *record { return &record{maxBytes: maxLate} }

// recordTail stores the end of the output that a record's bounds cut off, and counts the
// bytes before that.
type recordTail struct {
	chunks  []recorded
	size    int64
	dropped int64
}

// add adds output that the bounds cut off. It trims the tail only after that has grown
// to twice the bound.
func (t *recordTail) add(stream int, p []byte, most int64) {
	last := len(t.chunks) - 1
	switch {
	case most == 0 || len(p) == 0:
		t.dropped += int64(len(p))
		return
	case last < 0 || t.chunks[last].stream != stream:
		t.chunks = append(t.chunks, recorded{stream: stream})
		last++
	}
	t.chunks[last].data = append(t.chunks[last].data, p...)
	t.size += int64(len(p))
	if t.size > 2*most || len(t.chunks) > 2*wire.MaxSessionChunks {
		t.trim(most, false)
	}
}

// trim cuts the beginning of the tail down to the bounds. In text it also drops the rest
// of a character that this has cut.
func (t *recordTail) trim(most int64, text bool) {
	first := max(0, len(t.chunks)-wire.MaxSessionChunks)
	for i := range first {
		t.drop(i, len(t.chunks[i].data))
	}
	for t.size > most {
		n := min(t.size-most, int64(len(t.chunks[first].data)))
		t.drop(first, int(n))
		if len(t.chunks[first].data) == 0 {
			first++
		}
	}
	for text && t.dropped > 0 && first < len(t.chunks) && len(t.chunks[first].data) > 0 && t.chunks[first].data[0]&0xc0 == 0x80 {
		t.drop(first, 1)
	}
	t.chunks = t.chunks[first:]
}

func (t *recordTail) drop(i, n int) {
	t.chunks[i].data = t.chunks[i].data[n:]
	t.size -= int64(n)
	t.dropped += int64(n)
}
