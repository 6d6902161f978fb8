package changes

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"

	"github.com/paddock-dev/paddock/internal/text"
)

// shownIn returns what a terminal gets of a text that is written in several parts.
func shownIn(t *testing.T, parts ...string) string {
	t.Helper()
	var out bytes.Buffer
	v := &visible{to: &out}
	for _, part := range parts {
		if n, err := v.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A terminal gets nothing that it obeys, or that nobody sees, but its number.
func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"+a\tb\r\n\x1b]0;x\a\x7f":        "+a\tb^M\n^[]0;x^G^?",
		"\u009b2Jé日\U0001f600":           "^[[2Jé日\U0001f600",
		"if a \u202e\u2066// b\u2069":    "if a <U+202E><U+2066>// b<U+2069>",
		"a\u200b\u00ad\u3164\U000e0041b": "a<U+200B><U+00AD><U+3164><U+E0041>b",
		"❤\ufe0f\u200d\u115f":            "❤<U+FE0F><U+200D><U+115F>",
		"\xff\x9b1m\xe2\x80":             "<FF><9B>1m<E2><80>",
		"\ufffd":                         "\ufffd",
	} {
		if got := shownIn(t, text); got != want {
			t.Errorf("of %q a terminal gets %q, want %q", text, got, want)
		}
	}
}

// Only a terminal gets other text than the patch has.
func TestShown(t *testing.T) {
	keyboard, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer keyboard.Close()
	defer terminal.Close()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if w, _ := shown(terminal); w == terminal {
		t.Error("a terminal gets control characters")
	}
	if w, _ := shown(file); w != file {
		t.Error("a file gets other text than the patch")
	}
}

// FuzzVisible: wherever a text is split, a terminal gets the same, and nothing invisible.
func FuzzVisible(f *testing.F) {
	for _, s := range []string{"+a\tb\r\n\x1b]0;x\a", "é\u009b2J\u202e日\U0001f600\U000e0001", "\xe2\x80\xae\xe2\x80a\xc2", "\xf0\x9f\x98"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := shownIn(t, s)
		for at := range len(s) {
			if got := shownIn(t, s[:at], s[at:]); got != want {
				t.Fatalf("%q, split at %d: %q, want %q", s, at, got, want)
			}
		}
		if got := shownIn(t, strings.Split(s, "")...); got != want {
			t.Fatalf("%q in single characters: %q, want %q", s, got, want)
		}
		bad := func(r rune) bool {
			return text.IsInvisible(r) || r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0
		}
		if !utf8.ValidString(want) || strings.ContainsFunc(want, bad) {
			t.Fatalf("%q is shown as %q", s, want)
		}
	})
}
