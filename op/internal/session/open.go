package session

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	shellpolicy "github.com/paddock-dev/paddock/policy/execution"
	"github.com/paddock-dev/paddock/policy/specfile"
)

// Texts is a list of commands, written as one string or several.
type Texts []string

// UnmarshalJSON reads a string or a list of strings.
func (t *Texts) UnmarshalJSON(data []byte) error {
	var one string
	const takes = "startup_commands and shutdown_commands take a command, or a list of commands"
	if string(data) == "null" {
		return errors.New(takes)
	}
	if json.Unmarshal(data, &one) == nil {
		*t = Texts{one}
		return nil
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return errors.New(takes)
	}
	*t = list
	return nil
}

// JSONSchema is for [Schematic].
func (Texts) JSONSchema() string {
	return `{"type": ["string", "array"], "items": {"type": "string"}, "description": "one command or several"}`
}

// SessionFields describe a session: a sandbox, and the shell in it. An execution policy
// describes both; fields override it.
type SessionFields struct {
	op.SpecInput
	Policy             string           `json:"policy,omitempty" flag:"policy" arg:"FILE" complete:"file" help:"read an execution policy from a YAML or JSON file; flags override it" within:"files"`
	Shell              []string         `json:"shell_command,omitempty" flag:"shell" arg:"WORD" help:"the shell and its arguments, a POSIX shell; once for each word (default: /bin/bash, or /bin/sh where there is none)"`
	Cwd                string           `json:"cwd,omitempty" flag:"cwd" arg:"DIR" help:"where the shell begins, relative to the workspace (default: the workspace)"`
	StartupCommands    Texts            `json:"startup_commands,omitempty" flag:"startup" arg:"COMMAND" help:"run this first in each new shell; it must succeed (may be repeated)"`
	ShutdownCommands   Texts            `json:"shutdown_commands,omitempty" flag:"shutdown" arg:"COMMAND" help:"run this at the end (may be repeated)"`
	CommandTimeout     *policy.Duration `json:"command_timeout,omitempty" flag:"command-timeout" arg:"DUR" help:"end a command after this time, and keep the shell where that is possible (default: --timeout, else 30s)"`
	StartupTimeout     *policy.Duration `json:"startup_timeout,omitempty" flag:"startup-timeout" arg:"DUR" help:"time of the shell's start, and of each startup command (default: 30s)"`
	TerminationTimeout *policy.Duration `json:"termination_timeout,omitempty" flag:"termination-timeout" arg:"DUR" help:"time that the shell has to end by itself (default: 10s)"`
	MaxOutputLines     *uint64          `json:"max_output_lines,omitempty" flag:"max-output-lines" arg:"N" help:"lines that are kept of a command's output (default: 100; a server keeps all that there is room for, and shows its beginning and end)"`
	MaxOutputBytes     *policy.Size     `json:"max_output_bytes,omitempty" flag:"max-output-bytes" arg:"SIZE" help:"bytes that are kept of a command's output, at most 2MiB (default: --max-output, else 1MiB)"`
	RedactValues       []string         `json:"redact_values,omitempty" flag:"redact-value" arg:"VALUE" secret:"all" help:"replace this by [REDACTED] in all output (may be repeated)"`
}

// plan puts the policy, the spec file and the fields together.
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
	if p.Spec, err = in.Over(ctx, env, p.Spec); err != nil {
		return p, err
	}
	if p.Spec.Commands != nil {
		return p, errRuledSession
	}
	p.Bounded = in.bounded() || s.MaxOutputLines > 0 || s.MaxOutputBytes > 0
	p.Opts, err = in.options(s, p.Spec)
	p.Opts = env.BoundSession(p.Opts)
	if in.Timeout != nil {
		p.Start = env.BoundTime(registry.TimeLimit{Span: time.Duration(*in.Timeout), From: registry.FromCall})
	}
	return p, err
}

// bounded says that a field bounds a command's output.
func (in SessionFields) bounded() bool { return in.MaxOutputLines != nil || in.MaxOutputBytes != nil }

var errRuledSession = &paddock.Error{Message: "cannot open a session under rules for commands: what one command sets, another could use to get around them",
	Hint: "use paddock execute, which runs one command at a time, or leave the rules out: the walls hold all the same"}

// options are what the shell is opened with: the fields' word, else the
// policy's, else the spec's.
func (in SessionFields) options(s shellpolicy.Session, spec policy.Spec) (paddock.SessionOptions, error) {
	o := paddock.SessionOptions{Shell: in.Shell, Dir: in.Cwd, Startup: in.StartupCommands, Shutdown: in.ShutdownCommands, Redact: in.RedactValues}
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
		in.shell(),
		setSpan(&command, in.CommandTimeout, "command_timeout"),
		setSpan(&s.StartupTimeout, in.StartupTimeout, "startup_timeout"),
		setSpan(&s.TerminationTimeout, in.TerminationTimeout, "termination_timeout"),
		op.Set(&lines, in.MaxOutputLines), op.Set(&size, in.MaxOutputBytes),
	)
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

// maxSessionOutput is the most that is kept of a command's output.
const maxSessionOutput = 2 << 20

func (in SessionFields) shell() error {
	if in.Shell == nil {
		return nil
	}
	if len(in.Shell) == 0 || in.Shell[0] == "" {
		return &paddock.Error{Message: "Shell command must contain at least one argument."}
	}
	return nil
}

// setSpan is set for times of which none can be 0.
func setSpan(field *policy.Duration, value *policy.Duration, name string) error {
	if value != nil && *value <= 0 {
		return &policy.FieldError{Field: name, Value: value.String(), Reason: "it must be above 0", Hint: "leave it out for the default"}
	}
	return op.Set(field, value)
}
