package shell

import (
	"context"
	"errors"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

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

// Desc describes the operation shell_open.
func (ShellOpenInput) Desc() op.Desc {
	return op.Desc{
		Name: "shell_open", Summary: "Open an interactive shell on a terminal",
		Doc: shellDoc + `

The answer has the shell's id, which the other shell_ tools take, what it has
printed so far, and next_cursor for shell_read. A command is typed into it as its first
line. The call returns when the shell has been silent for wait_for_idle_ms
(default: 300), when wait_for was printed, or after timeout.`,
		Lasting: true, Hints: op.Hints{Destructive: true},
	}
}

// Do starts a shell, and waits for its prompt. Where its caller gives up,
// nothing of it is left.
func (in ShellOpenInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ShellOutput, err error) {
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
