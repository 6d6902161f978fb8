package exec

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/wire"
)

// kept is what a capture should keep, said in the plainest way.
func kept(all []byte, limit int) (head, tail []byte) {
	head = all[:min(len(all), limit-limit/2)]
	rest := all[len(head):]
	return head, rest[len(rest)-min(len(rest), limit/2):]
}

// TestCaptureKeepsHeadAndTail writes every length around every small bound in
// pieces of every size, so that the ring wraps in all alignments.
func TestCaptureKeepsHeadAndTail(t *testing.T) {
	source := []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	for limit := 1; limit <= 9; limit++ {
		for total := range 3*limit + 4 {
			for piece := 1; piece <= total+1; piece++ {
				c := &capture{limit: limit}
				for p := source[:total]; len(p) > 0; p = p[min(piece, len(p)):] {
					if n, err := c.Write(p[:min(piece, len(p))]); n != min(piece, len(p)) || err != nil {
						t.Fatalf("Write = %d, %v", n, err)
					}
				}
				checkCapture(t, c, source[:total], fmt.Sprintf("limit %d, total %d, pieces of %d", limit, total, piece))
			}
		}
	}
}

func TestCaptureOfRandomPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		c := &capture{limit: 1 + r.IntN(64)}
		var all []byte
		for range r.IntN(20) {
			p := make([]byte, r.IntN(40))
			for i := range p {
				p[i] = byte('a' + r.IntN(26))
			}
			all = append(all, p...)
			_, _ = c.Write(p)
		}
		checkCapture(t, c, all, fmt.Sprintf("limit %d, total %d", c.limit, len(all)))
	}
}

func checkCapture(t *testing.T, c *capture, all []byte, what string) {
	t.Helper()
	head, tail := kept(all, c.limit)
	got, err := base64.StdEncoding.DecodeString(c.text("base64", ""))
	if err != nil || !bytes.Equal(got, append(bytes.Clone(head), tail...)) {
		t.Fatalf("%s: kept %q, want %q and %q", what, got, head, tail)
	}
	if c.total != int64(len(all)) || c.truncated() != (len(all) > c.limit) {
		t.Fatalf("%s: total %d, truncated %v", what, c.total, c.truncated())
	}
}

func TestCaptureText(t *testing.T) {
	tests := map[string]struct {
		limit       int
		input, note string
		want        string
	}{
		"nothing":                {10, "", "", ""},
		"all of it":              {10, "0123456789", "", "0123456789"},
		"cut":                    {10, "01234xyz56789", "", "01234\n[… 3 bytes omitted …]\n56789"},
		"a bound of one":         {1, "abc", "", "a\n[… 2 bytes omitted …]\n"},
		"an odd bound":           {3, "abcd", "", "ab\n[… 1 bytes omitted …]\nd"},
		"split at the head":      {6, "ab€xxxx€", "", "ab\n[… 7 bytes omitted …]\n€"}, // € has three bytes
		"split at the tail":      {6, "abcxxx€d", "", "abc\n[… 6 bytes omitted …]\nd"},
		"tail within a rune":     {4, "abxxx€", "", "ab\n[… 6 bytes omitted …]\n"},
		"whole over the seam":    {6, "ab€d", "", "ab€d"},
		"garbage":                {9, "a\xffb\xfe\xfec", "", "a\uFFFDb\uFFFDc"},
		"garbage beside the cut": {12, "abcdef" + "xx" + "\x80\x80\x80\x80\x80\x80", "", "abcdef\n[… 5 bytes omitted …]\n\uFFFD"},
		"a note alone":           {10, "", "late", "late"},
		"a note after a line":    {10, "out\n", "late", "out\nlate"},
		"a note after no line":   {10, "out", "late", "out\nlate"},
		"a note after a cut":     {4, "abxxxcd", "late", "ab\n[… 3 bytes omitted …]\ncd\nlate"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := &capture{limit: tt.limit}
			_, _ = c.Write([]byte(tt.input))
			got := c.text("", tt.note)
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if !utf8.ValidString(got) {
				t.Errorf("%q is not UTF-8", got)
			}
		})
	}
}

func TestCaptureNoteInBase64(t *testing.T) {
	c := &capture{limit: 10}
	_, _ = c.Write([]byte{0xff})
	got, _ := base64.StdEncoding.DecodeString(c.text("base64", "late"))
	if string(got) != "\xff\nlate" {
		t.Errorf("got %q", got)
	}
}

// The worst that a command can print still fits into an answer line by default.
func TestDefaultOutputFitsInALine(t *testing.T) {
	for name, worst := range map[string]string{"escapes": "\x00", "garbage": "\xffa", "separators": "\u2028"} {
		t.Run(name, func(t *testing.T) {
			c := &capture{limit: defaultOutput}
			_, _ = c.Write([]byte(strings.Repeat(worst, 2*defaultOutput/len(worst))))
			line, err := json.Marshal(wire.ExecResult{Stdout: c.text("", ""), Stderr: c.text("", "")})
			if err != nil || len(line) >= wire.MaxLine {
				t.Errorf("the answer has %d bytes, %v", len(line), err)
			}
		})
	}
}
