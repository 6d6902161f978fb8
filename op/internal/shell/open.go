package shell

import (
	"context"
	"errors"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

type ShellOpenInput struct {
	op.InSandbox
	ShellWait
	ShellID   string          `json:"shell_id,omitempty" help:"a name for the shell (default: a random one)" max:"64"`
	Command   osstring.String `json:"command,omitempty" help:"the first line to type; \"exec python3\" replaces the shell by python3" max:"65536"`
	Cwd       osstring.String `json:"cwd,omitempty" help:"its first directory, in the workspace (default: the workspace)" max:"4096"`
	Env       op.Variables    `json:"env,omitempty" help:"environment variables to add" secret:"env"`
	SecretEnv []string        `json:"secret_env,omitempty" help:"names of secrets (secret_set) to pass as environment variables" max:"64"`
	Rows      *uint64         `json:"rows,omitempty" help:"lines of the terminal (default: 30)" min:"1" max:"1000"`
	Cols      *uint64         `json:"cols,omitempty" help:"columns of the terminal (default: 120)" min:"1" max:"1000"`
}

func (ShellOpenInput) Desc() op.Desc {
	return op.Desc{
		Name: "shell_open", Summary: "Open an interactive shell on a terminal",
		Doc: shellDoc + `

The answer has the shell's id, which the other shell_ tools need, the output so far,
and next_cursor for shell_read. command is typed as the first line. The call returns
when the shell has been silent for wait_for_idle_ms (default: 300), when wait_for was
printed, or after timeout.`,
		Lasting: true, Hints: op.Hints{Destructive: true},
	}
}

// Do opens a shell, and waits for its prompt. If the call is cancelled, nothing of the shell
// is left.
func (in ShellOpenInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ShellOutput, err error) {
	id, err := op.NameOr("shell_id", in.ShellID, true)
	if err := errors.Join(err, in.Env.Check(), op.CheckGiven("cwd", in.Cwd)); err != nil {
		return out, err
	}
	wait, err := in.reading(env, op.IdleDefault)
	if err != nil {
		return out, err
	}
	q := wire.OpenShellRequest{ShellID: id, Cwd: in.Cwd, Rows: int64(op.CountOr(in.Rows, 30)), Cols: int64(op.CountOr(in.Cols, 120)),
		Env: registry.Environ(in.Env, map[string]string{"PS1": "$ "}), SecretEnv: in.SecretEnv}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		if err := s.Unruled("open a shell"); err != nil {
			return err
		}
		if err := s.CheckSecrets(ctx, in.SecretEnv); err != nil {
			return err
		}
		if err := beginShell(ctx, s, q); err != nil {
			return registry.Refusal("open a shell", err)
		}
		s.EndShellAfter(id, env.BoundTime(registry.TimeLimit{}))
		if in.Command != "" {
			err = typeIn(ctx, s, id, typed(string(in.Command))+"\r")
		}
		if err == nil {
			out, err = readShell(ctx, s, id, 0, wait)
		}
		if err != nil {
			return errors.Join(err, dropShell(ctx, s, id))
		}
		return nil
	})
	return out, err
}

// beginShell opens the shell. It ignores cancellation meanwhile, because the caller must know
// whether the shell was opened: only then may it end the shell, and not another one of the same
// name.
func beginShell(ctx context.Context, h *registry.Sandbox, q wire.OpenShellRequest) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registry.EndTime)
	defer cancel()
	_, err := wire.Call(ctx, h.Client(), wire.OpenShell, q)
	return err
}

// dropShell ends a new shell after its call has failed, with everything it has started.
func dropShell(ctx context.Context, h *registry.Sandbox, id string) error {
	h.ForgetShellEnd(id)
	_, _, err := h.KillTree(ctx, "shell", id)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registry.EndTime)
	defer cancel()
	_, closeErr := wire.Call(ctx, h.Client(), wire.CloseShell, wire.ShellRequest{ShellID: id})
	return registry.Refusal("end shell "+id, errors.Join(err, closeErr))
}
