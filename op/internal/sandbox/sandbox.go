// Package sandbox has the operations on sandboxes themselves: creating, listing and
// ending them, their status and secrets, the plan of a sandbox, what this host can do
// (doctor), and accepting changes to git's configuration (git_accept). It also has version.
package sandbox

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
)

// SandboxSummary describes a sandbox in the outputs of several operations.
type SandboxSummary struct {
	Name      string          `json:"name"` // for the field sandbox of other operations
	ID        string          `json:"id"`
	State     string          `json:"state"`   // running or ended; of one that outlives the server also paused, ending or stopped
	Default   bool            `json:"default"` // it is used by calls that name no sandbox
	Backend   string          `json:"backend"`
	Workspace osstring.String `json:"workspace"` // its path inside
	// Source is the workspace's directory on the host; empty under a ceiling.
	Source    osstring.String `json:"source,omitempty"`
	Temporary bool            `json:"temporary"` // the workspace is removed with the sandbox
	Network   string          `json:"network"`
	StartedAt time.Time       `json:"started_at"`
	Running   int             `json:"running"` // execs
	// Lasting says that it outlives the server. It is ended after Idle without use, or Lifetime.
	Lasting bool `json:"lasting"`
}

// summary returns the summary of a sandbox.
func summary(e *op.Env, h *registry.Sandbox) SandboxSummary {
	spec := h.Spec()
	s := SandboxSummary{Name: h.Name, ID: h.ID(), State: paddock.StateRunning, Default: h.Name == registry.DefaultName, Backend: spec.Backend,
		Workspace: osstring.String(registry.WorkspaceAt(h.Isolation().Level, spec)), Temporary: h.Temporary, Lasting: h.Kept, Network: h.Isolation().Network, StartedAt: h.Since.UTC()}
	if e.Ceiling == nil {
		s.Source = osstring.String(spec.Workspace.Source)
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

// recorded returns the summary of a sandbox that outlives the server, by its record.
func recorded(e *op.Env, k paddock.Listed) SandboxSummary {
	s := SandboxSummary{Name: k.Name, ID: k.ID, State: k.State, Backend: k.Backend, Workspace: osstring.String(registry.WorkspaceAt(k.Spec.Level, k.Spec)), Temporary: k.Scratch,
		Lasting: true, Network: k.Spec.Network.Mode, StartedAt: k.Started.UTC()}
	if e.Ceiling == nil {
		s.Source = osstring.String(k.Spec.Workspace.Source)
	}
	return s
}

type SandboxListInput struct{}

type SandboxListOutput struct {
	Sandboxes []SandboxSummary `json:"sandboxes"`
}

func (SandboxListInput) Desc() op.Desc {
	return op.Desc{
		Name: "sandbox_list", Summary: "List your sandboxes",
		Doc: `List your sandboxes: their names, whether they have ended, and how many commands run
in them. Those that outlive the server are listed by every server that you use, also
after they have stopped. The default sandbox is listed once it has been used.`,
		Lasting: true,
		Hints:   op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Do lists the sandboxes that are kept for the principal.
func (SandboxListInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (SandboxListOutput, error) {
	if env.Sandboxes == nil {
		return SandboxListOutput{}, registry.ErrNoSandboxes
	}
	kept, err := env.ListKept(ctx)
	if err != nil {
		return SandboxListOutput{}, err
	}
	out, open := SandboxListOutput{Sandboxes: []SandboxSummary{}}, map[string]bool{}
	for _, h := range env.AdoptJobs(ctx) {
		out.Sandboxes, open[h.ID()] = append(out.Sandboxes, summary(env, h)), true
	}
	for _, k := range kept {
		if !open[k.ID] { // it does not run, or cannot be used
			out.Sandboxes = append(out.Sandboxes, recorded(env, k))
		}
	}
	slices.SortFunc(out.Sandboxes, func(a, b SandboxSummary) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (out SandboxListOutput) Render(w io.Writer) error {
	return output.Table(w, func(row output.Row) {
		for _, s := range out.Sandboxes {
			row("%s\t%s\t%s\t%s", s.Name, s.State, s.Backend, text.Count(s.Running, "command"))
		}
	})
}
