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
	"github.com/paddock-dev/paddock/op/internal/registry"
)

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

// SandboxListInput has no fields.
type SandboxListInput struct{}

// SandboxListOutput are the sandboxes of who asks.
type SandboxListOutput struct {
	Sandboxes []SandboxSummary `json:"sandboxes"`
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
