package shell

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

// ShellWait says how long a call waits for what a shell prints.
type ShellWait struct {
	WaitForIdleMS *uint64          `json:"wait_for_idle_ms,omitempty" help:"wait until nothing more is printed for so many milliseconds; 0 does not wait" max:"60000"`
	WaitFor       string           `json:"wait_for,omitempty" help:"wait until this text is printed (a prompt, say), instead of for silence" max:"1024"`
	Timeout       *policy.Duration `json:"timeout,omitempty" help:"wait no longer than this in all, at most 10m (default: 30s)"`
	Limit         *uint64          `json:"limit,omitempty" help:"characters of output to return at most (default: 16000)" min:"1" max:"65536"`
	Plain         *bool            `json:"plain,omitempty" help:"return text as a person would read it, without control sequences (default: true)"`
}

// ShellOpenInput asks for an interactive shell.
type ShellOpenInput struct {
	op.InSandbox
	ShellWait
	ShellID   string       `json:"shell_id,omitempty" help:"a name for the shell (default: a random one)" max:"64"`
	Command   string       `json:"command,omitempty" help:"a first line to type; \"exec python3\" puts python3 in the shell's place" max:"65536"`
	Cwd       string       `json:"cwd,omitempty" help:"where it begins, in the workspace (default: the workspace)" max:"4096"`
	Env       op.Variables `json:"env,omitempty" help:"environment variables to add" secret:"env"`
	SecretEnv []string     `json:"secret_env,omitempty" help:"secrets of secret_set that are given as environment variables of the same name" max:"64"`
	Rows      *uint64      `json:"rows,omitempty" help:"lines of the terminal (default: 30)" min:"1" max:"1000"`
	Cols      *uint64      `json:"cols,omitempty" help:"columns of the terminal (default: 120)" min:"1" max:"1000"`
}

// ShellReadInput asks for what a shell has printed.
type ShellReadInput struct {
	op.InSandbox
	ShellWait
	ShellID string `json:"shell_id" help:"which shell" min:"1" max:"64"`
	Cursor  uint64 `json:"cursor,omitempty" help:"where to read from: next_cursor of the answer before; 0 is the beginning"`
}

// ShellWriteInput types something.
type ShellWriteInput struct {
	op.InSandbox
	ShellWait
	ShellID string   `json:"shell_id" help:"which shell" min:"1" max:"64"`
	Text    string   `json:"text,omitempty" help:"text to type" max:"65536"`
	Keys    []string `json:"keys,omitempty" help:"keys to press after the text: ctrl-c, enter, tab, escape, backspace, up, down, left, right, home, end, page-up, f1, …" max:"256"`
	Enter   *bool    `json:"enter,omitempty" help:"press Enter after the text (default: true where there is a text and no keys)"`
	Cursor  *uint64  `json:"cursor,omitempty" help:"return output from here on (default: what is printed from now on)"`
}

// ShellSignalInput signals the program in the foreground of a shell.
type ShellSignalInput struct {
	op.InSandbox
	ShellID string `json:"shell_id" help:"which shell" min:"1" max:"64"`
	Signal  string `json:"signal,omitempty" help:"the signal (default: INT)" choices:"HUP,INT,TERM,KILL"`
}

// ShellResizeInput changes the size of a shell's terminal.
type ShellResizeInput struct {
	op.InSandbox
	ShellID string `json:"shell_id" help:"which shell" min:"1" max:"64"`
	Rows    uint64 `json:"rows" help:"lines of the terminal" min:"1" max:"1000"`
	Cols    uint64 `json:"cols" help:"columns of the terminal" min:"1" max:"1000"`
}

// ShellListInput names the sandbox whose shells are listed.
type ShellListInput struct {
	op.InSandbox
}

// ShellCloseInput names the shell to close.
type ShellCloseInput struct {
	op.InSandbox
	ShellID string `json:"shell_id" help:"which shell" min:"1" max:"64"`
}

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
