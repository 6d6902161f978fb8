package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
)

type SandboxDeleteInput struct {
	Sandbox string `json:"sandbox" help:"which sandbox, by its name or id" min:"1" max:"64"`
}

type SandboxDeleteOutput struct {
	Sandbox string `json:"sandbox"`
	// DeathProved reports that the kernel has confirmed that nothing is left.
	DeathProved bool `json:"death_proved"`
	op.Left
	// Note says what happens to the default sandbox.
	Note string `json:"note,omitempty"`
}

func (SandboxDeleteInput) Desc() op.Desc {
	return op.Desc{
		Name: "sandbox_delete", Summary: "End a sandbox with everything that runs in it",
		Doc: `End a sandbox: every command, shell, service and session in it is ended, and the
answer says whether it is proved that none is left. Its /tmp and its outputs are
deleted; its workspace stays, unless it was a temporary one. Changes in an overlay are
deleted, too, and counted. The default sandbox can be ended too: it is created again at
its next use.`,
		Lasting: true,
		Hints:   op.Hints{Frees: true, Destructive: true},
	}
}

func (in SandboxDeleteInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (SandboxDeleteOutput, error) {
	p, err := env.Sandboxes.At(env.PrincipalName(), in.Sandbox)
	if errors.Is(err, paddock.ErrNotFound) { // it may be one that this server has not used yet
		return deleteKept(ctx, env, in.Sandbox)
	}
	if err != nil {
		return SandboxDeleteOutput{}, err
	}
	select {
	case <-p.Ready:
	case <-ctx.Done():
		return SandboxDeleteOutput{}, fmt.Errorf("cannot wait for sandbox %s: %w", in.Sandbox, ctx.Err())
	}
	if p.Sandbox == nil || !env.Sandboxes.Take(p) {
		return SandboxDeleteOutput{}, registry.ErrNoSandbox(in.Sandbox)
	}
	env.Sessions.LeaveAll(p.Sandbox)
	if p.Sandbox.Kept {
		_ = p.Sandbox.Close() // it only detaches
		return deleteKept(ctx, env, p.Sandbox.Name)
	}
	env.RecordSandbox(p.Sandbox.ID())
	out := SandboxDeleteOutput{Sandbox: p.Sandbox.Name, DeathProved: true}
	if err := p.Sandbox.Close(); err != nil {
		out.DeathProved = false
		return out, err
	}
	out.Left = op.NewLeft(p.Sandbox.Sandbox, "")
	if p.Sandbox.Name == registry.DefaultName {
		out.Note = "the default sandbox is created again at its next use"
	}
	return out, nil
}

// deleteKept ends and removes a sandbox that outlives the server.
func deleteKept(ctx context.Context, env *op.Env, name string) (SandboxDeleteOutput, error) {
	k, err := env.FindKept(ctx, name)
	if err != nil {
		return SandboxDeleteOutput{}, err
	}
	env.RecordSandbox(k.ID)
	out := SandboxDeleteOutput{Sandbox: k.Name}
	ended, err := env.DeleteKept(ctx, k)
	if errors.Is(err, paddock.ErrNotFound) { // another server has deleted it meanwhile, or its time was up
		return SandboxDeleteOutput{}, registry.ErrNoSandbox(name)
	}
	if err != nil {
		return out, err
	}
	out.DeathProved = true
	var left paddock.Changes
	if ended.End != nil {
		out.DeathProved, left = ended.End.Proved, ended.End.Changes
	}
	left.Discarded = ended.Discarded
	out.Left = op.LeftOf(left)
	return out, nil
}

func (out SandboxDeleteOutput) Render(w io.Writer) error {
	t := output.Teller{W: w}
	t.Line("sandbox %s has ended; %s", out.Sandbox, map[bool]string{true: "all its processes are gone", false: "it is not proved that all its processes are gone"}[out.DeathProved])
	if note := out.Left.Note(); note != "" {
		t.Line("%s", note)
	}
	if out.Note != "" {
		t.Line("%s", out.Note)
	}
	return t.Err
}
