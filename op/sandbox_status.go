package op

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
)

// SandboxStatusInput asks how a sandbox is.
type SandboxStatusInput struct {
	InSandbox
}

// SandboxStatusOutput is how a sandbox is, and what runs in it.
type SandboxStatusOutput struct {
	SandboxSummary
	Uptime policy.Duration `json:"uptime"`
	Limits policy.Limits   `json:"limits"`
	// Shells, Services and Sessions count those that run; Processes those of all
	// commands together. They, and MemoryBytes, are the agent's word.
	Shells      int   `json:"shells"`
	Services    int   `json:"services"`
	Sessions    int   `json:"sessions"`
	Processes   int   `json:"processes"`
	MemoryBytes int64 `json:"memory_bytes"`
	// Execs are the latest commands, the latest first, and MoreExecs counts
	// those before them.
	Execs     []ExecSummary    `json:"execs"`
	MoreExecs int              `json:"more_execs"`
	Isolation policy.Isolation `json:"isolation"`
}

// ExecSummary is a command of a sandbox.
type ExecSummary struct {
	Exec        string    `json:"exec"`
	Command     string    `json:"command"`
	State       string    `json:"state"` // running or exited
	End         string    `json:"end,omitempty"`
	StartedAt   time.Time `json:"started_at"`
	StdoutBytes int64     `json:"stdout_bytes"`
	StderrBytes int64     `json:"stderr_bytes"`
}

// shownExecs is how many commands a status lists.
const shownExecs = 40

func sandboxStatusOp() Op {
	return New(Desc{
		Name: "sandbox_status", Summary: "Look at a sandbox and what runs in it",
		Doc: `Look at a sandbox: where its workspace is, what it may use, which walls really
stand and what is not kept (isolation), how many shells, services, sessions and
processes run in it, and its latest commands with their ids, for output_read and
exec_kill.`,
		Lasting: true, Profile: ProfileWorkspace,
		Hints: Hints{ReadOnly: true, Idempotent: true, Control: true},
	}, sandboxStatus, renderSandboxStatus)
}

func sandboxStatus(ctx context.Context, env *Env, in SandboxStatusInput, _ *Stream) (out SandboxStatusOutput, err error) {
	if env.Sandboxes == nil {
		return out, errNoSandboxes
	}
	h, err := env.kept(ctx, in.Sandbox)
	if err != nil {
		return out, err
	}
	if err := env.enter(ctx, h); err != nil {
		return out, err
	}
	h.introduced.first() // the answer has it
	out = SandboxStatusOutput{SandboxSummary: env.summary(h), Uptime: policy.Duration(time.Since(h.since).Round(time.Millisecond)),
		Limits: h.Spec().Limits, Execs: []ExecSummary{}, Isolation: h.Isolation()}
	all := h.execs.all()
	slices.Reverse(all)
	for _, x := range all[:min(len(all), shownExecs)] {
		out.Execs = append(out.Execs, x.summary(h))
	}
	out.MoreExecs = len(all) - len(out.Execs)
	if err := out.count(ctx, h); err != nil {
		return SandboxStatusOutput{}, h.explain(err)
	}
	return out, nil
}

// count asks the agent what runs.
func (out *SandboxStatusOutput) count(ctx context.Context, h *held) error {
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

// summary is the command as it is told, without secrets that the sandbox has got since
// it began either.
func (x *keptExec) summary(h *held) ExecSummary {
	s := ExecSummary{Exec: x.out.ID(), Command: label(h.hide(x.command)), State: stateRunning, StartedAt: x.began.UTC()}
	if !x.running() {
		s.State, s.End = stateExited, x.how()
	}
	s.StdoutBytes, s.StderrBytes = x.out.totals()
	return s
}

func renderSandboxStatus(w io.Writer, out SandboxStatusOutput) error {
	t := teller{w: w}
	t.line("sandbox %s, %s, up %s, workspace %s", out.Name, out.State, out.Uptime, out.Workspace)
	t.line("%s", isolationNote(out.Isolation))
	t.line("%d commands running, %d shells, %d services, %d sessions; %d processes, %s of memory", out.Running, out.Shells, out.Services, out.Sessions,
		out.Processes, policy.Size(out.MemoryBytes))
	for _, x := range out.Execs {
		t.line("%s  %s  %s", x.Exec, strings.TrimSpace(x.State+" "+x.End), x.Command)
	}
	if out.MoreExecs > 0 {
		t.line("and %d before them", out.MoreExecs)
	}
	return t.err
}
