package exec

import (
	"path"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
)

// Caller says what a command gets of its caller's terminal and standard input.
type Caller struct {
	TTY     *bool `json:"tty,omitempty" flag:"tty" only:"cli" short:"t" help:"give the command a terminal, made inside the sandbox; standard input must be one (default: if standard input, output and error output all are one)"`
	NoTTY   bool  `json:"no_tty,omitempty" flag:"no-tty" only:"cli" help:"give the command no terminal"`
	NoStdin bool  `json:"no_stdin,omitempty" flag:"no-stdin" only:"cli" short:"n" help:"read nothing of standard input: the command's is empty"`
}

// Terminal reports whether the command gets a terminal.
func (c Caller) Terminal(stream *op.Stream) bool {
	if c.TTY != nil {
		return *c.TTY
	}
	return !c.NoTTY && !c.NoStdin && stream.Terminal != nil && stream.Typed && stream.Stdout != nil
}

// asks reports whether a terminal was asked for.
func (c Caller) asks() bool { return c.TTY != nil && *c.TTY }

// check returns an error if a terminal was asked for and the command cannot have one.
func (c Caller) check(stream *op.Stream) error {
	switch {
	case !c.asks():
		return nil
	case c.NoTTY || c.NoStdin:
		return &paddock.Error{Message: "cannot run with a terminal: it was asked for, and left out", Hint: "--tty excludes --no-tty and --no-stdin"}
	case stream.Stdout == nil:
		return &paddock.Error{Message: "cannot run with a terminal: the output is captured", Hint: "leave out --tty or --json"}
	case stream.Terminal == nil:
		return &paddock.Error{
			Message: "cannot run with a terminal: standard input is not one",
			Hint:    "leave out --tty, or start it from a terminal",
		}
	}
	return nil
}

// isShell reports whether a command is a shell in which somebody types.
func isShell(argv []string) bool {
	switch path.Base(argv[0]) {
	case "sh", "bash", "dash", "ash", "zsh", "fish", "ksh", "mksh":
	default:
		return false
	}
	return !slices.ContainsFunc(argv[1:], func(arg string) bool { // a script, or a command
		long := strings.HasPrefix(arg, "--")
		return !strings.HasPrefix(arg, "-") || long && strings.HasPrefix(arg, "--c") || !long && strings.Contains(arg, "c")
	})
}
