package files

import (
	"fmt"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op/internal/patch"
)

// withHint returns an error's text and its hint.
func withHint(err error) string {
	text := fmt.Sprint(err)
	if e, ok := err.(*paddock.Error); ok { //nolint:errorlint // the very one
		text += " | " + e.Hint
	}
	return text
}

// TestEditTexts: what edits make of a text, or why they do not fit.
func TestEditTexts(t *testing.T) {
	tests := []struct {
		name, text string
		edits      []FileEdit
		want       string // the text, or "! " and the error with its hint
		n          int
	}{
		{"once", "a\nb\n", []FileEdit{{Old: "b", New: "c"}}, "a\nc\n", 1},
		{"all", "a b a", []FileEdit{{Old: "a", New: "c", All: true}}, "c b c", 2},
		{"in order", "a", []FileEdit{{Old: "a", New: "b"}, {Old: "b", New: "c"}}, "c", 2},
		{"removed", "a\nb\nc\n", []FileEdit{{Old: "b\n"}}, "a\nc\n", 1},
		{"a mark at the beginning stays", "\xef\xbb\xbfa\nb\n", []FileEdit{{Old: "a\n", New: "c\n"}}, "\xef\xbb\xbfc\nb\n", 1},
		{"no end of the last line stays", "a\nb", []FileEdit{{Old: "a\nb", New: "c\nd"}}, "c\nd", 1},
		{"CRLF, written with line feeds", "a\r\nb\r\nc\r\n", []FileEdit{{Old: "a\nb\n", New: "x\ny\nz\n"}}, "x\r\ny\r\nz\r\nc\r\n", 1},
		{"CRLF, written so", "a\r\nb\r\n", []FileEdit{{Old: "a\r\nb", New: "x\r\ny"}}, "x\r\ny\r\n", 1},
		{"CRLF, of one line", "a\r\nb\r\n", []FileEdit{{Old: "a", New: "x\ny"}}, "x\r\ny\r\nb\r\n", 1},
		{"line feeds, written as CRLF", "a\nb\n", []FileEdit{{Old: "a\r\nb\r\n", New: "x\r\n"}}, "x\n", 1},
		{"mixed ends are exact", "a\r\nb\nc\n", []FileEdit{{Old: "b\nc", New: "x\ny"}}, "a\r\nx\ny\n", 1},
		{"bytes that are no UTF-8 stay", "\xff\nb\n", []FileEdit{{Old: "b", New: "c"}}, "\xff\nc\n", 1},
		{"an empty file", "", []FileEdit{{Old: "", New: "a\n"}}, "a\n", 1},
		{"twice", "a\nb\na\n", []FileEdit{{Old: "a", New: "c"}}, "! edits[0].old is there 2 times, at lines 1, 3; nothing was changed | give more of what is around it, so that it is there once, or set all", 0},
		{"often", strings.Repeat("a\n", 30), []FileEdit{{Old: "a\n", New: "c"}}, "! is there 30 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more", 0},
		{"indentation", "if x {\n\treturn\n}\n", []FileEdit{{Old: "if x {\n    return\n}", New: "c"}}, "! white space differs at line 1; nothing was changed | the file has: \"if x {\\n\\treturn\\n}\"", 0},
		{"ends of lines", "a  \nb\n", []FileEdit{{Old: "a\nb", New: "c"}}, "! white space at the ends of lines differs at line 1; nothing was changed | the file has: \"a  \\nb\"", 0},
		{"mixed line ends", "x\ny\r\nz\r\n", []FileEdit{{Old: "y\nz\n", New: "c"}}, "! line endings differ at line 2", 0},
		{"behind the last line", "a\nb", []FileEdit{{Old: "b\n", New: "c\n"}}, "! the text at line 2 has no line feed at its end; nothing was changed | leave out the last line feed of old", 0},
		{"numbers of lines", "a\nb\n", []FileEdit{{Old: "     1\ta\n     2\tb", New: "c"}}, "! it begins with line numbers", 0},
		{"something like it", "func main() {\n\tfmt.Println(\"hello\")\n}\n", []FileEdit{{Old: "fmt.Println(\"hallo\")", New: "c"}}, "! is not there; nothing was changed | the nearest is at line 2: \"\\tfmt.Println(\\\"hello\\\")\"", 0},
		{"nothing like it", "a\n", []FileEdit{{Old: "something else", New: "c"}}, "! is not there; nothing was changed | read the file again: it may have changed", 0},
		{"the second", "a\n", []FileEdit{{Old: "a", New: "b"}, {Old: "a", New: "c"}}, "! edits[1].old is not there", 0},
		{"a text that is there", "a\n", []FileEdit{{Old: "", New: "c"}}, "! edits[0].old is empty, and the file is not; nothing was changed | give the text to be replaced; to replace all of it use file_write", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := FileEditInput{Path: "f", Edits: tt.edits}
			got, n, err := in.apply([]byte(tt.text), false)
			if want, ok := strings.CutPrefix(tt.want, "! "); ok {
				if err == nil || !strings.Contains(withHint(err), want) {
					t.Errorf("the error is %q, want %q", withHint(err), want)
				}
				return
			}
			if string(got) != tt.want || n != tt.n || err != nil {
				t.Errorf("%q with %d replacements, %v; want %q", got, n, err, tt.want)
			}
		})
	}
}

