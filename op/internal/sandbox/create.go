package sandbox

import (
	"context"
	"io"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

type SandboxCreateInput struct {
	op.SpecInput
	Name string `json:"name,omitempty" help:"the sandbox's name (default: a random one)" max:"64"`
}

type SandboxCreateOutput struct {
	SandboxSummary
	Limits    policy.Limits    `json:"limits"`
	Isolation policy.Isolation `json:"isolation"`
}

func (SandboxCreateInput) Desc() op.Desc {
	return op.Desc{
		Name: "sandbox_create", Summary: "Create a sandbox that stays",
		Doc: `Create a sandbox: a workspace behind walls, in which commands, shells, services and
sessions run until it is deleted or the server ends. Give its name in the field
sandbox of other operations; without that field they use the default sandbox, which
need not be created. Without a workspace the sandbox has the default sandbox's, if
there is one, or else an empty one, which is removed with it.

The fields say what it may do, within what the operator allows: limits, network,
mounts. The answer says what is really enforced, and in isolation.lost what is not.
A principal can have 16 sandboxes.`,
		Lasting: true,
		Hints:   op.Hints{LongRunning: true},
	}
}

func (in SandboxCreateInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (SandboxCreateOutput, error) {
	spec, err := in.Spec(ctx, env)
	if err != nil {
		return SandboxCreateOutput{}, err
	}
	if in.Name == registry.DefaultName {
		return SandboxCreateOutput{}, &policy.FieldError{Field: "name", Value: in.Name, Reason: "the default sandbox is made at its first use", Hint: "choose another name"}
	}
	p, err := env.Sandboxes.Create(env.PrincipalName(), in.Name)
	if err != nil {
		return SandboxCreateOutput{}, err
	}
	env.Sandboxes.Settle(p, func() (*registry.Sandbox, error) { return env.OpenLasting(ctx, spec, p.Key.Name) })
	if p.Err != nil {
		return SandboxCreateOutput{}, p.Err
	}
	p.Sandbox.Introduced.First() // the output has the isolation
	return SandboxCreateOutput{SandboxSummary: summary(env, p.Sandbox), Limits: p.Sandbox.Spec().Limits, Isolation: p.Sandbox.Isolation()}, nil
}

func (out SandboxCreateOutput) Render(w io.Writer) error {
	t := output.Teller{W: w}
	t.Line("sandbox %s is ready; its workspace is at %s", out.Name, out.Workspace)
	t.Line("%s", op.IsolationNote(out.Isolation))
	return t.Err
}
