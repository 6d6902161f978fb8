// Package sandbox has the operations on sandboxes themselves: creating, listing and
// ending them, their status and secrets, what a spec would become (plan), what this host
// can do (doctor), and what is left of a sandbox's changes to git (git_accept).
package sandbox

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

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

// SandboxListInput has no fields.
type SandboxListInput struct{}

// SandboxDeleteInput names the sandbox to end.
type SandboxDeleteInput struct {
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

// summary is a sandbox in a few words.
func summary(e *op.Env, h *registry.Sandbox) SandboxSummary {
	spec := h.Spec()
	s := SandboxSummary{Name: h.Name, ID: h.ID(), State: "ready", Default: h.Name == registry.DefaultName, Backend: spec.Backend,
		Workspace: registry.WorkspaceAt(h.Isolation().Level, spec), Temporary: h.Scratch != "", Network: h.Isolation().Network, StartedAt: h.Since.UTC()}
	if e.Ceiling == nil {
		s.Source = spec.Workspace.Source
	}
	if h.Ended() {
		s.State = "ended"
	}
	for _, x := range h.Execs.All() {
		if x.Running() {
			s.Running++
		}
	}
	return s
}

// Render writes the output for people.
func (out SandboxCreateOutput) Render(w io.Writer) error {
	t := output.Teller{W: w}
	t.Line("sandbox %s is ready; its workspace is at %s", out.Name, out.Workspace)
	t.Line("%s", op.IsolationNote(out.Isolation))
	return t.Err
}

// Desc describes the operation sandbox_list.
func (SandboxListInput) Desc() op.Desc {
	return op.Desc{
		Name: "sandbox_list", Summary: "List one's own sandboxes",
		Doc: `List the sandboxes that one has: their names, whether they still are, and how many
commands run in them. The default sandbox is among them once it was used.`,
		Lasting: true,
		Hints:   op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Do runs the operation.
func (SandboxListInput) Do(_ context.Context, env *op.Env, _ *op.Stream) (SandboxListOutput, error) {
	if env.Sandboxes == nil {
		return SandboxListOutput{}, registry.ErrNoSandboxes
	}
	out := SandboxListOutput{Sandboxes: []SandboxSummary{}}
	for _, h := range env.Sandboxes.Of(env.PrincipalName()) {
		out.Sandboxes = append(out.Sandboxes, summary(env, h))
	}
	return out, nil
}

// Render writes the output for people.
func (out SandboxListOutput) Render(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range out.Sandboxes {
		if _, err := fmt.Fprintf(t, "%s\t%s\t%s\t%d running\n", s.Name, s.State, s.Backend, s.Running); err != nil {
			return err
		}
	}
	return t.Flush()
}

// SandboxDeleteOutput is a sandbox that has ended.
type SandboxDeleteOutput struct {
	Sandbox string `json:"sandbox"`
	// DeathProved says that the kernel has confirmed that nothing is left.
	DeathProved bool `json:"death_proved"`
	op.Left
	// Note says what becomes of the default sandbox.
	Note string `json:"note,omitempty"`
}

// Desc describes the operation sandbox_delete.
func (SandboxDeleteInput) Desc() op.Desc {
	return op.Desc{
		Name: "sandbox_delete", Summary: "End a sandbox with all that runs in it",
		Doc: `End a sandbox: every command, shell, service and session in it is ended, and the
answer says whether it is proved that none is left. Its /tmp and its outputs are
gone; its workspace stays, unless it was a temporary one. The default sandbox can
be ended, too: it is made anew when it is used next.`,
		Lasting: true,
		Hints:   op.Hints{Frees: true, Destructive: true},
	}
}

// Render writes the output for people.
func (out SandboxDeleteOutput) Render(w io.Writer) error {
	t := output.Teller{W: w}
	t.Line("sandbox %s has ended; %s", out.Sandbox, map[bool]string{true: "nothing of it is left", false: "it is not proved that nothing of it is left"}[out.DeathProved])
	if note := out.Left.Note(); note != "" {
		t.Line("%s", note)
	}
	if out.Note != "" {
		t.Line("%s", out.Note)
	}
	return t.Err
}

// Do runs the operation.
func (in SandboxDeleteInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (SandboxDeleteOutput, error) {
	p, err := env.Sandboxes.At(env.PrincipalName(), in.Sandbox)
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
	env.Concerns(p.Sandbox.ID())
	env.Sessions.LeaveAll(p.Sandbox)
	out := SandboxDeleteOutput{Sandbox: p.Sandbox.Name, DeathProved: true}
	if err := p.Sandbox.Close(); err != nil {
		out.DeathProved = false
		return out, err
	}
	out.Left = op.NewLeft(p.Sandbox.Sandbox)
	if p.Sandbox.Name == registry.DefaultName {
		out.Note = "the default sandbox is made anew when it is used next"
	}
	return out, nil
}
