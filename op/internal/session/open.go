package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	shellpolicy "github.com/paddock-dev/paddock/policy/execution"
	"github.com/paddock-dev/paddock/policy/specfile"
)

type SessionOpenInput struct {
	SessionFields
	Sandbox   string   `json:"sandbox,omitempty" help:"the sandbox for the session, without any field that describes one (default: the default sandbox, if there is one and no field describes another; else one of its own)" max:"64"`
	SessionID string   `json:"session_id,omitempty" help:"the session's id (default: a random one)" max:"64"`
	SecretEnv []string `json:"secret_env,omitempty" help:"names of secrets (secret_set) of the sandbox to pass as environment variables" max:"64"`
}

type SessionOpenOutput struct {
	SessionID string           `json:"session_id"`
	Sandbox   string           `json:"sandbox"`
	Workspace osstring.String  `json:"workspace"` // in a server the path inside, else the directory of the host
	Temporary bool             `json:"temporary"` // the workspace is removed with the session
	Isolation policy.Isolation `json:"isolation"`
}

func (SessionOpenInput) Desc() op.Desc {
	return op.Desc{
		Name: "session_open", Summary: "Open a session: a shell that stays",
		Doc: sessionDoc + `

The answer has the session's id, which session_run needs. The session is in the
sandbox that sandbox names, or in the default sandbox if there is one. With fields
that describe a sandbox it gets one of its own, which ends with it; without a
workspace that has the default sandbox's, if there is one, or else an empty one,
which is removed with it.`,
		Lasting: true, Profile: op.ProfileWorkspace,
		Hints: op.Hints{Destructive: true, LongRunning: true},
	}
}

// Do opens the session and keeps it.
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
	return SessionOpenOutput{SessionID: key.ID, Sandbox: k.Called, Workspace: osstring.String(workspace(k, env)),
		Temporary: k.Scratch != "", Isolation: k.Sandbox.Isolation()}, nil
}

// Render writes the session's id.
func (out SessionOpenOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintln(w, out.SessionID)
	return err
}

// Tell writes the session's id, its sandbox and its workspace.
func (out SessionOpenOutput) Tell(w io.Writer) error {
	_, err := fmt.Fprintf(w, "session %s, in sandbox %s, at %s: session_run {\"session_id\": %q, …} runs a command in it\n", out.SessionID, out.Sandbox, out.Workspace, out.SessionID)
	return err
}

// where returns the sandbox that the input names for the session, and whether the session is
// in a sandbox that the server keeps.
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

