package op

import (
	"context"
	"fmt"
	"io"
)

// SandboxDeleteOutput is a sandbox that has ended.
type SandboxDeleteOutput struct {
	Sandbox string `json:"sandbox"`
	// DeathProved says that the kernel has confirmed that nothing is left.
	DeathProved bool `json:"death_proved"`
	Left
	// Note says what becomes of the default sandbox.
	Note string `json:"note,omitempty"`
}

func sandboxDeleteOp() Op {
	return New(Desc{
		Name: "sandbox_delete", Summary: "End a sandbox with all that runs in it",
		Doc: `End a sandbox: every command, shell, service and session in it is ended, and the
answer says whether it is proved that none is left. Its /tmp and its outputs are
gone; its workspace stays, unless it was a temporary one. The default sandbox can
be ended, too: it is made anew when it is used next.`,
		Lasting: true,
		Hints:   Hints{Frees: true, Destructive: true},
	}, sandboxDelete, func(w io.Writer, out SandboxDeleteOutput) error {
		t := teller{w: w}
		t.line("sandbox %s has ended; %s", out.Sandbox, map[bool]string{true: "nothing of it is left", false: "it is not proved that nothing of it is left"}[out.DeathProved])
		if out.note != "" {
			t.line("%s", out.note)
		}
		if out.Note != "" {
			t.line("%s", out.Note)
		}
		return t.err
	})
}

func sandboxDelete(ctx context.Context, env *Env, in SandboxNameInput, _ *Stream) (SandboxDeleteOutput, error) {
	p, err := env.Sandboxes.at(env.principal(), in.Sandbox)
	if err != nil {
		return SandboxDeleteOutput{}, err
	}
	select {
	case <-p.ready:
	case <-ctx.Done():
		return SandboxDeleteOutput{}, fmt.Errorf("cannot wait for sandbox %s: %w", in.Sandbox, ctx.Err())
	}
	if p.held == nil || !env.Sandboxes.take(p) {
		return SandboxDeleteOutput{}, noSandbox(in.Sandbox)
	}
	env.concerns(p.held.ID())
	env.Sessions.leaveAll(p.held)
	out := SandboxDeleteOutput{Sandbox: p.held.name, DeathProved: true}
	if err := p.held.close(); err != nil {
		out.DeathProved = false
		return out, err
	}
	out.Left = newLeft(p.held.Sandbox)
	if p.held.name == defaultName {
		out.Note = "the default sandbox is made anew when it is used next"
	}
	return out, nil
}
