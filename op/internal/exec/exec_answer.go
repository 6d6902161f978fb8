package exec

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

// ExecAnswer is how a command ended, or what it has printed so far.
type ExecAnswer struct {
	Exec     string `json:"exec,omitempty"` // for output_read and exec_kill
	Sandbox  string `json:"sandbox"`
	State    string `json:"state"`            // running or exited
	ExitCode *int   `json:"exit_code"`        // null while it runs; -N where signal N ended it, 124 where it timed out
	Killed   bool   `json:"killed,omitempty"` // by exec_kill
	Ended
	// Stdout and Stderr are text without control sequences; of more than an
	// answer has room for, the beginning and the end.
	Stdout    string   `json:"stdout"`
	Stderr    string   `json:"stderr"`
	StdoutCut *ExecCut `json:"stdout_cut,omitempty"`
	StderrCut *ExecCut `json:"stderr_cut,omitempty"`
	// Next are the cursors from which output_read goes on.
	Next *ExecCursors `json:"next,omitempty"`
}

// ExecCut is what an answer has left out of a stream.
type ExecCut struct {
	Bytes  int64 `json:"bytes"`
	Lines  int64 `json:"lines"`
	Cursor int64 `json:"cursor"` // where output_read finds it
}

// ExecCursors say where what the answer has ends, of a command that runs on.
type ExecCursors struct {
	Stdout int64 `json:"stdout"`
	Stderr int64 `json:"stderr"`
}

// ExitStatus is the command's own, 124 where it timed out, and 128+N where
// signal N ended it.
func (out ExecAnswer) ExitStatus() int {
	if out.ExitCode == nil {
		return out.status(0)
	}
	return out.status(*out.ExitCode)
}

// shownWhole is how much it shows where nothing is kept.
const shownWhole = 2 << 20

// told is what there is to tell of a command now.
func told(h *registry.Sandbox, env *op.Env, x *registry.Exec) ExecAnswer {
	out := ExecAnswer{Exec: x.Out.ID(), Sandbox: h.Called(), State: registry.Running, Ended: Ended{DurationMS: time.Since(x.Began).Milliseconds()}}
	if !x.Running() {
		out.State = registry.Exited
		if x.Result != nil {
			out.ExitCode, out.Ended = &x.Result.ExitCode, newEnded(x.Result)
			if out.TimedOut {
				out.Limit, out.Denials = x.Limit.Ended(out.Denials)
			}
		}
	}
	out.Killed = x.Killed.Load()
	if !h.Lasting {
		out.Exec = "" // nobody finds it
		defer x.Out.Drop()
	}
	room := env.Room(output.ShownExec)
	if !x.Out.Readable() {
		room = shownWhole // nobody can read on
	}
	stderr := x.Out.Excerpt(1, room/3)
	stdout := x.Out.Excerpt(0, room-text.Cost(stderr.Text))
	if cost := text.Cost(stdout.Text); cost < room/2 && stderr.CutBytes > 0 {
		stderr = x.Out.Excerpt(1, room-cost)
	}
	out.Stdout, out.Stderr = stdout.Text, stderr.Text
	out.StdoutCut, out.StderrCut = cut(stdout), cut(stderr)
	out.StdoutBytes, out.StderrBytes = x.Out.Totals()
	if out.State == registry.Running {
		out.Next = &ExecCursors{stdout.Next, stderr.Next}
	}
	return out
}

func cut(e output.Excerpt) *ExecCut {
	if e.CutBytes == 0 {
		return nil
	}
	return &ExecCut{Bytes: e.CutBytes, Lines: e.CutLines, Cursor: e.Next}
}

// Render writes the output for people.
func (out ExecAnswer) Render(w io.Writer) error {
	if out.Stdout == "" {
		return nil
	}
	_, err := io.WriteString(w, out.Stdout)
	return err
}

// Tell says first how the command ended, and all else that there is to say of it, then
// what it printed.
func (out ExecAnswer) Tell(w io.Writer) error {
	t := output.Teller{W: w}
	t.Frame(out.said(), out.Stdout, out.Stderr)
	return t.Err
}

// said is what there is to say of the command.
func (out ExecAnswer) said() []string {
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	seconds := float64(out.DurationMS) / 1000
	memory := map[bool]string{true: " (out of memory)"}[out.OOMKilled]
	switch {
	case out.State == registry.Running:
		say("still running after %.3fs, exec %s", seconds, out.Exec)
	case out.ExitCode == nil:
		say("ended after %.3fs, its exit status is not known", seconds)
	case out.TimedOut:
		say("timed out and was ended after %.3fs%s", seconds, longer(out.Limit, out.Exec != ""))
	case out.Signal != "":
		say("ended by %s after %.3fs%s", out.Signal, seconds, memory)
	default:
		say("exit status %d after %.3fs%s", *out.ExitCode, seconds, memory)
	}
	all = append(all, output.DenialTexts(slices.DeleteFunc(slices.Clone(out.Denials), func(d paddock.Denial) bool { // the first line says it
		return out.TimedOut && d.Layer == "limit" && d.Rule == "timeout"
	}), out.ExitStatus())...)
	if n := out.SurvivorsKilled; n > 0 && !out.TimedOut { // else the command is one of them
		say("it left processes running, which were ended: %d", n)
	}
	if out.State == registry.Exited && !out.DeathProved {
		say("it is not proved that nothing of it is left")
	}
	if out.Blocked != "" {
		say("the rule %s ended the output", out.Blocked)
	}
	if out.StdoutCut != nil {
		say("%d bytes of stdout left out", out.StdoutCut.Bytes)
	}
	if out.StderrCut != nil {
		say("%d bytes of stderr left out", out.StderrCut.Bytes)
	}
	if out.Next != nil {
		say(`output_read {"output": %q, "cursor": %d, "wait": "30s"} follows it, exec_kill {"exec": %q} ends it`, out.Exec, out.Next.Stdout, out.Exec)
	}
	return all
}

// longer says which limit of time has ended a command, and what gives it more.
func longer(limit string, background bool) string {
	switch {
	case strings.HasSuffix(limit, registry.FromOperator):
		return " (" + limit + ")"
	case limit != "":
		limit = " (" + limit + ")"
	}
	return limit + "; timeout gives it longer" + map[bool]string{true: ", background has it go on while you do something else"}[background]
}

var _ op.Teller = ExecAnswer{}

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
