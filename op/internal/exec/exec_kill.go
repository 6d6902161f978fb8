package exec

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

type ExecKillInput struct {
	Exec   string `json:"exec" help:"which exec" min:"1" max:"64"`
	Signal string `json:"signal,omitempty" help:"only send this signal to the command (INT, TERM, HUP, …), and end nothing" max:"16"`
}

type ExecKillOutput struct {
	Exec  string `json:"exec"`
	State string `json:"state"` // running or exited
	// Killed reports that this call ended the command. It is false if the command had
	// ended before.
	Killed   bool   `json:"killed"`
	Sent     string `json:"sent,omitempty"` // the signal, if one was asked for
	ExitCode *int   `json:"exit_code"`      // null while it runs
	Signal   string `json:"signal,omitempty"`
	op.Death
}

func (ExecKillInput) Desc() op.Desc {
	return op.Desc{
		Name: "exec_kill", Summary: "End a command that runs, with all that it has started",
		Doc: `End a command that exec has left running, with every process that it has started,
wherever they are. The answer says whether it is proved that none is left. It is
not an error if the command has already ended. With signal only the command gets
that signal, and may continue: INT is what ^C sends. output_read still reads what
was printed.`,
		Lasting: true, Profile: op.ProfileWorkspace,
		Hints: op.Hints{Frees: true, Destructive: true, Idempotent: true, Control: true},
	}
}

// findExec returns the principal's exec of this id, and its sandbox.
func findExec(ctx context.Context, e *op.Env, id string) (*registry.Sandbox, *registry.Exec, error) {
	find := func(list []*registry.Sandbox) (*registry.Sandbox, *registry.Exec) {
		for _, h := range list {
			if x := h.Execs.Find(id); x != nil {
				return h, x
			}
		}
		return nil, nil
	}
	h, x := find(e.Sandboxes.Of(e.PrincipalName()))
	if x == nil {
		h, x = find(e.AdoptJobs(ctx))
	}
	if x != nil {
		return h, x, nil
	}
	return nil, nil, &paddock.Error{Message: fmt.Sprintf("cannot find exec %q", id), Code: wire.CodeNotFound,
		Hint: "sandbox_status lists those of a sandbox; the oldest that have ended are forgotten"}
}

// signalWait is how long exec_kill waits for the effect of a signal before it answers that
// the command still runs.
const signalWait = 100 * time.Millisecond

// Do ends the command, or sends it a signal.
func (in ExecKillInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (ExecKillOutput, error) {
	h, x, err := findExec(ctx, env, in.Exec)
	if err != nil {
		return ExecKillOutput{}, err
	}
	if err := env.Enter(ctx, h); err != nil {
		return ExecKillOutput{}, err
	}
	out := ExecKillOutput{Exec: in.Exec, State: registry.Running}
	switch running := x.Running(); {
	case in.Signal != "":
		if err := x.Signal(ctx, in.Signal); err != nil {
			return ExecKillOutput{}, err
		}
		select {
		case <-x.Done:
		case <-ctx.Done():
		case <-time.After(signalWait):
		}
		out.Sent = in.Signal
	case running:
		x.Killed.Store(true)
		x.End()
		<-x.Done // the library bounds this: it ends a sandbox whose agent does not answer
		out.Killed = true
	}
	if !x.Running() {
		out.State = registry.Exited
		if r := x.Result; r != nil {
			out.ExitCode, out.Signal, out.Death = &r.ExitCode, r.Signal, op.DeathOf(r)
		}
	}
	return out, nil
}

func (out ExecKillOutput) Render(w io.Writer) error {
	t := output.Teller{W: w}
	switch {
	case out.State == registry.Running:
		t.Line("exec %s was sent %s and runs", out.Exec, out.Sent)
	case out.Killed && out.DeathProved:
		t.Line("exec %s has ended; all its processes are gone", out.Exec)
	case out.Killed:
		t.Line("exec %s has ended; it is not proved that all its processes are gone", out.Exec)
	default:
		t.Line("exec %s has ended", out.Exec)
	}
	return t.Err
}
