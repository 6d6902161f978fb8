package sandbox

import (
	"context"
	"errors"
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
	"github.com/paddock-dev/paddock/policy"
)

type SandboxStatusInput struct {
	op.InSandbox
}

type SandboxStatusOutput struct {
	SandboxSummary
	Uptime policy.Duration `json:"uptime"`
	Limits policy.Limits   `json:"limits"`
	// Shells, Services and Sessions count what is running, and Processes the processes of
	// all commands. These numbers and MemoryBytes come from the agent and are not verified.
	Shells      int   `json:"shells"`
	Services    int   `json:"services"`
	Sessions    int   `json:"sessions"`
	Processes   int   `json:"processes"`
	MemoryBytes int64 `json:"memory_bytes"`
	// Execs are the latest commands, the latest first. MoreExecs counts earlier ones.
	Execs     []ExecSummary    `json:"execs"`
	MoreExecs int              `json:"more_execs"`
	Isolation policy.Isolation `json:"isolation"`
}

// ExecSummary describes a command of a sandbox.
type ExecSummary struct {
	Exec        string          `json:"exec"`
	Command     osstring.String `json:"command"`
	State       string          `json:"state"` // running or exited
	End         string          `json:"end,omitempty"`
	StartedAt   time.Time       `json:"started_at"`
	StdoutBytes int64           `json:"stdout_bytes"`
	StderrBytes int64           `json:"stderr_bytes"`
}

// shownExecs is how many commands a status lists.
const shownExecs = 40

func (SandboxStatusInput) Desc() op.Desc {
	return op.Desc{
		Name: "sandbox_status", Summary: "Describe a sandbox and what runs in it",
		Doc: `Describe a sandbox: its workspace, its limits, which isolation really holds and
which does not, how many shells, services, sessions and processes run in it, and its
latest commands with their ids, for output_read and exec_kill.`,
		Lasting: true, Profile: op.ProfileWorkspace,
		Hints: op.Hints{ReadOnly: true, Idempotent: true, Control: true},
	}
}

// Do describes the sandbox, and asks the agent what is running in it.
func (in SandboxStatusInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out SandboxStatusOutput, err error) {
	if env.Sandboxes == nil {
		return out, registry.ErrNoSandboxes
	}
	h, err := env.FindSandbox(ctx, in.Sandbox)
	if err != nil {
		return out, err
	}
	if err := env.Enter(ctx, h); err != nil {
		return out, err
	}
	if h.Kept {
		if err := h.AdoptJobs(ctx, env.Outputs); err != nil {
			return out, h.Explain(err)
		}
	}
	h.Introduced.First() // the output has the isolation, so later outputs need not repeat it
	out = SandboxStatusOutput{SandboxSummary: summary(env, h), Uptime: policy.Duration(time.Since(h.Since).Round(time.Millisecond)),
		Limits: h.Spec().Limits, Execs: []ExecSummary{}, Isolation: h.Isolation()}
	all := h.Execs.All()
	slices.Reverse(all)
	all, out.MoreExecs = all[:min(len(all), shownExecs)], max(0, len(all)-shownExecs)
	commands := make([]string, len(all))
	for i, x := range all {
		commands[i] = x.Command
	}
	for i, command := range h.Hide(ctx, commands...) { // also secrets that were set after it was started
		out.Execs = append(out.Execs, execSummary(all[i], command))
	}
	if err := out.count(ctx, h); err != nil {
		return SandboxStatusOutput{}, h.Explain(err)
	}
	return out, nil
}

// count asks the agent how many shells, services, sessions and processes are running.
func (out *SandboxStatusOutput) count(ctx context.Context, h *registry.Sandbox) error {
	now, err := h.Stats(ctx)
	if err != nil {
		return err
	}
	for _, tree := range now.Trees {
		switch tree.Kind {
		case "shell":
			out.Shells++
		case "service":
			out.Services++
		}
		out.Processes += max(tree.Processes, 0)
		out.MemoryBytes += max(tree.MemoryBytes, 0)
	}
	sessions, err := h.Client().ListSessions(ctx)
	if err != nil {
		return errors.Join(&paddock.Error{Message: "cannot list the sessions"}, err)
	}
	out.Sessions = len(sessions)
	return nil
}

// execSummary returns the summary of a command, which is given without secrets.
func execSummary(x *registry.Exec, command string) ExecSummary {
	s := ExecSummary{Exec: x.Out.ID(), Command: osstring.String(text.Label(command)), State: registry.Running, StartedAt: x.Began.UTC()}
	if !x.Running() {
		s.State, s.End = registry.Exited, x.How()
	}
	s.StdoutBytes, s.StderrBytes = x.Out.Totals()
	return s
}

func (out SandboxStatusOutput) Render(w io.Writer) error {
	t := output.Teller{W: w}
	t.Line("sandbox %s, %s, up %s, workspace %s", out.Name, out.State, out.Uptime, out.Workspace)
	t.Line("%s", op.IsolationNote(out.Isolation))
	t.Line("%s running, %s, %s, %s; %s, %s of memory", text.Count(out.Running, "command"), text.Count(out.Shells, "shell"), text.Count(out.Services, "service"), text.Count(out.Sessions, "session"),
		text.Count(out.Processes, "process"), policy.Size(out.MemoryBytes))
	for _, x := range out.Execs {
		t.Line("%s  %s  %s", x.Exec, strings.TrimSpace(x.State+" "+x.End), x.Command)
	}
	if out.MoreExecs > 0 {
		t.Line("and %d earlier", out.MoreExecs)
	}
	return t.Err
}