// TestEditAsShown: what a model was shown by number is that character, what it has seen
// elsewhere as it is that text; where both are there, neither is guessed.
func TestEditAsShown(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		edit FileEdit
		want string // "! " and the error
	}{
		"a character":            {"\x1b[31m\n", FileEdit{Old: "⟦U+001B⟧[31m", New: "⟦U+001B⟧[32m"}, "\x1b[32m\n"},
		"the character itself":   {"\x1b[31m\n", FileEdit{Old: "\x1b[31m", New: "⟦U+001B⟧[32m"}, "\x1b[32m\n"},
		"a text, as shown":       {"⟦U+001B⟧\n", FileEdit{Old: "⟦U+27E6⟧U+001B⟧", New: "⟦U+27E6⟧U+0007⟧"}, "⟦U+0007⟧\n"},
		"a text, as it is":       {"⟦U+001B⟧\n", FileEdit{Old: "⟦U+001B⟧", New: "⟦U+0007⟧"}, "⟦U+0007⟧\n"},
		"no number that is used": {"a\n", FileEdit{Old: "a", New: "⟦U+0041⟧"}, "⟦U+0041⟧\n"},
		"both":                   {"⟦U+001B⟧\n\x1b\n", FileEdit{Old: "⟦U+001B⟧", New: "c"}, "! is there with the characters"},
		"both, and all":          {"⟦U+001B⟧\n\x1b\n", FileEdit{Old: "⟦U+001B⟧", New: "c", All: true}, "! is there with the characters"},
		"the text of both":       {"⟦U+001B⟧\n\x1b\n", FileEdit{Old: "⟦U+27E6⟧U+001B⟧", New: "c"}, "c\n\x1b\n"},
		"the character of both":  {"⟦U+001B⟧\n\x1b\n", FileEdit{Old: "\n⟦U+001B⟧", New: "c"}, "⟦U+001B⟧c\n"},
		"CRLF":                   {"a\r\n\x1b\r\n", FileEdit{Old: "a\n⟦U+001B⟧\n", New: "b\n"}, "b\r\n"},
		"mixed ends":             {"a\r\nb\n", FileEdit{Old: "a⟦U+000D⟧\nb", New: "a\nb"}, "a\nb\n"},
		"a new file":             {"", FileEdit{New: "⟦U+FEFF⟧a"}, "\ufeffa"},
	} {
		in := FileEditInput{Path: "f", Edits: []FileEdit{tt.edit}}
		got, _, err := in.apply([]byte(tt.text), true)
		if want, ok := strings.CutPrefix(tt.want, "! "); ok {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		} else if string(got) != tt.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tt.want)
		}
	}
}

// TestEditIsBounded: what a search for the nearest costs does not explode.
func TestEditIsBounded(t *testing.T) {
	in := FileEditInput{Path: "f", Edits: []FileEdit{{Old: strings.Repeat("a\n", 50_000) + "b", New: "c"}}}
	if _, _, err := in.apply([]byte(strings.Repeat("a\n", 300_000)), false); err == nil {
		t.Error("it is there")
	}
	in.Edits[0] = FileEdit{Old: "a", New: strings.Repeat("b", 1000), All: true}
	if _, _, err := in.apply([]byte(strings.Repeat("a", 100_000)), false); err == nil || !strings.Contains(fmt.Sprint(err), "it would have more than") {
		t.Errorf("%v", err)
	}
}

// TestEncodeHiddenDiff: a diff shows all that was changed.
func TestEncodeHiddenDiff(t *testing.T) {
	for name, tt := range map[string]struct{ before, after, want string }{
		"a colour":            {"\x1b[31m\n", "\x1b[32m\n", "-⟦U+001B⟧[31m\n+⟦U+001B⟧[32m\n"},
		"a return inside":     {"3\n", "3\r3\n", "-3\n+3⟦U+000D⟧3\n"},
		"ends of lines":       {"a\n", "a\r\n", "-a\n+a⟦U+000D⟧\n"},
		"all lines end so":    {"a\r\nb\r\n", "a\r\nc\r\n", " a\r\n-b\r\n+c\r\n"},
		"all but the last":    {"a\r\nb", "c\r\nb", "-a\r\n+c\r\n b\n\\ No newline at end of file\n"},
		"a text that has one": {"⟦U+001B⟧\n", "\x1b\n", "-⟦U+27E6⟧U+001B⟧\n+⟦U+001B⟧\n"},
	} {
		if got := text.EncodeHiddenDiff(patch.Diff([]byte(tt.before), []byte(tt.after))); !strings.HasSuffix(got, "@@\n"+tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
