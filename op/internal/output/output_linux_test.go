package output

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/text"
)

func TestClearText(t *testing.T) {
	for _, tt := range []struct {
		in, want string
		left     int // of what is not final
	}{
		{"plain\ttext\n", "plain\ttext\n", 0},
		{"\x1b[1;31mred\x1b[0m \x1b]0;title\aafter\x1b]8;;x\x1b\\link", "red afterlink", 0},
		{"\x1b(Bx\x1b7y\x1b=z", "xyz", 0},
		{"10%\r20%\r\nend\r\n", "10%\n20%\nend\n", 0},
		{"a\bb\x07\x00\x7f\u0085\u009b", "ab", 0},
		{"\u202eevil\u2066", "evil", 0},
		{"h\xe9llo", "h\ufffdllo", 0},
		{"caf\xc3", "caf", 1},
		{"x\x1b[3", "x", 3},
		{"x\r", "x", 1},
		{"x\x1b", "x", 1},
		{"broken \x1b[3\x1b[1moff", "broken off", 0},
		{"\x1b]" + strings.Repeat("a", text.MaxControl), "]" + strings.Repeat("a", text.MaxControl), 0},
	} {
		in, used := text.StripPart([]byte(tt.in), false, 1<<20)
		if in != tt.want || used != len(tt.in)-tt.left {
			t.Errorf("%q is %q (%d bytes), want %q", tt.in, in, used, tt.want)
		}
		if _, used := text.StripPart([]byte(tt.in), true, 1<<20); used != len(tt.in) {
			t.Errorf("%q: %d bytes of %d are used at the end", tt.in, used, len(tt.in))
		}
	}
}

// pieces are what programs print, and what they should not.
var pieces = []string{"line\n", "\x1b[31m", "é", "日本語", "\r\n", "\r", "\xff", "\xe2\x82", "<&>\"\\", "\x1b]0;t\a", "👩‍👩‍👧", "\x00", "text "}

func noise(r *rand.Rand, n int) []byte {
	var b bytes.Buffer
	for b.Len() < n {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.Bytes()
}

// readAll reads an output by cursors, in parts of so many characters.
func readAll(t *testing.T, n *Output, encoding string, limit int) (in []byte, lost int64) {
	t.Helper()
	for cursor := int64(0); ; {
		out, _, err := n.Part(OutputReadInput{Cursor: &cursor, Encoding: encoding}, limit)
		if err != nil {
			t.Fatal(err)
		}
		part := []byte(out.Text)
		if encoding == "base64" {
			if part, err = base64.StdEncoding.DecodeString(out.Text); err != nil {
				t.Fatal(err)
			}
		}
		if cost := text.Cost(out.Text); cost > limit || encoding != "base64" && !utf8.ValidString(out.Text) {
			t.Fatalf("%d characters of %d: %q", cost, limit, out.Text)
		}
		in, lost = append(in, part...), lost+out.LostBytes
		if out.EOF {
			return in, lost
		}
		if out.NextCursor == cursor {
			t.Fatalf("it does not go on at %d of %d", cursor, out.TotalBytes)
		}
		cursor = out.NextCursor
	}
}

// Whatever was printed, and however it is cut into parts, they make up the whole.
func TestOutputReadingIsLossless(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 0))
		all := noise(r, 1+r.IntN(60000))
		n := (&Outputs{}).New("ann")
		for rest := all; len(rest) > 0; {
			k := min(len(rest), 1+r.IntN(9000))
			_, _ = n.Write(rest[:k])
			rest = rest[k:]
		}
		n.End("")
		want, _ := text.StripPart(all, true, 1<<30)
		if got, lost := readAll(t, n, "", 16+r.IntN(3000)); lost != 0 || string(got) != want {
			t.Fatalf("seed %d: the text is another one, %d bytes are lost", seed, lost)
		}
		if got, lost := readAll(t, n, "base64", 16+r.IntN(3000)); lost != 0 || !bytes.Equal(got, all) {
			t.Fatalf("seed %d: the bytes are others, %d are lost", seed, lost)
		}
	}
}

