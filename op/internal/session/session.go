// Package session has the operations on sessions, a shell that keeps its state between
// commands, and "paddock session", which speaks to one in lines of text or JSON.
package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"text/tabwriter"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	shellpolicy "github.com/paddock-dev/paddock/policy/execution"
)

// SessionOpenInput asks for a session that outlives the call.
type SessionOpenInput struct {
	SessionFields
	Sandbox   string `json:"sandbox,omitempty" help:"which sandbox it is in, with none of the fields that describe one (default: the default sandbox, where there is one and no field describes another; else one of its own)" max:"64"`
	SessionID string `json:"session_id,omitempty" help:"a name for the session (default: a random one)" max:"64"`
}

// SessionRunInput asks for a command in a session, or for a new shell in it.
type SessionRunInput struct {
	SessionID      string           `json:"session_id" help:"which session"`
	Command        *string          `json:"command,omitempty" help:"what the shell is to run, any number of lines"`
	Restart        bool             `json:"restart,omitempty" help:"give the session a new shell, without the state of the old one"`
	Stdin          string           `json:"stdin,omitempty" help:"the command's whole standard input"`
	Timeout        *policy.Duration `json:"timeout,omitempty" help:"end the command after this time (default: the session's)"`
	MaxOutputLines *uint64          `json:"max_output_lines,omitempty" help:"lines of the output that are kept (default: the session's)" min:"1" max:"2147483648"`
	MaxOutputBytes *policy.Size     `json:"max_output_bytes,omitempty" help:"bytes that are kept, at most 2MiB (default: the session's)"`
}

// check is the tool's own, in the words of a contract where it is not one of many.
func (in SessionRunInput) check(env *op.Env) error {
	switch {
	case env.Sandboxes != nil && in.Command != nil && in.Restart:
		return &policy.FieldError{Field: "restart", Reason: "command is given, too", Hint: "give one of the two"}
	case env.Sandboxes != nil && in.Command == nil && !in.Restart:
		return &policy.FieldError{Field: "command", Reason: "it is missing", Hint: "give command (shell text), or restart"}
	case in.Command != nil && in.Restart:
		return &paddock.Error{Message: needOne}
	case in.Command == nil && !in.Restart:
		return &paddock.Error{Message: needEither}
	case in.Timeout != nil && *in.Timeout <= 0:
		return &policy.FieldError{Field: "timeout", Value: in.Timeout.String(), Reason: "it must be above 0"}
	case in.MaxOutputBytes != nil && (*in.MaxOutputBytes == 0 || *in.MaxOutputBytes > maxSessionOutput):
		return &policy.FieldError{Field: "max_output_bytes", Reason: "it must be from 1 byte to 2MiB"}
	}
	return nil
}

// SessionRestartInput names the session that gets a new shell.
type SessionRestartInput struct {
	SessionID string `json:"session_id" help:"which session"`
}

// SessionCloseInput names the session to close.
type SessionCloseInput struct {
	SessionID string `json:"session_id" help:"which session"`
}

// SessionListInput has no fields.
type SessionListInput struct{}

const sessionDoc = `A session is one shell that stays, in a sandbox: its directory, variables,
functions and options persist from one command to the next. It has no terminal:
for programs that need one there are shells. It lives until session_close, until
its sandbox ends, or until the door that keeps it closes.`

// Desc describes the operation session_open.
func (SessionOpenInput) Desc() op.Desc {
	return op.Desc{
		Name: "session_open", Summary: "Open a session: a shell that stays",
		Doc: sessionDoc + `

The answer has the session's id, which session_run takes. It is in the sandbox
that sandbox names, or in the default sandbox where there is one. Fields that
describe a sandbox give it one of its own, which ends with it; without a workspace
that has the default sandbox's, if there is one, and else an empty one, which is
removed then.`,
		Lasting: true, Profile: op.ProfileWorkspace,
		Hints: op.Hints{Destructive: true, LongRunning: true},
	}
}

