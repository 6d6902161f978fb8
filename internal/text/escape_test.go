package text

import (
	"strings"
	"testing"
	"unicode"
)

// FuzzEncodeHidden: what is shown of a line means that line, and nothing that a terminal obeys.
func FuzzEncodeHidden(f *testing.F) {
	for _, line := range []string{"plain", "\x1b[31mred\x1b[0m", "a\rb", "⟦U+001B⟧", "⟦U+", "⟦⟦U+27E6⟧", "\ufeffpackage", "\u202eabc\u0085", "tab\tstays", "⟦U+0041⟧", "a\r\r", "\U000e0100\u2060\u115f\u034f\u200b"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		line = cleanLine(line)
		shown := EncodeHidden(line)
		if got := DecodeHidden(shown); got != line {
			t.Errorf("%q is shown as %q, which means %q", line, shown, got)
		}
		if strings.ContainsFunc(shown, func(r rune) bool { return !IsShown(r) }) {
			t.Errorf("%q is shown as %q", line, shown)
		}
	})
}

// cleanLine is what a line of a text file can hold: no NUL, no bytes that are no UTF-8.
func cleanLine(text string) string {
	return strings.NewReplacer("\x00", "", "\n", "").Replace(strings.ToValidUTF8(text, "\uFFFD"))
}

// TestDecodeHidden: what is shown by number is taken back, and nothing else that looks so.
func TestDecodeHidden(t *testing.T) {
	for shown, want := range map[string]string{
		"a⟦U+001B⟧[1m":          "a\x1b[1m",
		"⟦U+27E6⟧U+001B⟧":       "⟦U+001B⟧",
		"⟦U+27E6⟧U+27E6⟧U+001B": "⟦U+27E6⟧U+001B",
		"⟦U+0041⟧ ⟦U+000A⟧":     "⟦U+0041⟧ ⟦U+000A⟧",
		"⟦U+27E6⟧ alone":        "⟦U+27E6⟧ alone",
		"⟦U+0000⟧ ⟦U+FFFFFF⟧":   "⟦U+0000⟧ ⟦U+FFFFFF⟧",
		"⟦U+001b⟧":              "⟦U+001b⟧",
		"\xff⟦U+FEFF⟧":          "\xff\ufeff",
	} {
		if got := DecodeHidden(shown); got != want {
			t.Errorf("%q is taken as %q, want %q", shown, got, want)
		}
	}
	for _, r := range "👨\u200d👩 ❤\ufe0f می\u200cروم 葛\U0001f3fb e\u0301" { // is seen, or changes what is
		if !IsShown(r) {
			t.Errorf("%U is shown by number", r)
		}
	}
}

// TestInvisible: whatever Unicode calls invisible, or a control of direction, has its number in names
// and lines.
func TestInvisible(t *testing.T) {
	for r := rune(0xa0); r <= unicode.MaxRune; r++ {
		ignorable := unicode.In(r, unicode.Bidi_Control, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
		if ignorable && !IsInvisible(r) || IsHidden(r) && !IsInvisible(r) {
			t.Errorf("%U is called visible", r)
		}
		if !IsInvisible(r) {
			continue
		}
		for _, shown := range []string{QuoteName("a" + string(r)), Escape("a" + string(r))} {
			if strings.ContainsRune(shown, r) || !strings.Contains(shown, `\`) {
				t.Errorf("%U is shown as %q", r, shown)
			}
		}
	}
}

// TestLines shows hostile texts as lines.
func TestLines(t *testing.T) {
	const hostile = "a b\t\"ä\" 日 \x1b[1m\n\xff\u202e"
	for _, tt := range []struct{ name, got, want string }{
		{"Escape", Escape(hostile), `a b\t"ä" 日 \x1b[1m\n\xff\u202e`},
		{"Printable", Printable(hostile, '?'), "a b?\"ä\" 日 ?[1m?\uFFFD?"},
		{"ControlPictures", ControlPictures(hostile), "a b\t\"ä\" 日 ␛[1m\n\uFFFD\uFFFD"},
		{"Label", Label(hostile), "a b \"ä\" 日 ␛[1m \uFFFD\uFFFD"},
		{"Strip", Strip(hostile), "a b\t\"ä\" 日 \n\uFFFD"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}