// What is kept are the beginning and the end, however much room there is.
func TestSpoolKeepsBothEnds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps int // that are granted
		size  int
	}{
		{"no file", 0, 100000}, {"no file is needed", 0, 16 << 10}, {"one byte more", 0, 16<<10 + 1},
		{"little room", 1, 3 << 20}, {"half the room", 5, 40 << 20}, {"all room", 1000, 50 << 20}, {"all is kept", 1000, 32 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			left := tt.steps
			s := newSpool(func(int64) bool { left--; return left >= 0 })
			defer s.close()
			all := make([]byte, tt.size)
			for i := range all {
				all[i] = byte(i>>16 ^ i>>8 ^ i)
			}
			for rest := all; len(rest) > 0; {
				k := min(len(rest), 77777)
				_, _ = s.Write(rest[:k])
				rest = rest[k:]
			}
			from, to := s.gap()
			if s.total != int64(tt.size) || s.kept != s.total || s.room > SpoolHead+SpoolTail {
				t.Errorf("%d of %d bytes came, %d are kept", s.total, tt.size, s.room)
			}
			if kept := s.total - (to - from); from == to != (int64(tt.size) <= s.room) || kept != min(s.total, s.room) {
				t.Errorf("%d are kept of %d, the gap is from %d to %d", kept, s.total, from, to)
			}
			for _, at := range []int64{0, 1, from - 5, from, from + 1, to - 1, to, to + 5, s.total - 3, s.total} {
				data, begin, err := s.read(at, 100000)
				if err != nil || begin < at || len(data) > 0 && !bytes.Equal(data, all[begin:begin+int64(len(data))]) {
					t.Errorf("at %d: %d bytes from %d on, %v", at, len(data), begin, err)
				}
				if at < s.total && len(data) == 0 && at >= 0 {
					t.Errorf("at %d there is nothing", at)
				}
			}
		})
	}
}

// Too many outputs, and too large ones, cost the oldest that have ended.
func TestOutputsAreBounded(t *testing.T) {
	o := &Outputs{}
	first := o.New("ann")
	other := o.New("bob")
	other.End("")
	running := o.New("ann")
	first.End("")
	for range maxOutputs {
		o.New("ann").End("")
	}
	if _, err := o.Find("ann", first.ID()); err == nil {
		t.Error("the oldest is still kept")
	}
	for who, n := range map[string]*Output{"ann": running, "bob": other} {
		if _, err := o.Find(who, n.ID()); err != nil {
			t.Error(who, err)
		}
	}
	if _, err := o.Find("ann", other.ID()); err == nil {
		t.Error("ann finds bob's")
	}
	if !running.grow(maxSpooled) || running.grow(1) {
		t.Error("the disk is not bounded")
	}
	running.credit(maxSpooled)
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if _, err := o.Find("bob", other.ID()); err == nil {
		t.Error("a closed store finds one")
	}
	if n := o.New("bob"); n == nil || n.store != nil {
		t.Error("a closed store keeps one")
	}
}

// An excerpt has the beginning and the end, says what it leaves out and where
// that is, and fits.
func TestExcerpt(t *testing.T) {
	n := (&Outputs{}).New("ann")
	var all strings.Builder
	for i := range 10000 {
		_, _ = fmt.Fprintf(&all, "line %d <&>\n", i)
	}
	_, _ = n.Write([]byte(all.String()))
	n.End("")
	e := n.Excerpt(0, 2000)
	if cost := text.Cost(e.Text); cost > 2200 {
		t.Errorf("it costs %d", cost)
	}
	head, rest, _ := strings.Cut(e.Text, "... ")
	note, tail, _ := strings.Cut(rest, " ...\n")
	if !strings.HasPrefix(all.String(), head) || !strings.HasSuffix(all.String(), tail) || head == "" || tail == "" {
		t.Errorf("%q", e.Text)
	}
	lines := strings.Count(head+tail, "\n")
	want := fmt.Sprintf(`%d bytes in %d lines left out: output_read {"output": %q, "cursor": %d}`, all.Len()-len(head)-len(tail), 10000-lines, n.ID(), len(head))
	if note != want || e.CutLines != int64(10000-lines) {
		t.Errorf("%q, want %q", note, want)
	}
	for _, size := range []int{1, 256, 999, 1000, 1001, 5000} {
		for _, kind := range []string{"x", "é", "\n", "\x1b[1m", "<", "\xff"} {
			n := (&Outputs{}).New("ann")
			_, _ = n.Write(bytes.Repeat([]byte(kind), size))
			n.End("")
			if e := n.Excerpt(0, 1000); text.Cost(e.Text) > 1200 || !utf8.ValidString(e.Text) {
				t.Errorf("%d times %q costs %d", size, kind, text.Cost(e.Text))
			}
		}
	}
}
