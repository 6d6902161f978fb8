// Package shell has the operations on shells: interactive programs at a terminal inside,
// which are typed into and read from by cursors.
package shell

import (
	"cmp"
	"context"
	"errors"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

const shellDoc = `A shell is an interactive bash on a terminal of its own in a sandbox, which
stays from one call to the next: for programs that ask questions, debuggers,
REPLs, and whatever needs a terminal. For one command and its result, exec or
session_run serve better. All that it runs ends with it, and it ends with its
sandbox; a sandbox has 32 at most.`

// Ops returns the operations on shells.
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

// shellOpen starts a shell, and waits for its prompt. Where its caller gives up,
// nothing of it is left.
func shellOpen(ctx context.Context, env *op.Env, in ShellOpenInput, _ *op.Stream) (out ShellOutput, err error) {
	id, err := op.NameOr("shell_id", in.ShellID, true)
	if err := errors.Join(err, in.Env.Check(), op.CheckGiven("cwd", in.Cwd)); err != nil {
		return out, err
	}
	wait, err := in.reading(env, op.IdleDefault)
	if err != nil {
		return out, err
	}
	q := wire.OpenShellRequest{ShellID: id, Cwd: wire.Path(in.Cwd), Rows: int64(op.OrCount(in.Rows, 30)), Cols: int64(op.OrCount(in.Cols, 120))}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		if err := s.Unruled("open a shell"); err != nil {
			return err
		}
		if q.Env, err = s.Environ(in.Env, in.SecretEnv, map[string]string{"PS1": "$ "}); err != nil {
			return err
		}
		if err := beginShell(ctx, s, q); err != nil {
			return registry.Refusal("open a shell", err)
		}
		s.EndShellAfter(id, env.BoundTime(registry.TimeLimit{}))
		if out, err = firstLook(ctx, s, id, in.Command, wait); err != nil {
			return errors.Join(err, dropShell(ctx, s, id))
		}
		return nil
	})
	return out, err
}

// beginShell opens it. Whether it is open is known also where the caller gives
// up meanwhile: it must be ended then, and none of its name before.
func beginShell(ctx context.Context, h *registry.Sandbox, q wire.OpenShellRequest) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registry.EndTime)
	defer cancel()
	_, err := wire.Call(ctx, h.Client(), wire.OpenShell, q)
	return err
}

// firstLook waits for what a new shell prints, and types its first line.
func firstLook(ctx context.Context, h *registry.Sandbox, id, command string, wait reading) (ShellOutput, error) {
	if command != "" {
		if err := typeIn(ctx, h, id, typed(command)+"\r"); err != nil {
			return ShellOutput{}, err
		}
	}
	return readShell(ctx, h, id, 0, wait)
}

// dropShell ends a new shell whose caller has no use for it, with all it has
// started, at once.
func dropShell(ctx context.Context, h *registry.Sandbox, id string) error {
	h.ForgetShellEnd(id)
	_, _, err := h.KillTree(ctx, "shell", id)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registry.EndTime)
	defer cancel()
	_, closeErr := wire.Call(ctx, h.Client(), wire.CloseShell, wire.ShellRequest{ShellID: id})
	return registry.Refusal("end shell "+id, errors.Join(err, closeErr))
}

// typeIn types what a keyboard sends.
func typeIn(ctx context.Context, h *registry.Sandbox, id, sent string) error {
	no := false
	_, err := wire.Call(ctx, h.Client(), wire.WriteShell, wire.WriteShellRequest{ShellID: id, Input: sent, AppendNewline: &no})
	return registry.Refusal("type into shell "+id, err)
}

func shellRead(ctx context.Context, env *op.Env, in ShellReadInput, _ *op.Stream) (out ShellOutput, err error) {
	if _, err := op.NameOr("shell_id", in.ShellID, false); err != nil {
		return out, err
	}
	wait, err := in.reading(env, 0)
	if err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		out, err = readShell(ctx, s, in.ShellID, int64(min(in.Cursor, maxCursor)), wait)
		return err
	})
	return out, err
}

// maxCursor is a place that no shell gets to.
const maxCursor = 1 << 53

func shellWrite(ctx context.Context, env *op.Env, in ShellWriteInput, _ *op.Stream) (out ShellOutput, err error) {
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
		// Where nothing is said, the answer begins with what follows the typing.
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

// sent is what the keyboard sends.
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

func shellSignal(ctx context.Context, env *op.Env, in ShellSignalInput, _ *op.Stream) (out ShellState, err error) {
	_, nameErr := op.NameOr("shell_id", in.ShellID, false)
	if err := errors.Join(nameErr, op.OneOf("signal", in.Signal, "HUP", "INT", "TERM", "KILL")); err != nil {
		return out, err
	}
	name := cmp.Or(in.Signal, "INT")
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.SignalShell, wire.SignalShellRequest{ShellID: in.ShellID, Signal: name})
		if err != nil {
			return registry.Refusal("signal shell "+in.ShellID, err)
		}
		out = shellState(s, r.Shell)
		return nil
	})
	return out, err
}

func shellResize(ctx context.Context, env *op.Env, in ShellResizeInput, _ *op.Stream) (out ShellState, err error) {
	_, nameErr := op.NameOr("shell_id", in.ShellID, false)
	if err := errors.Join(nameErr, op.AtLeastOne("rows", in.Rows), op.AtLeastOne("cols", in.Cols)); err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.ResizeShell, wire.ResizeShellRequest{ShellID: in.ShellID, Rows: int64(in.Rows), Cols: int64(in.Cols)})
		if err != nil {
			return registry.Refusal("resize shell "+in.ShellID, err)
		}
		out = shellState(s, r)
		return nil
	})
	return out, err
}

func shellClose(ctx context.Context, env *op.Env, in ShellInput, _ *op.Stream) (out ShellCloseOutput, err error) {
	if _, err := op.NameOr("shell_id", in.ShellID, false); err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		ended := s.ShellEndedBy(in.ShellID)
		s.ForgetShellEnd(in.ShellID)
		r, err := wire.Call(ctx, s.Client(), wire.CloseShell, wire.ShellRequest{ShellID: in.ShellID})
		if err != nil && ctx.Err() != nil {
			// It is being closed; what takes its time is not waited for.
			_, _, killErr := s.KillTree(ctx, "shell", in.ShellID)
			err = errors.Join(err, killErr)
		}
		if err != nil {
			return registry.Refusal("close shell "+in.ShellID, err)
		}
		out = ShellCloseOutput{ShellState: newShellState(r.Shell), Closed: r.Closed, SurvivorsKilled: r.Killed, DeathProved: r.DeathProved}
		out.EndedBy = ended
		return nil
	})
	return out, err
}

func shellList(ctx context.Context, env *op.Env, in op.InSandbox, _ *op.Stream) (out ShellListOutput, err error) {
	err = env.WithSandbox(ctx, in, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.ListShells, wire.ListShellsRequest{})
		if err != nil {
			return registry.Refusal("list the shells", err)
		}
		out.Shells = []ShellState{}
		for _, one := range r.Shells {
			out.Shells = append(out.Shells, shellState(s, one))
		}
		return nil
	})
	return out, err
}
