package sandbox

import (
	"context"
	"io"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

// SandboxCreateInput asks for a sandbox that stays.
type SandboxCreateInput struct {
	op.SpecInput
	Name string `json:"name,omitempty" help:"what to call it (default: a random name)" max:"64"`
}

// SandboxCreateOutput is a sandbox that was made.
type SandboxCreateOutput struct {
	SandboxSummary
	Limits    policy.Limits    `json:"limits"`
	Isolation policy.Isolation `json:"isolation"`
}

// Desc describes the operation sandbox_create.
func (SandboxCreateInput) Desc() op.Desc {
	return op.Desc{
		Name: "sandbox_create", Summary: "Make a sandbox that stays",
		Doc: `Make a sandbox: a workspace behind walls, in which commands, shells, services and
sessions run until it is deleted or the server ends. Its name then goes into the
field sandbox of other operations; without that field they use the default
sandbox, which needs no creating. Without a workspace it has the default
sandbox's, if there is one, and else an empty one, which is removed with it.

The fields say what it may do, below what the operator allows: limits, network,
mounts. The answer says what really holds, and in isolation.lost what does not.
A principal has 16 sandboxes at most.`,
		Lasting: true,
		Hints:   op.Hints{LongRunning: true},
	}
}

// Do runs the operation.
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
	p.Sandbox.Introduced.First() // the answer has it
	return SandboxCreateOutput{SandboxSummary: summary(env, p.Sandbox), Limits: p.Sandbox.Spec().Limits, Isolation: p.Sandbox.Isolation()}, nil
}

// Render writes the output for people.
func (out SandboxCreateOutput) Render(w io.Writer) error {
	t := output.Teller{W: w}
	t.Line("sandbox %s is ready; its workspace is at %s", out.Name, out.Workspace)
	t.Line("%s", op.IsolationNote(out.Isolation))
	return t.Err
}