// openSession opens a session, and a sandbox for it unless it uses an existing one. If it fails,
// it closes everything that it has opened.
func openSession(ctx context.Context, e *op.Env, in SessionOpenInput, key registry.SessionKey) (_ *registry.Session, err error) {
	if where, shared, err := in.where(e); err != nil || shared {
		if err != nil {
			return nil, err
		}
		return openShared(ctx, e, in, key, where)
	}
	if len(in.SecretEnv) > 0 {
		return nil, &policy.FieldError{Field: "secret_env", Reason: "a sandbox of the session's own has no secrets", Hint: "name a sandbox, and set them there with secret_set"}
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
	if p.Spec.Workspace.Source == "" && !p.Spec.Elsewhere() {
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

// openShared opens a session in a sandbox that the server keeps.
func openShared(ctx context.Context, e *op.Env, in SessionOpenInput, key registry.SessionKey, where string) (k *registry.Session, err error) {
	err = e.WithSandbox(ctx, op.InSandbox{Sandbox: where}, func(ctx context.Context, h *registry.Sandbox) error {
		if h.Spec().Commands != nil {
			return errRuledSession
		}
		if err := h.CheckSecrets(ctx, in.SecretEnv); err != nil {
			return err
		}
		opts, err := in.options(shellpolicy.Session{}, h.Spec())
		if err != nil {
			return err
		}
		opts.SecretEnv = in.SecretEnv
		k = &registry.Session{Key: key, Sandbox: h.Sandbox, Shared: true, Kept: h.Kept, Called: h.Called(),
			Plan: registry.SessionPlan{Spec: h.Spec(), Opts: e.BoundSession(opts), Bounded: in.bounded()}}
		return k.Begin(ctx)
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// workspace returns the session's workspace: in a server the path inside, else the directory
// of the host.
func workspace(k *registry.Session, e *op.Env) string {
	if e.Sandboxes != nil {
		return registry.WorkspaceAt(k.Sandbox.Isolation().Level, k.Sandbox.Spec())
	}
	return k.Sandbox.Spec().Workspace.Source
}

// SessionFields describe a session: its sandbox, and the shell in it. An execution policy
// file describes both; fields override it.
type SessionFields struct {
	op.SpecInput
	Policy             string           `json:"policy,omitempty" flag:"policy" arg:"FILE" complete:"file" help:"read an execution policy from a YAML or JSON file; flags override it" within:"files"`
	Shell              osstring.List    `json:"shell_command,omitempty" flag:"shell" arg:"WORD" help:"a POSIX shell and its arguments; once for each word (default: /bin/bash, or /bin/sh if there is none)"`
	Cwd                osstring.String  `json:"cwd,omitempty" flag:"cwd" arg:"DIR" help:"the shell's first directory, relative to the workspace (default: the workspace)"`
	StartupCommands    Texts            `json:"startup_commands,omitempty" flag:"startup" arg:"COMMAND" help:"run this first in each new shell; it must succeed (may be repeated)"`
	ShutdownCommands   Texts            `json:"shutdown_commands,omitempty" flag:"shutdown" arg:"COMMAND" help:"run this at the end (may be repeated)"`
	CommandTimeout     *policy.Duration `json:"command_timeout,omitempty" flag:"command-timeout" arg:"DUR" help:"end a command after this time, and keep the shell if that is possible (default: --timeout, else 30s)"`
	StartupTimeout     *policy.Duration `json:"startup_timeout,omitempty" flag:"startup-timeout" arg:"DUR" help:"time limit of the shell's start, and of each startup command (default: 30s)"`
	TerminationTimeout *policy.Duration `json:"termination_timeout,omitempty" flag:"termination-timeout" arg:"DUR" help:"time that the shell gets to end by itself (default: 10s)"`
	MaxOutputLines     *uint64          `json:"max_output_lines,omitempty" flag:"max-output-lines" arg:"N" help:"lines to keep of a command's output (default: 100; a server keeps as much as it has room for, and shows head and tail)"`
	MaxOutputBytes     *policy.Size     `json:"max_output_bytes,omitempty" flag:"max-output-bytes" arg:"SIZE" help:"bytes to keep of a command's output, at most 2MiB (default: --max-output, else 1MiB)"`
	RedactValues       []string         `json:"redact_values,omitempty" flag:"redact-value" arg:"VALUE" secret:"all" help:"replace this value by [REDACTED] in all output (may be repeated)"`
}

// plan returns the policy or the spec file with the fields applied.
func (in SessionFields) plan(ctx context.Context, env *op.Env) (registry.SessionPlan, error) {
	p := registry.SessionPlan{Spec: env.DefaultSpec()}
	s := shellpolicy.Session{}
	if in.Policy != "" {
		if err := env.MayRead("policy", in.Policy); err != nil {
			return p, err
		}
		if in.SpecFile != "" {
			return p, &policy.FieldError{Field: "policy", Value: in.Policy, Reason: "a spec file is given, too", Hint: "give one of the two"}
		}
		data, err := env.ReadFile(ctx, "policy", "policy", in.Policy, specfile.MaxSize)
		if err != nil {
			return p, err
		}
		read, err := specfile.DecodeExecution(in.Policy, data)
		if err != nil {
			return p, err
		}
		p.Spec, s = read.Spec(), read.Session()
	}
	var err error
	over := in.Over
	if in.Policy == "" && in.Workspace != nil { // without a workspace it has an empty one
		over = in.OverProject
	}
	if p.Spec, err = over(ctx, env, p.Spec); err != nil {
		return p, err
	}
	if p.Spec.Commands != nil {
		ruled := *errRuledSession
		if env.ProjectFile() != "" {
			ruled.Hint += "; --no-project-file leaves out the project's"
		}
		return p, &ruled
	}
	p.Bounded = in.bounded() || s.MaxOutputLines > 0 || s.MaxOutputBytes > 0
	p.Opts, err = in.options(s, p.Spec)
	p.Opts = env.BoundSession(p.Opts)
	if in.Timeout != nil {
		p.Start = env.BoundTime(registry.TimeLimit{Span: time.Duration(*in.Timeout), From: registry.FromCall})
	}
	return p, err
}

// bounded reports whether a field bounds the output of commands.
func (in SessionFields) bounded() bool { return in.MaxOutputLines != nil || in.MaxOutputBytes != nil }

// options returns the options of the shell: from the fields, else the policy, else the spec.
func (in SessionFields) options(s shellpolicy.Session, spec policy.Spec) (paddock.SessionOptions, error) {
	o := paddock.SessionOptions{Shell: in.Shell, Dir: string(in.Cwd), Startup: in.StartupCommands, Shutdown: in.ShutdownCommands, Redact: in.RedactValues}
	lines, size := uint64(s.MaxOutputLines), s.MaxOutputBytes
	if size == 0 {
		size = spec.Limits.Output
	}
	size = min(size, maxSessionOutput)
	command := s.CommandTimeout
	if command == 0 {
		command = spec.Limits.Timeout
	}
	err := errors.Join(
		setSpan(&command, in.CommandTimeout, "command_timeout"),
		setSpan(&s.StartupTimeout, in.StartupTimeout, "startup_timeout"),
		setSpan(&s.TerminationTimeout, in.TerminationTimeout, "termination_timeout"),
		op.Set(&lines, in.MaxOutputLines), op.Set(&size, in.MaxOutputBytes),
	)
	switch {
	case in.Shell == nil:
	case len(in.Shell) == 0, in.Shell[0] == "":
		err = errors.Join(&paddock.Error{Message: "Shell command must contain at least one argument."}, err)
	}
	switch {
	case in.MaxOutputLines != nil && lines == 0 || lines > 1<<31:
		err = errors.Join(err, &paddock.Error{Message: "max_output_lines must be positive."})
	case in.MaxOutputBytes != nil && (size == 0 || size > maxSessionOutput):
		err = errors.Join(err, &policy.FieldError{Field: "max_output_bytes", Reason: "it must be from 1 byte to 2MiB"})
	}
	o.CommandTimeout, o.StartupTimeout, o.TerminationTimeout = time.Duration(command), time.Duration(s.StartupTimeout), time.Duration(s.TerminationTimeout)
	o.MaxLines, o.MaxBytes = int64(lines), int64(size)
	return o, err
}

// Texts is a list of commands. In JSON it is a string or a list.
type Texts osstring.List

// UnmarshalJSON reads a string or a list of strings.
func (t *Texts) UnmarshalJSON(data []byte) error {
	var one osstring.String
	const takes = "startup_commands and shutdown_commands take a command, or a list of commands"
	if json.Unmarshal(data, &one) == nil {
		*t = Texts{string(one)}
		return nil
	}
	var list osstring.List
	if err := json.Unmarshal(data, &list); err != nil {
		return errors.New(takes)
	}
	*t = Texts(list)
	return nil
}

// OSText says that commands need not be UTF-8.
func (Texts) OSText() {}

// JSONSchema returns the schema of both forms.
func (Texts) JSONSchema() string {
	return `{"type": ["string", "array"], "items": {"type": "string"}, "description": "one command or several"}`
}

var errRuledSession = &paddock.Error{Message: "cannot open a session under rules for commands: what one command sets, another could use to get around them",
	Hint: "use paddock execute, which runs one command at a time, or leave the rules out: the walls hold all the same"}

// maxSessionOutput is the most that can be stored of a command's output, in bytes.
const maxSessionOutput = 2 << 20

// setSpan is like op.Set, for a duration that must be above 0.
func setSpan(field *policy.Duration, value *policy.Duration, name string) error {
	if value != nil && *value <= 0 {
		return &policy.FieldError{Field: name, Value: value.String(), Reason: "it must be above 0", Hint: "leave it out for the default"}
	}
	return op.Set(field, value)
}
