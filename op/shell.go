package op

import (
	"cmp"
	"context"
	"errors"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// shellOpen starts a shell, and waits for its prompt. Where its caller gives up,
// nothing of it is left.
func shellOpen(ctx context.Context, env *Env, in ShellOpenInput, _ *Stream) (out ShellOutput, err error) {
	id, err := nameOr("shell_id", in.ShellID, true)
	if err := errors.Join(err, in.Env.check(), checkGiven("cwd", in.Cwd)); err != nil {
		return out, err
	}
	wait, err := in.reading(env, idleDefault)
	if err != nil {
		return out, err
	}
	q := wire.OpenShellRequest{ShellID: id, Cwd: wire.Path(in.Cwd), Rows: int64(orCount(in.Rows, 30)), Cols: int64(orCount(in.Cols, 120))}
	err = env.in(ctx, in.InSandbox, func(ctx context.Context, s *held) error {
		if err := s.unruled("open a shell"); err != nil {
			return err
		}
		if q.Env, err = s.environ(in.Env, in.SecretEnv, map[string]string{"PS1": "$ "}); err != nil {
			return err
		}
		q.Redaction = s.rules()
		if err := s.beginShell(ctx, q); err != nil {
			return refusal("open a shell", err)
		}
		s.endShellAfter(id, env.within(timeLimit{}))
		if out, err = s.firstLook(ctx, id, in.Command, wait); err != nil {
			return errors.Join(err, s.dropShell(ctx, id))
		}
		return nil
	})
	return out, err
}

// beginShell opens it. Whether it is open is known also where the caller gives
// up meanwhile: it must be ended then, and none of its name before.
func (h *held) beginShell(ctx context.Context, q wire.OpenShellRequest) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	_, err := wire.Call(ctx, h.Client(), wire.OpenShell, q)
	return err
}

func orCount(n *uint64, otherwise uint64) uint64 {
	if n == nil {
		return otherwise
	}
	return *n
}

// firstLook waits for what a new shell prints, and types its first line.
func (h *held) firstLook(ctx context.Context, id, command string, wait reading) (ShellOutput, error) {
	if command != "" {
		if err := h.typeIn(ctx, id, typed(command)+"\r"); err != nil {
			return ShellOutput{}, err
		}
	}
	return h.readShell(ctx, id, 0, wait)
}

// dropShell ends a new shell whose caller has no use for it, with all it has
// started, at once.
func (h *held) dropShell(ctx context.Context, id string) error {
	h.forgetShellEnd(id)
	_, _, err := h.killTree(ctx, "shell", id)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	_, closeErr := wire.Call(ctx, h.Client(), wire.CloseShell, wire.ShellRequest{ShellID: id})
	return refusal("end shell "+id, errors.Join(err, closeErr))
}

// typeIn types what a keyboard sends.
func (h *held) typeIn(ctx context.Context, id, sent string) error {
	no := false
	_, err := wire.Call(ctx, h.Client(), wire.WriteShell, wire.WriteShellRequest{ShellID: id, Input: sent, AppendNewline: &no})
	return refusal("type into shell "+id, err)
}

func shellRead(ctx context.Context, env *Env, in ShellReadInput, _ *Stream) (out ShellOutput, err error) {
	if _, err := nameOr("shell_id", in.ShellID, false); err != nil {
		return out, err
	}
	wait, err := in.reading(env, 0)
	if err != nil {
		return out, err
	}
	err = env.in(ctx, in.InSandbox, func(ctx context.Context, s *held) error {
		out, err = s.readShell(ctx, in.ShellID, int64(min(in.Cursor, maxCursor)), wait)
		return err
	})
	return out, err
}

// maxCursor is a place that no shell gets to.
const maxCursor = 1 << 53