// Do runs the operation.
func (in SessionOpenInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (SessionOpenOutput, error) {
	key, err := env.Sessions.Reserve(env.PrincipalName(), in.SessionID)
	if err != nil {
		return SessionOpenOutput{}, err
	}
	k, err := openSession(ctx, env, in, key)
	if !env.Sessions.Put(key, k) && err == nil {
		err = errors.Join(registry.ErrNoSessions, k.Close(ctx))
	}
	if err != nil {
		return SessionOpenOutput{}, err
	}
	return SessionOpenOutput{SessionID: key.ID, Sandbox: k.Called, Workspace: workspace(k, env),
		Temporary: k.Scratch != "", Isolation: k.Sandbox.Isolation()}, nil
}

// Render writes the output for people.
func (out SessionOpenOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintln(w, out.SessionID)
	return err
}

// Desc describes the operation session_run.
func (SessionRunInput) Desc() op.Desc {
	return op.Desc{
		Name: "session_run", Summary: "Run a command in a session",
		Doc: sessionDoc + `

The call returns when the command has ended, with what it printed, its exit status,
and the shell's directory. Of long output the answer has the beginning and the
end, and says how output_read gets the rest: the first and the last 1 MiB are
kept. With max_output_lines or max_output_bytes, here or in session_open, what
exceeds them is only counted. A command that exceeds its time (30 seconds, unless it is told
otherwise) ends with all it has started; the shell stays where it lets itself be
interrupted, and the answer says whether it did. A command that ends the shell,
such as exit, says so: session_restart gives the session a new one.`,
		Lasting: true, Profile: op.ProfileWorkspace,
		Hints: op.Hints{Destructive: true, LongRunning: true},
	}
}

// Do runs a command, or restarts the shell.
func (in SessionRunInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (SessionRunOutput, error) {
	if err := in.check(env); err != nil {
		return SessionRunOutput{}, err
	}
	k, err := env.Sessions.Find(env.PrincipalName(), in.SessionID)
	if err != nil {
		return SessionRunOutput{}, err
	}
	if in.Restart {
		out, err := restart(ctx, k)
		none := 0
		return SessionRunOutput{SessionID: out.SessionID, Status: out.Status, Text: out.Text, ExitCode: &none, Restarted: err == nil,
			DeathProved: true, RedactionMatches: map[string]int64{}, Chunks: []SessionChunk{}}, err
	}
	p := k.Plan
	c := paddock.SessionCommand{Text: *in.Command, Stdin: []byte(in.Stdin)}
	limit := registry.TimeLimit{Span: p.Opts.CommandTimeout, From: registry.FromSession}
	if in.Timeout != nil {
		limit = registry.TimeLimit{Span: time.Duration(*in.Timeout), From: registry.FromCall}
	}
	limit = env.BoundTime(limit)
	c.Timeout, p.Opts.CommandTimeout = limit.Span, limit.Span
	if in.MaxOutputLines != nil {
		c.MaxLines = int64(*in.MaxOutputLines)
		p.Opts.MaxLines = c.MaxLines
	}
	if in.MaxOutputBytes != nil {
		c.MaxBytes = int64(*in.MaxOutputBytes)
		p.Opts.MaxBytes = c.MaxBytes
	}
	if env.Outputs != nil && !p.Bounded && in.MaxOutputLines == nil && in.MaxOutputBytes == nil {
		unbounded(&c, &p)
	}
	stop := stream.Beat(p.Opts.CommandTimeout, (*output.Output)(nil).Printed)
	r, err := k.Shell.Run(ctx, c)
	stop()
	if r == nil {
		return SessionRunOutput{}, err
	}
	out := sessionAnswer(env, k.Key.ID, r, p)
	if out.TimedOut {
		out.Limit, out.Denials = limit.Ended(out.Denials)
	}
	return out, err
}

// Render writes the output for people.
func (out SessionRunOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintln(w, out.Text)
	return err
}

// restart gives the session a new shell.
func restart(ctx context.Context, k *registry.Session) (SessionRestartOutput, error) {
	if err := k.Shell.Restart(ctx); err != nil {
		return SessionRestartOutput{}, &restartError{err}
	}
	return SessionRestartOutput{SessionID: k.Key.ID, Status: "success", Text: restarted}, nil
}

// restartError is a restart that failed, in the words of the contract.
type restartError struct{ cause error }

// Error names the cause as well.
func (e *restartError) Error() string { return restartFailed + " " + e.cause.Error() }

// Unwrap gives the cause.
func (e *restartError) Unwrap() error { return e.cause }

// Desc describes the operation session_restart.
func (SessionRestartInput) Desc() op.Desc {
	return op.Desc{
		Name: "session_restart", Summary: "Give a session a new shell",
		Doc: `Give a session a new shell, where the old one has ended or hangs. The old one ends
with all it has started, and its directory, variables and functions are lost; the
workspace stays as it is, and startup commands run again.`,
		Lasting: true,
		Hints:   op.Hints{Destructive: true},
	}
}

// Do runs the operation.
func (in SessionRestartInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (SessionRestartOutput, error) {
	k, err := env.Sessions.Find(env.PrincipalName(), in.SessionID)
	if err != nil {
		return SessionRestartOutput{}, err
	}
	return restart(ctx, k)
}

// Render writes the output for people.
func (out SessionRestartOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintln(w, out.Text)
	return err
}

// Desc describes the operation session_close.
func (SessionCloseInput) Desc() op.Desc {
	return op.Desc{
		Name: "session_close", Summary: "Close a session, and the sandbox that is its own",
		Doc: `Close a session. Its shutdown commands run first; then nothing that it has started
is left. A sandbox of its own ends with it, another stays.`,
		Lasting: true, Profile: op.ProfileWorkspace,
		Hints: op.Hints{Frees: true, Destructive: true},
	}
}

// Do runs the operation.
func (in SessionCloseInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (SessionCloseOutput, error) {
	k, err := env.Sessions.Remove(env.PrincipalName(), in.SessionID)
	if err != nil {
		return SessionCloseOutput{}, err
	}
	err = k.Close(ctx)
	return SessionCloseOutput{SessionID: in.SessionID, Left: op.NewLeft(k.Sandbox)}, err
}

// Render writes the output for people.
func (out SessionCloseOutput) Render(w io.Writer) error {
	if err := out.Left.Warn(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "closed", out.SessionID)
	return err
}

// Desc describes the operation session_list.
func (SessionListInput) Desc() op.Desc {
	return op.Desc{
		Name: "session_list", Summary: "List your sessions",
		Doc:     "List your sessions: the state of each (ready, busy or ended), its sandbox, and the directory that its shell is in.",
		Lasting: true,
		Hints:   op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Render writes the output for people.
func (out SessionListOutput) Render(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range out.Sessions {
		if _, err := fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", s.SessionID, s.State, s.Backend, s.Cwd); err != nil {
			return err
		}
	}
	return t.Flush()
}

// Do runs the operation.
func (SessionListInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (SessionListOutput, error) {
	out := SessionListOutput{Sessions: []SessionSummary{}}
	for _, k := range env.Sessions.Of(env.PrincipalName()) {
		s := SessionSummary{SessionID: k.Key.ID, Sandbox: k.Called, Workspace: workspace(k, env),
			Backend: k.Sandbox.Spec().Backend, State: "ended"}
		if now, err := k.Shell.Summary(ctx); err == nil {
			s.State, s.Cwd, s.Commands, s.Restarts, s.StartedAt = now.State, now.Dir, now.Commands, now.Restarts, now.StartedAt
		}
		out.Sessions = append(out.Sessions, s)
	}
	return out, nil
}

// where is the sandbox that the session is to be in, and whether that is one that
// the door keeps.
func (in SessionOpenInput) where(e *op.Env) (name string, shared bool, err error) {
	described := !reflect.DeepEqual(in.SpecInput, op.SpecInput{}) || in.Policy != ""
	switch {
	case in.Sandbox != "" && e.Sandboxes == nil:
		return "", false, &policy.FieldError{Field: "sandbox", Value: in.Sandbox, Reason: "this door keeps no sandboxes", Hint: "leave it out"}
	case in.Sandbox != "" && described:
		return "", false, &policy.FieldError{Field: "sandbox", Value: in.Sandbox, Reason: "other fields describe another sandbox",
			Hint: "leave it out for a sandbox of the session's own, or leave the others out"}
	}
	return in.Sandbox, in.Sandbox != "" || e.Sandboxes != nil && e.Default != nil && !described, nil
}

// openShared opens a session in a sandbox that the door keeps.
func openShared(ctx context.Context, e *op.Env, in SessionFields, key registry.SessionKey, where string) (k *registry.Session, err error) {
	err = e.WithSandbox(ctx, op.InSandbox{Sandbox: where}, func(ctx context.Context, h *registry.Sandbox) error {
		if h.Spec().Commands != nil {
			return errRuledSession
		}
		opts, err := in.options(shellpolicy.Session{}, h.Spec())
		if err != nil {
			return err
		}
		k = &registry.Session{Key: key, Sandbox: h.Sandbox, Shared: true, Called: h.Called(),
			Plan: registry.SessionPlan{Spec: h.Spec(), Opts: e.BoundSession(opts), Bounded: in.bounded()}}
		return k.Begin(ctx)
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// openSession opens a sandbox, and the session in it. Nothing is left where
// that fails.
func openSession(ctx context.Context, e *op.Env, in SessionOpenInput, key registry.SessionKey) (_ *registry.Session, err error) {
	if where, shared, err := in.where(e); err != nil || shared {
		if err != nil {
			return nil, err
		}
		return openShared(ctx, e, in.SessionFields, key, where)
	}
	p, err := in.plan(ctx, e)
	if err != nil {
		return nil, err
	}
	k := &registry.Session{Key: key, Plan: p}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.Close(ctx))
		}
	}()
	if p.Spec.Workspace.Source == "" {
		if k.Scratch, err = os.MkdirTemp("", registry.ScratchPrefix); err != nil {
			return nil, fmt.Errorf("cannot make a temporary workspace: %w", err)
		}
		p.Spec.Workspace.Source = k.Scratch
	}
	if k.Sandbox, err = e.AllowWorkspace(k.Scratch).OpenFor(ctx, p.Spec, p.Start, &op.Stream{}); err != nil {
		return nil, err
	}
	k.Called = k.Sandbox.ID()
	if err := k.Begin(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

// workspace is where the session's is: for a door that keeps sandboxes as commands
// find it, for who has this session alone the directory outside.
func workspace(k *registry.Session, e *op.Env) string {
	if e.Sandboxes != nil {
		return registry.WorkspaceAt(k.Sandbox.Isolation().Level, k.Sandbox.Spec())
	}
	return k.Sandbox.Spec().Workspace.Source
}
