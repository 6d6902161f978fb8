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

// ExecKillInput names an exec to end, or to signal.
type ExecKillInput struct {
	Exec   string `json:"exec" help:"which exec" min:"1" max:"64"`
	Signal string `json:"signal,omitempty" help:"only send this signal to the command (INT, TERM, HUP, …), and end nothing" max:"16"`
}

// ExecKillOutput says what came of it.
type ExecKillOutput struct {
	Exec  string `json:"exec"`
	State string `json:"state"` // running or exited
	// Killed says that the command ended by this. One that had ended before is
	// not an error.
	Killed   bool   `json:"killed"`
	Sent     string `json:"sent,omitempty"` // the signal, where one was asked for
	ExitCode *int   `json:"exit_code"`      // null while it runs
	Signal   string `json:"signal,omitempty"`
	// SurvivorsKilled are processes that it had started and that were ended with
	// it, and DeathProved says that none is left.
	SurvivorsKilled int  `json:"survivors_killed"`
	DeathProved     bool `json:"death_proved"`
}

// Desc describes the operation exec_kill.
func (ExecKillInput) Desc() op.Desc {
	return op.Desc{
		Name: "exec_kill", Summary: "End a command that runs, with all that it has started",
		Doc: `End a command that exec has left running, and every process that it has started,
wherever they are; the answer says whether it is proved that none is left. A
command that has ended already is no error. With signal the command alone gets
that signal, and may go on: INT is what ^C sends. output_read still reads what
was printed.`,
		Lasting: true, Profile: op.ProfileWorkspace,
		Hints: op.Hints{Frees: true, Destructive: true, Idempotent: true, Control: true},
	}
}

// exec finds a principal's exec, in whichever sandbox.
func exec(e *op.Env, id string) (*registry.Sandbox, *registry.Exec, error) {
	for _, h := range e.Sandboxes.Of(e.PrincipalName()) {
		if x := h.Execs.Find(id); x != nil {
			return h, x, nil
		}
	}
	return nil, nil, &paddock.Error{Message: fmt.Sprintf("cannot find exec %q", id), Code: wire.CodeNotFound,
		Hint: "sandbox_status lists those of a sandbox; the oldest that have ended are forgotten"}
}

// signalWait is how long a command that was signalled gets to end before the
// answer says that it runs.
const signalWait = 100 * time.Millisecond

// Do runs the operation.
func (in ExecKillInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (ExecKillOutput, error) {
	h, x, err := exec(env, in.Exec)
	if err != nil {
		return ExecKillOutput{}, err
	}
	if err := env.Enter(ctx, h); err != nil {
		return ExecKillOutput{}, err
	}
	out := ExecKillOutput{Exec: in.Exec, State: registry.Running}
	switch running := x.Running(); {
	case in.Signal != "":
		if err := signal(ctx, x, in.Signal); err != nil {
			return ExecKillOutput{}, err
		}
		out.Sent = in.Signal
	case running:
		x.Killed.Store(true)
		x.End()
		<-x.Done // the library bounds it: an agent that does not answer costs the sandbox its life
		out.Killed = true
	}
	if !x.Running() {
		out.State = registry.Exited
		if r := x.Result; r != nil {
			out.ExitCode, out.Signal, out.SurvivorsKilled, out.DeathProved = &r.ExitCode, r.Signal, r.SurvivorsKilled, r.DeathProved
		}
	}
	return out, nil
}

// signal sends one to the command alone, and waits a moment for what it does.
func signal(ctx context.Context, x *registry.Exec, name string) error {
	if err := x.Cmd.Signal(name); err != nil {
		return err
	}
	select {
	case <-x.Done:
	case <-ctx.Done():
	case <-time.After(signalWait):
	}
	return nil
}

// Render writes the output for people.
func (out ExecKillOutput) Render(w io.Writer) error {
	t := output.Teller{W: w}
	switch {
	case out.State == registry.Running:
		t.Line("exec %s was sent %s and runs", out.Exec, out.Sent)
	case out.Killed && out.DeathProved:
		t.Line("exec %s was ended with all that it had started; nothing of it is left", out.Exec)
	case out.Killed:
		t.Line("exec %s was ended; it is not proved that nothing of it is left", out.Exec)
	default:
		t.Line("exec %s has ended", out.Exec)
	}
	return t.Err
}
