package text

import (
	"strings"
	"testing"
)

// FuzzReveal: what is shown of a line means that line, and nothing that a terminal obeys.
func FuzzReveal(f *testing.F) {
	for _, line := range []string{"plain", "\x1b[31mred\x1b[0m", "a\rb", "⟦U+001B⟧", "⟦U+", "⟦⟦U+27E6⟧", "\ufeffpackage", "\u202eabc\u0085", "tab\tstays", "⟦U+0041⟧", "a\r\r", "\U000e0100\u2060\u115f\u034f\u200b"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		line = cleanLine(line)
		shown := Reveal(line)
		if got := Unreveal(shown); got != line {
			t.Errorf("%q is shown as %q, which means %q", line, shown, got)
		}
		if strings.ContainsFunc(shown, hides) {
			t.Errorf("%q is shown as %q", line, shown)
		}
	})
}

// cleanLine is what a line of a text file can hold: no NUL, no bytes that are no UTF-8.
func cleanLine(text string) string {
	return strings.NewReplacer("\x00", "", "\n", "").Replace(strings.ToValidUTF8(text, "\uFFFD"))
}

// TestUnreveal: what is shown by number is taken back, and nothing else that looks so.
func TestUnreveal(t *testing.T) {
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
		if got := Unreveal(shown); got != want {
			t.Errorf("%q is taken as %q, want %q", shown, got, want)
		}
	}
	for _, r := range "👨\u200d👩 ❤\ufe0f می\u200cروم 葛\U0001f3fb e\u0301" { // is seen, or changes what is
		if hides(r) {
			t.Errorf("%U is shown by number", r)
		}
	}
}
