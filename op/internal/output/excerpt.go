package output

import (
	"bytes"
	"fmt"

	"github.com/paddock-dev/paddock/internal/text"
)

// Excerpt is the beginning and the end of a stream, as far as an answer has room.
type Excerpt struct {
	Text string
	// CutBytes and CutLines are left out between the two; next is where they begin.
	CutBytes, CutLines int64
	Next               int64
}

// Excerpt makes one of a stream, at so much of a cost in encoded characters.
// What stands where the middle was says how to read it.
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
	head, used = wholeLines(all, head, used)
	tail, raw := s.end(int64(used), cost/2, n.ended)
	shown := bytes.Count(all[:used], []byte{'\n'}) + bytes.Count(raw, []byte{'\n'})
	e := Excerpt{Next: int64(used), CutBytes: s.total - int64(used+len(raw)), CutLines: s.lines - int64(shown)}
	if head != "" && head[len(head)-1] != '\n' {
		head += "\n"
	}
	e.Text = head + fmt.Sprintf("... %d bytes in %d lines left out%s ...\n", e.CutBytes, e.CutLines, n.readingHint(stream, e.Next)) + tail
	return e
}

// readingHint is how a model reads on, where it can.
func (n *Output) readingHint(stream int, at int64) string {
	if !n.Readable() {
		return ""
	}
	side := ""
	if stream == 1 {
		side = `, "stream": "stderr"`
	}
	return fmt.Sprintf(`: output_read {"output": %q%s, "cursor": %d}`, n.id, side, at)
}

// wholeLines takes half a line off the end of a beginning, where that leaves most of it.
func wholeLines(data []byte, shown string, used int) (string, int) {
	at := bytes.LastIndexByte(data[:used], '\n') + 1
	if at < used/2 {
		return shown, used
	}
	shown, _ = text.StripPart(data[:at], true, len(data)*6)
	return shown, at
}

// end is as much of the end of the stream as the cost allows, not before byte
// number from; raw is the same as it was printed.
func (s *spool) end(from int64, cost int, final bool) (shown string, raw []byte) {
	for n := int64(cost); n > 0; {
		at := max(from, s.total-n)
		data, got, err := s.read(at, int(s.total-at))
		if err != nil || got != at || got+int64(len(data)) != s.total {
			return "", nil // the disk, or nothing of it is kept
		}
		data = startOfLine(data)
		t, used := text.StripPart(data, final, cost)
		if used == len(data) || !final && len(data)-used < text.MaxControl && used > 0 {
			return t, data
		}
		n = n * 2 / 3
	}
	return "", nil
}

// startOfLine takes half a line off the beginning of an end, where that leaves
// most of it, or else half a character.
func startOfLine(data []byte) []byte {
	if i := bytes.IndexByte(data, '\n'); i >= 0 && i < len(data)/2 {
		return data[i+1:]
	}
	for i := 0; i < min(len(data), 3); i++ {
		if data[i]&0xc0 != 0x80 {
			return data[i:]
		}
	}
	return data
}
