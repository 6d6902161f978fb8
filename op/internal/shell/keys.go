package shell

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// keys are what the keys of a terminal (xterm) send.
var keys = map[string]string{
	"enter": "\r", "tab": "\t", "escape": "\x1b", "backspace": "\x7f", "space": " ", "delete": "\x1b[3~", "insert": "\x1b[2~",
	"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H", "end": "\x1b[F",
	"page-up": "\x1b[5~", "page-down": "\x1b[6~", "shift-tab": "\x1b[Z",
	"f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS", "f5": "\x1b[15~", "f6": "\x1b[17~", "f7": "\x1b[18~",
	"f8": "\x1b[19~", "f9": "\x1b[20~", "f10": "\x1b[21~", "f11": "\x1b[23~", "f12": "\x1b[24~",
	`ctrl-\`: "\x1c", "ctrl-]": "\x1d", "ctrl-space": "\x00",
}

// pressed is what a terminal sends for the keys of a list.
func pressed(list []string) (string, error) {
	var b strings.Builder
	for i, name := range list {
		sent, ok := keys[strings.ToLower(name)]
		if letter, is := strings.CutPrefix(strings.ToLower(name), "ctrl-"); !ok && is && len(letter) == 1 && letter[0] >= 'a' && letter[0] <= 'z' {
			sent, ok = string(rune(letter[0]&0x1f)), true
		}
		if !ok {
			known := slices.Sorted(maps.Keys(keys))
			return "", &policy.FieldError{Field: "keys[" + strconv.Itoa(i) + "]", Value: name, Reason: "there is no such key",
				Hint: "there are ctrl-a to ctrl-z, " + strings.Join(known, ", ") + "; letters go into text"}
		}
		b.WriteString(sent)
	}
	return b.String(), nil
}

// typed is a text as a keyboard sends it: each line ends with the Enter key.
func typed(text string) string {
	return strings.NewReplacer("\r\n", "\r", "\n", "\r").Replace(text)
}
