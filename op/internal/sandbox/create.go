package sandbox

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/keep"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

type SandboxCreateInput struct {
	op.SpecInput
	Name   string           `json:"name,omitempty" help:"the sandbox's name (default: a random one)" max:"64"`
	Idle   *policy.Duration `json:"idle,omitempty" help:"end it once nothing was done in it for this long (default: 1h)"`
	Life   *policy.Duration `json:"lifetime,omitempty" help:"end it once it has run for this long (default: as long as the operator allows, 168h if nothing says more)"`
	Labels []string         `json:"labels,omitempty" help:"labels NAME=VALUE, for the operator's lists" max:"64"`
}

type SandboxCreateOutput struct {
	SandboxSummary
	// Idle and Lifetime are the times after which it ends. An overlay's changes stay then; else it
	// is removed.
	Idle      policy.Duration  `json:"idle,omitempty"`
	Lifetime  policy.Duration  `json:"lifetime,omitempty"`
	Limits    policy.Limits    `json:"limits"`
	Isolation policy.Isolation `json:"isolation"`
}

func (SandboxCreateInput) Desc() op.Desc {
	return op.Desc{
		Name: "sandbox_create", Summary: "Create a persistent sandbox",
		Doc: `Create a sandbox: a workspace behind walls, in which commands, shells, services and
sessions run until it is deleted. Give its name in the field sandbox of other
operations; without that field they use the default sandbox, which need not be
created. Without a workspace the sandbox has the default sandbox's, if there is one,
or else an empty one, which is removed with it.

It outlives the server: when you connect again, it is there, with what runs in it. It
is removed once nothing was done in it for an hour (idle), or when its lifetime is up.
A sandbox of another backend than linux, or with published ports, ends with the
server; the answer says which holds.

The fields say what it may do, within what the operator allows: limits, network,
mounts. The answer says what is really enforced, and in isolation.lost what is not.
A principal can have 16 sandboxes.`,
		Lasting: true,
		Hints:   op.Hints{LongRunning: true},
	}
}

func (in SandboxCreateInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out SandboxCreateOutput, err error) {
	spec, err := in.Spec(ctx, env)
	if err != nil {
		return out, err
	}
	if in.Name == registry.DefaultName {
		return out, &policy.FieldError{Field: "name", Value: in.Name, Reason: "the default sandbox is made at its first use", Hint: "choose another name"}
	}
	keeps := env.Keeps(spec)
	what, err := in.lasting(env, keeps)
	if err != nil {
		return out, err
	}
	p, err := env.Sandboxes.Create(env.PrincipalName(), in.Name, keeps)
	if err != nil {
		return out, err
	}
	var made *registry.Sandbox
	env.Sandboxes.Settle(p, func() (*registry.Sandbox, error) {
		if !keeps {
			return env.OpenLasting(ctx, spec, p.Key.Name)
		}
		what.Name = p.Key.Name
		made, err = env.CreateKept(ctx, spec, what)
		return made, err
	})
	if p.Err != nil {
		if made != nil { // the server is ending: nobody is told of it
			_, err := env.DeleteKept(context.WithoutCancel(ctx), paddock.Listed{ID: made.ID()})
			return out, errors.Join(p.Err, err)
		}
		return out, p.Err
	}
	p.Sandbox.Introduced.First() // the output has the isolation
	return SandboxCreateOutput{SandboxSummary: summary(env, p.Sandbox), Idle: policy.Duration(what.Idle), Lifetime: policy.Duration(what.Life),
		Limits: p.Sandbox.Spec().Limits, Isolation: p.Sandbox.Isolation()}, nil
}

// lasting returns how long the sandbox lasts. keeps says that it can outlive the server.
func (in SandboxCreateInput) lasting(env *op.Env, keeps bool) (what paddock.Lasting, err error) {
	if !keeps {
		var field string
		switch {
		case in.Idle != nil:
			field = "idle"
		case in.Life != nil:
			field = "lifetime"
		case len(in.Labels) > 0:
			field = "labels"
		default:
			return what, nil
		}
		return what, &policy.FieldError{Field: field, Reason: "this sandbox ends with the server: its backend is another than linux, or it publishes ports", Hint: "leave it out"}
	}
	what.Remove = true
	if err := keep.SetTimes(&what, in.Idle, in.Life); err != nil {
		return what, err
	}
	idle, life, err := env.Ceiling.Lasts(policy.Duration(what.Idle), policy.Duration(what.Life))
	if err != nil {
		return what, err
	}
	what.Idle, what.Life = time.Duration(idle), time.Duration(life)
	what.Labels, err = keep.Labels(in.Labels)
	return what, err
}

func (out SandboxCreateOutput) Render(w io.Writer) error {
	t := output.Teller{W: w}
	t.Line("sandbox %s is ready; its workspace is at %s", out.Name, out.Workspace)
	switch {
	case !out.Lasting:
		t.Line("it ends with the server")
	case out.Lifetime > 0:
		t.Line("it outlives the server, and ends after %s without use or %s in all, or by sandbox_delete", out.Idle, out.Lifetime)
	default:
		t.Line("it outlives the server, and ends after %s without use, or by sandbox_delete", out.Idle)
	}
	t.Line("%s", op.IsolationNote(out.Isolation))
	return t.Err
}
