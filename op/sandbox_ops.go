package op

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/paddock-dev/paddock"
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

// SandboxDeleteOutput is a sandbox that has ended.
type SandboxDeleteOutput struct {
	Sandbox string `json:"sandbox"`
	// DeathProved says that the kernel has confirmed that nothing is left.
	DeathProved bool `json:"death_proved"`
	// Planted are paths in the workspace that the host executes or obeys without
	// being told to, and that its commands made: look before you use them.
	Planted []string `json:"planted,omitempty"`
	// Note says what becomes of the default sandbox.
	Note string `json:"note,omitempty"`
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
	spec, err := in.spec(env)
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

func sandboxDeleteOp() Op {
	return New(Desc{
		Name: "sandbox_delete", Summary: "End a sandbox with all that runs in it",
		Doc: `End a sandbox: every command, shell, service and session in it is ended, and the
answer says whether it is proved that none is left. Its /tmp and its outputs are
gone; its workspace stays, unless it was a temporary one. The default sandbox can
be ended, too: it is made anew when it is used next.`,
		Lasting: true,
		Hints:   Hints{Destructive: true},
	}, sandboxDelete, func(w io.Writer, out SandboxDeleteOutput) error {
		t := teller{w: w}
		t.line("sandbox %s has ended; %s", out.Sandbox, map[bool]string{true: "nothing of it is left", false: "it is not proved that nothing of it is left"}[out.DeathProved])
		if note := plantedNote(out.Planted); note != "" {
			t.line("%s", note)
		}
		if out.Note != "" {
			t.line("%s", out.Note)
		}
		return t.err
	})
}

func sandboxDelete(ctx context.Context, env *Env, in SandboxNameInput, _ *Stream) (SandboxDeleteOutput, error) {
	p, err := env.Sandboxes.at(env.principal(), in.Sandbox)
	if err != nil {
		return SandboxDeleteOutput{}, err
	}
	select {
	case <-p.ready:
	case <-ctx.Done():
		return SandboxDeleteOutput{}, fmt.Errorf("cannot wait for sandbox %s: %w", in.Sandbox, ctx.Err())
	}
	if p.held == nil || !env.Sandboxes.take(p) {
		return SandboxDeleteOutput{}, noSandbox(in.Sandbox)
	}
	env.call.opened(p.held.ID())
	env.Sessions.leaveAll(p.held)
	out := SandboxDeleteOutput{Sandbox: p.held.name, DeathProved: true}
	if err := p.held.close(); err != nil {
		out.DeathProved = false
		return out, err
	}
	out.Planted = p.held.Planted()
	if p.held.name == defaultName {
		out.Note = "the default sandbox is made anew when it is used next"
	}
	return out, nil
}

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
		Hints: Hints{ReadOnly: true, Idempotent: true},
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
	h.introduced.first() // the answer has it
	out = SandboxStatusOutput{SandboxSummary: env.summary(h), Uptime: policy.Duration(time.Since(h.since).Round(time.Millisecond)),
		Limits: h.Spec().Limits, Execs: []ExecSummary{}, Isolation: h.Isolation()}
	all := h.execs.all()
	slices.Reverse(all)
	for _, x := range all[:min(len(all), shownExecs)] {
		out.Execs = append(out.Execs, x.summary())
	}
	out.MoreExecs = len(all) - len(out.Execs)
	return out, h.explain(out.count(ctx, h))
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

func (x *keptExec) summary() ExecSummary {
	s := ExecSummary{Exec: x.out.id, Command: x.command, State: stateRunning, StartedAt: x.began.UTC()}
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
	t.line("%d commands run, %d shells, %d services, %d sessions; %d processes, %s of memory", out.Running, out.Shells, out.Services, out.Sessions,
		out.Processes, policy.Size(out.MemoryBytes))
	for _, x := range out.Execs {
		t.line("%s  %s  %s", x.Exec, strings.TrimSpace(x.State+" "+x.End), x.Command)
	}
	if out.MoreExecs > 0 {
		t.line("and %d before them", out.MoreExecs)
	}
	return t.err
}
