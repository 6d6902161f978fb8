package shell

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

type ShellWriteInput struct {
	op.InSandbox
	ShellWait
	ShellID string   `json:"shell_id" help:"which shell" min:"1" max:"64"`
	Text    string   `json:"text,omitempty" help:"text to type" max:"65536"`
	Keys    []string `json:"keys,omitempty" help:"keys to press after the text: ctrl-c, enter, tab, escape, backspace, up, down, left, right, home, end, page-up, f1, …" max:"256"`
	Enter   *bool    `json:"enter,omitempty" help:"press Enter after the text (default: true if there is a text and no keys)"`
	Cursor  *uint64  `json:"cursor,omitempty" help:"return output from here on (default: what is printed after the typing)"`
}

func (ShellWriteInput) Desc() op.Desc {
	return op.Desc{
		Name: "shell_write", Summary: "Type into a shell, and read what it prints",
		Doc: `Type text into a shell, and press keys. Enter is pressed after a text, unless there
are keys or enter is false. keys are pressed after the text, in order: ctrl-a to ctrl-z, enter, tab, shift-tab, escape, space, backspace, delete,
insert, up, down, left, right, home, end, page-up, page-down, f1 to f12, ctrl-\,
ctrl-] and ctrl-space; ["ctrl-c"] interrupts what runs.

The answer has what was printed since, including the echo of what was typed: the call
waits until the shell has been silent for wait_for_idle_ms (default: 300; 0 does not
wait), or with wait_for until that text is printed, at most for timeout. A program
that works without printing looks idle: wait for its prompt with wait_for, or read
again later with shell_read at next_cursor.`,
		Lasting: true, Hints: op.Hints{Destructive: true},
	}
}

// Do types the text and the keys, and reads the output.
func (in ShellWriteInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ShellOutput, err error) {
	if _, err := op.NameOr("shell_id", in.ShellID, false); err != nil {
		return out, err
	}
	wait, err := in.reading(env, op.IdleDefault)
	if err != nil {
		return out, err
	}
	sent, err := in.sent()
	if err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		// By default the answer begins with the output after the typed input.
		now, err := wire.Call(ctx, s.Client(), wire.ReadShell, wire.ReadShellRequest{ShellID: in.ShellID, Cursor: maxCursor, MaxChars: 1})
		if err != nil {
			return registry.Refusal("type into shell "+in.ShellID, err)
		}
		from := now.NextCursor
		if in.Cursor != nil {
			from = int64(min(*in.Cursor, maxCursor))
		}
		if err := typeIn(ctx, s, in.ShellID, sent); err != nil {
			return err
		}
		out, err = readShell(ctx, s, in.ShellID, from, wait)
		return err
	})
	return out, err
}

// sent returns the bytes that a keyboard sends for the text and the keys.
func (in ShellWriteInput) sent() (string, error) {
	keys, err := pressed(in.Keys)
	if err != nil {
		return "", err
	}
	sent := typed(in.Text)
	if in.Enter == nil && in.Text != "" && len(in.Keys) == 0 || in.Enter != nil && *in.Enter {
		sent += "\r"
	}
	if sent += keys; sent == "" {
		return "", errNothingTyped
	}
	return sent, nil
}

var errNothingTyped = &policy.FieldError{Field: "text", Reason: "there is nothing to type", Hint: "give a text, keys, or both"}

// keys maps the names of keys to the bytes that a terminal (xterm) sends for them.
var keys = map[string]string{
	"enter": "\r", "tab": "\t", "escape": "\x1b", "backspace": "\x7f", "space": " ", "delete": "\x1b[3~", "insert": "\x1b[2~",
	"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H", "end": "\x1b[F",
	"page-up": "\x1b[5~", "page-down": "\x1b[6~", "shift-tab": "\x1b[Z",
	"f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS", "f5": "\x1b[15~", "f6": "\x1b[17~", "f7": "\x1b[18~",
	"f8": "\x1b[19~", "f9": "\x1b[20~", "f10": "\x1b[21~", "f11": "\x1b[23~", "f12": "\x1b[24~",
	`ctrl-\`: "\x1c", "ctrl-]": "\x1d", "ctrl-space": "\x00",
}

// pressed returns the bytes that a terminal sends for a list of keys.
func pressed(list []string) (string, error) {
	var b strings.Builder
	for i, name := range list {
		sent, ok := keys[strings.ToLower(name)]
		if letter, is := strings.CutPrefix(strings.ToLower(name), "ctrl-"); !ok && is && len(letter) == 1 && letter[0] >= 'a' && letter[0] <= 'z' {
			sent, ok = string(rune(letter[0]&0x1f)), true
		}
		if !ok {
			known := slices.Sorted(maps.Keys(keys))
			return "", &policy.FieldError{Field: "keys[" + strconv.Itoa(i) + "]", Value: name, Reason: "unknown key",
				Hint: "there are ctrl-a to ctrl-z, " + strings.Join(known, ", ") + "; letters go into text"}
		}
		b.WriteString(sent)
	}
	return b.String(), nil
}

// typed returns a text as a keyboard sends it: each line ends with the Enter key.
func typed(text string) string {
	return strings.NewReplacer("\r\n", "\r", "\n", "\r").Replace(text)
}

// typeIn sends input to the shell's terminal.
func typeIn(ctx context.Context, h *registry.Sandbox, id, sent string) error {
	no := false
	_, err := wire.Call(ctx, h.Client(), wire.WriteShell, wire.WriteShellRequest{ShellID: id, Input: sent, AppendNewline: &no})
	return registry.Refusal("type into shell "+id, err)
}
