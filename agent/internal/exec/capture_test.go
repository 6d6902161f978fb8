package exec

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/wire"
)

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
			c := newCapture(tt.limit)
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
	c := newCapture(10)
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
			c := newCapture(defaultOutput)
			_, _ = c.Write([]byte(strings.Repeat(worst, 2*defaultOutput/len(worst))))
			line, err := json.Marshal(wire.ExecResult{Stdout: c.text("", ""), Stderr: c.text("", "")})
			if err != nil || len(line) >= wire.MaxLine {
				t.Errorf("the answer has %d bytes, %v", len(line), err)
			}
		})
	}
}
