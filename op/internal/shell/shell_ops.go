// Package shell has the operations on shells: interactive programs at a terminal inside,
// which are typed into and read from by cursors.
package shell

import "github.com/paddock-dev/paddock/op"

const shellDoc = `A shell is an interactive bash on a terminal of its own in a sandbox, which
stays from one call to the next: for programs that ask questions, debuggers,
REPLs, and whatever needs a terminal. For one command and its result, exec or
session_run serve better. All that it runs ends with it, and it ends with its
sandbox; a sandbox has 32 at most.`

func Ops() []op.Op {
	return []op.Op{
		op.New(op.Desc{
			Name: "shell_open", Summary: "Open an interactive shell on a terminal",
			Doc: shellDoc + `

The answer has the shell's id, which the other shell_ tools take, what it has
printed so far, and next_cursor for shell_read. A command is typed into it as its first
line. The call returns when the shell has been silent for wait_for_idle_ms
(default: 300), when wait_for was printed, or after timeout.`,
			Lasting: true, Hints: op.Hints{Destructive: true},
		}, shellOpen, renderShell),
		op.New(op.Desc{
			Name: "shell_read", Summary: "Read what a shell has printed",
			Doc: `Read what a shell has printed, from a cursor on: 0 is the beginning, and
next_cursor of each answer is where to go on. Without wait_for_idle_ms and
wait_for it returns at once. The text is plain, as a person would see it, unless
plain is false. "more" says that the limit was reached and there is more to read
now; the last 1 MiB is kept, and dropped_chars says what of the rest was asked for.
It works for a shell that has ended as well, until shell_close.`,
			Lasting: true, Hints: op.Hints{ReadOnly: true, Idempotent: true},
		}, shellRead, renderShell),
		op.New(op.Desc{
			Name: "shell_write", Summary: "Type into a shell, and read what it prints",
			Doc: `Type text into a shell, and press keys. Enter is pressed after a text, unless
there are keys or enter is false. keys are pressed after the text, one after the
other: ctrl-a to ctrl-z, enter, tab, shift-tab, escape, space, backspace, delete,
insert, up, down, left, right, home, end, page-up, page-down, f1 to f12, ctrl-\,
ctrl-] and ctrl-space; ["ctrl-c"] interrupts what runs.

The answer has what was printed since, the echo of what was typed included: the
call waits until the shell has been silent for wait_for_idle_ms (default: 300; 0
does not wait), or with wait_for until that text is printed, at most for timeout.
Something that takes long without printing looks idle: wait for its prompt with
wait_for, or look again with shell_read at next_cursor.`,
			Lasting: true, Hints: op.Hints{Destructive: true},
		}, shellWrite, renderShell),
		op.New(op.Desc{
			Name: "shell_signal", Summary: "Send a signal to what runs in a shell",
			Doc: `Send a signal (INT, TERM, HUP or KILL) to the program in the foreground of a
shell's terminal; where none runs that is the shell itself. The answer has the
shell's state at that moment; shell_read tells what came of it.`,
			Lasting: true, Hints: op.Hints{Frees: true, Destructive: true, Control: true},
		}, shellSignal, renderShellState),
		op.New(op.Desc{
			Name: "shell_resize", Summary: "Change the size of a shell's terminal",
			Doc:     "Change the size of a shell's terminal, in characters. Programs that draw on the whole of it are told, and draw anew.",
			Lasting: true, Hints: op.Hints{Idempotent: true},
		}, shellResize, renderShellState),
		op.New(op.Desc{
			Name: "shell_close", Summary: "Close a shell, and end all that runs in it",
			Doc: `Close a shell. Its processes get HUP, and KILL after 5 seconds; the answer says
how many had to be killed, and whether it is proved that none is left. What it
has printed is gone then, and its id is free.`,
			Lasting: true, Hints: op.Hints{Frees: true, Destructive: true},
		}, shellClose, renderShellClose),
		op.New(op.Desc{
			Name: "shell_list", Summary: "List the shells of a sandbox",
			Doc:     "List the shells that are open in a sandbox, with their state. Those that have ended are listed until shell_close.",
			Lasting: true, Hints: op.Hints{ReadOnly: true, Idempotent: true},
		}, shellList, renderShellList),
	}
}
