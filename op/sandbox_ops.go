package op

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/paddock-dev/paddock/policy"
)

// SandboxCreateInput asks for a sandbox that stays.
type SandboxCreateInput struct {
	SpecInput
	Name string `json:"name,omitempty" help:"what to call it (default: a random name)" max:"64"`
}

// SandboxNameInput names a sandbox.
type SandboxNameInput struct {
	Sandbox string `json:"sandbox" help:"which sandbox, by its name or id" min:"1" max:"64"`
}

// SandboxSummary is a sandbox, in a few words.
type SandboxSummary struct {
	Name      string `json:"name"` // for the field sandbox of other operations
	ID        string `json:"id"`
	State     string `json:"state"`   // ready or ended
	Default   bool   `json:"default"` // the one that is meant where none is named
	Backend   string `json:"backend"`
	Workspace string `json:"workspace"` // where commands find it
	// Source is the workspace's directory outside; empty for who is bounded by a
	// ceiling.
	Source    string    `json:"source,omitempty"`
	Temporary bool      `json:"temporary"` // the workspace is removed with the sandbox
	Network   string    `json:"network"`
	StartedAt time.Time `json:"started_at"`
	Running   int       `json:"running"` // execs
}

// SandboxCreateOutput is a sandbox that was made.
type SandboxCreateOutput struct {
	SandboxSummary
	Limits    policy.Limits    `json:"limits"`
	Isolation policy.Isolation `json:"isolation"`
}

// SandboxListOutput are the sandboxes of who asks.
type SandboxListOutput struct {
	Sandboxes []SandboxSummary `json:"sandboxes"`
}

func sandboxOps() []Op {
	return []Op{sandboxCreateOp(), sandboxListOp(), sandboxStatusOp(), sandboxDeleteOp()}
}

func sandboxCreateOp() Op {
	return New(Desc{
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
		Hints:   Hints{LongRunning: true},
	}, sandboxCreate, renderSandboxCreate)
}

func sandboxCreate(ctx context.Context, env *Env, in SandboxCreateInput, _ *Stream) (SandboxCreateOutput, error) {
	spec, err := in.spec(ctx, env)
	if err != nil {
		return SandboxCreateOutput{}, err
	}
	if in.Name == defaultName {
		return SandboxCreateOutput{}, &policy.FieldError{Field: "name", Value: in.Name, Reason: "the default sandbox is made at its first use", Hint: "choose another name"}
	}
	p, err := env.Sandboxes.create(env.principal(), in.Name)
	if err != nil {
		return SandboxCreateOutput{}, err
	}
	env.Sandboxes.settle(p, func() (*held, error) { return env.openHeld(ctx, spec, p.key.name) })
	if p.err != nil {
		return SandboxCreateOutput{}, p.err
	}
	p.held.introduced.first() // the answer has it
	return SandboxCreateOutput{SandboxSummary: env.summary(p.held), Limits: p.held.Spec().Limits, Isolation: p.held.Isolation()}, nil
}

// summary is a sandbox in a few words.
func (e *Env) summary(h *held) SandboxSummary {
	spec := h.Spec()
	s := SandboxSummary{Name: h.name, ID: h.ID(), State: "ready", Default: h.name == defaultName, Backend: spec.Backend,
		Workspace: workspaceAt(h.Isolation().Level, spec), Temporary: h.scratch != "", Network: h.Isolation().Network, StartedAt: h.since.UTC()}
	if e.Ceiling == nil {
		s.Source = spec.Workspace.Source
	}
	if h.ended() {
		s.State = "ended"
	}
	for _, x := range h.execs.all() {
		if x.running() {
			s.Running++
		}
	}
	return s
}

func renderSandboxCreate(w io.Writer, out SandboxCreateOutput) error {
	t := teller{w: w}
	t.line("sandbox %s is ready; its workspace is at %s", out.Name, out.Workspace)
	t.line("%s", isolationNote(out.Isolation))
	return t.err
}

func sandboxListOp() Op {
	return New(Desc{
		Name: "sandbox_list", Summary: "List one's own sandboxes",
		Doc: `List the sandboxes that one has: their names, whether they still are, and how many
commands run in them. The default sandbox is among them once it was used.`,
		Lasting: true,
		Hints:   Hints{ReadOnly: true, Idempotent: true},
	}, func(_ context.Context, env *Env, _ struct{}, _ *Stream) (SandboxListOutput, error) {
		if env.Sandboxes == nil {
			return SandboxListOutput{}, errNoSandboxes
		}
		out := SandboxListOutput{Sandboxes: []SandboxSummary{}}
		for _, h := range env.Sandboxes.of(env.principal()) {
			out.Sandboxes = append(out.Sandboxes, env.summary(h))
		}
		return out, nil
	}, func(w io.Writer, out SandboxListOutput) error {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, s := range out.Sandboxes {
			if _, err := fmt.Fprintf(t, "%s\t%s\t%s\t%d running\n", s.Name, s.State, s.Backend, s.Running); err != nil {
				return err
			}
		}
		return t.Flush()
	})
}