func shellWrite(ctx context.Context, env *Env, in ShellWriteInput, _ *Stream) (out ShellOutput, err error) {
	if _, err := nameOr("shell_id", in.ShellID, false); err != nil {
		return out, err
	}
	wait, err := in.reading(env, idleDefault)
	if err != nil {
		return out, err
	}
	sent, err := in.sent()
	if err != nil {
		return out, err
	}
	err = env.in(ctx, in.InSandbox, func(ctx context.Context, s *held) error {
		// Where nothing is said, the answer begins with what follows the typing.
		now, err := wire.Call(ctx, s.Client(), wire.ReadShell, wire.ReadShellRequest{ShellID: in.ShellID, Cursor: maxCursor, MaxChars: 1})
		if err != nil {
			return refusal("type into shell "+in.ShellID, err)
		}
		from := now.NextCursor
		if in.Cursor != nil {
			from = int64(min(*in.Cursor, maxCursor))
		}
		if err := s.typeIn(ctx, in.ShellID, sent); err != nil {
			return err
		}
		out, err = s.readShell(ctx, in.ShellID, from, wait)
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

func shellSignal(ctx context.Context, env *Env, in ShellSignalInput, _ *Stream) (out ShellState, err error) {
	_, nameErr := nameOr("shell_id", in.ShellID, false)
	if err := errors.Join(nameErr, oneOf("signal", in.Signal, "HUP", "INT", "TERM", "KILL")); err != nil {
		return out, err
	}
	name := cmp.Or(in.Signal, "INT")
	err = env.in(ctx, in.InSandbox, func(ctx context.Context, s *held) error {
		r, err := wire.Call(ctx, s.Client(), wire.SignalShell, wire.SignalShellRequest{ShellID: in.ShellID, Signal: name})
		if err != nil {
			return refusal("signal shell "+in.ShellID, err)
		}
		out = s.shellState(r.Shell)
		return nil
	})
	return out, err
}

func shellResize(ctx context.Context, env *Env, in ShellResizeInput, _ *Stream) (out ShellState, err error) {
	_, nameErr := nameOr("shell_id", in.ShellID, false)
	if err := errors.Join(nameErr, atLeastOne("rows", in.Rows), atLeastOne("cols", in.Cols)); err != nil {
		return out, err
	}
	err = env.in(ctx, in.InSandbox, func(ctx context.Context, s *held) error {
		r, err := wire.Call(ctx, s.Client(), wire.ResizeShell, wire.ResizeShellRequest{ShellID: in.ShellID, Rows: int64(in.Rows), Cols: int64(in.Cols)})
		if err != nil {
			return refusal("resize shell "+in.ShellID, err)
		}
		out = s.shellState(r)
		return nil
	})
	return out, err
}

func shellClose(ctx context.Context, env *Env, in ShellInput, _ *Stream) (out ShellCloseOutput, err error) {
	if _, err := nameOr("shell_id", in.ShellID, false); err != nil {
		return out, err
	}
	err = env.in(ctx, in.InSandbox, func(ctx context.Context, s *held) error {
		ended := s.shellEndedBy(in.ShellID)
		s.forgetShellEnd(in.ShellID)
		r, err := wire.Call(ctx, s.Client(), wire.CloseShell, wire.ShellRequest{ShellID: in.ShellID})
		if err != nil && ctx.Err() != nil {
			// It is being closed; what takes its time is not waited for.
			_, _, killErr := s.killTree(ctx, "shell", in.ShellID)
			err = errors.Join(err, killErr)
		}
		if err != nil {
			return refusal("close shell "+in.ShellID, err)
		}
		out = ShellCloseOutput{ShellState: newShellState(r.Shell), Closed: r.Closed, SurvivorsKilled: r.Killed, DeathProved: r.DeathProved}
		out.EndedBy = ended
		return nil
	})
	return out, err
}

func shellList(ctx context.Context, env *Env, in InSandbox, _ *Stream) (out ShellListOutput, err error) {
	err = env.in(ctx, in, func(ctx context.Context, s *held) error {
		r, err := wire.Call(ctx, s.Client(), wire.ListShells, wire.ListShellsRequest{})
		if err != nil {
			return refusal("list the shells", err)
		}
		out.Shells = []ShellState{}
		for _, one := range r.Shells {
			out.Shells = append(out.Shells, s.shellState(one))
		}
		return nil
	})
	return out, err
}
