package op

import (
	"strings"
	"testing"
)

// FuzzReveal: what is shown of a line means that line, and nothing that a terminal obeys.
func FuzzReveal(f *testing.F) {
	for _, line := range []string{"plain", "\x1b[31mred\x1b[0m", "a\rb", "⟦U+001B⟧", "⟦U+", "⟦⟦U+27E6⟧", "\ufeffpackage", "\u202eabc\u0085", "tab\tstays"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		line = cleanLine(line)
		shown := reveal(line)
		if got := unreveal(shown); got != line {
			t.Errorf("%q is shown as %q, which means %q", line, shown, got)
		}
		if clearLine(shown) != shown {
			t.Errorf("%q is shown as %q", line, shown)
		}
	})
}

// cleanLine is what a line of a text file can hold: no NUL, no bytes that are no UTF-8.
func cleanLine(text string) string {
	return strings.NewReplacer("\x00", "", "\n", "").Replace(strings.ToValidUTF8(text, "\uFFFD"))
}
