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
		q.Redaction = s.Rules()
		if err := beginShell(s, ctx, q); err != nil {
			return registry.Refusal("open a shell", err)
		}
		s.EndShellAfter(id, env.BoundTime(registry.TimeLimit{}))
		if out, err = firstLook(s, ctx, id, in.Command, wait); err != nil {
			return errors.Join(err, dropShell(s, ctx, id))
		}
		return nil
	})
	return out, err
}

// beginShell opens it. Whether it is open is known also where the caller gives
// up meanwhile: it must be ended then, and none of its name before.
func beginShell(h *registry.Sandbox, ctx context.Context, q wire.OpenShellRequest) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registry.EndTime)
	defer cancel()
	_, err := wire.Call(ctx, h.Client(), wire.OpenShell, q)
	return err
}

// firstLook waits for what a new shell prints, and types its first line.
func firstLook(h *registry.Sandbox, ctx context.Context, id, command string, wait reading) (ShellOutput, error) {
	if command != "" {
		if err := typeIn(h, ctx, id, typed(command)+"\r"); err != nil {
			return ShellOutput{}, err
		}
	}
	return readShell(h, ctx, id, 0, wait)
}

// dropShell ends a new shell whose caller has no use for it, with all it has
// started, at once.
func dropShell(h *registry.Sandbox, ctx context.Context, id string) error {
	h.ForgetShellEnd(id)
	_, _, err := h.KillTree(ctx, "shell", id)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registry.EndTime)
	defer cancel()
	_, closeErr := wire.Call(ctx, h.Client(), wire.CloseShell, wire.ShellRequest{ShellID: id})
	return registry.Refusal("end shell "+id, errors.Join(err, closeErr))
}

// typeIn types what a keyboard sends.
func typeIn(h *registry.Sandbox, ctx context.Context, id, sent string) error {
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
		out, err = readShell(s, ctx, in.ShellID, int64(min(in.Cursor, maxCursor)), wait)
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
		if err := typeIn(s, ctx, in.ShellID, sent); err != nil {
			return err
		}
		out, err = readShell(s, ctx, in.ShellID, from, wait)
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
