package text

import (
	"strings"
	"testing"
)

// What a terminal shows is told as text.
func TestRenderTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"one\r\ntwo\r\n":                       "one\ntwo\n",
		"\x1b[1;31mred\x1b[0m \x1b]0;title\a!": "red !",
		"10%\r20%\r100%\r\ndone":               "100%\ndone",
		"long line\rshort\x1b[K\r\n":           "short\n",
		"abc\b\b\x1b[K":                        "a",
		"abX\b \bc":                            "abc",
		"abcd\x1b[3D\x1b[1P":                   "acd",
		"\x1b[5Cx":                             "     x",
		"first\x1b[H\x1b[2Jsecond":             "first\nsecond",
		"\x1b(Bä\x00ö\x07\u009b\n":             "äö\n",
		"ends in \x1b":                         "ends in ",
		"ends in \x1b[1;3":                     "ends in [1;3",
		"\x1b[99999999999999999999Cx":          " x",
		"\x1bPq#0;2;0;0;0\x1b\\after":          "after",
	} {
		if got := RenderTerminal(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// A text is not cut within a control sequence.
func TestUnfinished(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "abc\x1b": 3, "abc\x1b[1": 3, "abc\x1b[1m": 7, "\x1b[1m\x1b]0;ti": 4, "\x1b]0;" + strings.Repeat("x", 5000): 5004,
	} {
		if got := Unfinished(text); got != want {
			t.Errorf("%.20q: %d, want %d", text, got, want)
		}
	}
}

func FuzzRenderTerminal(f *testing.F) {
	f.Add("a\x1b[1mb\r\n")
	f.Add("\x1b]0;x\a")
	f.Fuzz(func(t *testing.T, text string) {
		plain := RenderTerminal(text)
		if strings.ContainsAny(plain, "\x1b\r\b\a\x00") {
			t.Errorf("%q became %q", text, plain)
		}
		if n := Unfinished(text); n < 0 || n > len(text) || len(text)-n > MaxControl {
			t.Errorf("%q ends within a sequence at %d", text, n)
		}
	})
}
