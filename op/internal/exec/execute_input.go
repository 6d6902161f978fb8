package exec

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/command"
	"github.com/paddock-dev/paddock/policy/executor"
	"github.com/paddock-dev/paddock/policy/specfile"
)

// Words are either shell text, if there is one, or a command and its arguments. In JSON they
// are a string or a list.
type Words osstring.List

// UnmarshalJSON also accepts a string, as a list of one.
func (w *Words) UnmarshalJSON(data []byte) error {
	var text osstring.String
	if json.Unmarshal(data, &text) == nil {
		*w = Words{string(text)}
		return nil
	}
	if json.Unmarshal(data, (*osstring.List)(w)) != nil {
		return &policy.FieldError{Field: "command", Reason: "it must be a text or a list of texts"}
	}
	return nil
}

// OSText says that words need not be UTF-8.
func (Words) OSText() {}

// JSONSchema returns the schema of both forms.
func (Words) JSONSchema() string { return `{"type":["string","array"],"items":{"type":"string"}}` }

// Seconds is a duration that is written as a number of seconds, or with a unit: 90, 1.5,
// "2m".
type Seconds policy.Duration

// UnmarshalText reads a number of seconds or a duration.
func (s *Seconds) UnmarshalText(text []byte) error {
	d, reason := executor.Seconds(string(text))
	if reason != "" && strings.ContainsAny(string(text), "smh") {
		d = 0
		if err := d.UnmarshalText(text); err != nil {
			return err
		}
		d, reason = executor.Seconds(executor.FormatSeconds(d))
	}
	if reason != "" {
		return &policy.FieldError{Field: "timeout", Value: string(text), Reason: reason}
	}
	*s = Seconds(d)
	return nil
}

// UnmarshalJSON reads a number or a string.
func (s *Seconds) UnmarshalJSON(data []byte) error {
	text := string(data)
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	return s.UnmarshalText([]byte(text))
}

// JSONSchema returns the schema of both forms.
func (Seconds) JSONSchema() string {
	return `{"type":["string","number"],"pattern":"^[0-9]+([.][0-9]+)?(ms|s|m|h)?$","description":"a number of seconds, or with a unit: 90, 1.5, 2m"}`
}

// settings returns the spec with the configuration and the fields applied, and the
// configuration.
func (in ExecuteInput) settings(ctx context.Context, env *op.Env) (policy.Spec, executor.Config, error) {
	spec := env.DefaultSpec()
	var config executor.Config
	var errs []error
	err := errors.Join(env.MayRead("spec_file", string(in.SpecFile)), env.MayRead("config", string(in.Config)))
	if err != nil {
		return policy.Spec{}, executor.Config{}, err
	}
	if in.SpecFile != "" {
		spec, err = env.ReadSpec(ctx, "spec_file", string(in.SpecFile))
		errs = append(errs, err)
	}
	if in.Config != "" {
		var data []byte
		if data, err = env.ReadFile(ctx, "config", "configuration", string(in.Config), specfile.MaxSize); err == nil {
			config, err = specfile.DecodeConfig(string(in.Config), data)
		}
		errs = append(errs, err)
	}
	if in.Format != "" && in.Format != "text" && in.Format != formatJSON {
		errs = append(errs, &policy.FieldError{Field: "format", Value: in.Format, Reason: `it must be "text" or "json"`})
	}
	errs = append(errs, op.SetText(&spec.Workspace.Source, in.Workspace, "workspace"))
	if err := errors.Join(errs...); err != nil {
		return policy.Spec{}, executor.Config{}, err
	}
	return executor.Settle(config.Apply(spec)), config, nil
}

// variables returns the names of the variables that the spec and the caller set.
func (in ExecuteInput) variables(spec policy.Spec) []string {
	names := slices.Collect(maps.Keys(spec.Env))
	for _, text := range in.Env {
		name, _, _ := strings.Cut(text, "=")
		names = append(names, name)
	}
	return names
}

// environment returns the variables that the command gets in addition to the sandbox's: the
// executor's, overridden by the spec's, overridden by the caller's.
func (in ExecuteInput) environment(spec policy.Spec) ([]string, error) {
	env := executor.Environment(max(spec.Limits.Memory, spec.Limits.MemoryHigh))
	maps.Copy(env, spec.Env)
	var errs []error
	for i, text := range in.Env {
		name, value, ok := strings.Cut(text, "=")
		switch {
		case !ok:
			// The error does not repeat the text, which may be a secret without a name.
			errs = append(errs, &policy.FieldError{Field: "env[" + strconv.Itoa(i) + "]", Reason: "it is not NAME=VALUE"})
		case command.DangerousVariable(name) || executor.Reserved(name):
			errs = append(errs, &policy.FieldError{
				Field: policy.FieldPath("env", name), Reason: "it decides what programs load or execute, and the executor has rules for that",
				Hint: "leave it out",
			})
		default:
			env[name] = value
		}
	}
	// A spec checks the names and the bounds of variables.
	bare := policy.Spec{Workspace: policy.Workspace{Source: policy.WorkspacePath}, Env: env}
	if _, err := bare.Resolve(policy.Base{}); err != nil {
		errs = append(errs, err)
	}
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list, errors.Join(errs...)
}

// workingDir checks a directory, given relative to the workspace, and returns its path from
// there. It looks the path up beneath a handle of the workspace, name by name, so that
// neither ".." nor a link leads out. A refusal is the contract's text.
func workingDir(workspace, written string) (rel, refusal string) {
	const invalid = "Failed to validate working directory"
	written = strings.TrimPrefix(written, "/")
	if written == "" || written == "." {
		return ".", ""
	}
	root, err := os.OpenRoot(workspace)
	if err != nil || strings.ContainsRune(written, 0) {
		return "", invalid
	}
	defer root.Close()
	info, err := root.Stat(written)
	switch {
	case err == nil && !info.IsDir():
		return "", "Execution failed: the working directory is not a directory: /" + written
	case err == nil:
		return path.Clean(written), ""
	case errors.Is(err, fs.ErrNotExist):
		return "", "Working directory does not exist: /" + written
	}
	// Package os has no name for the error of a path that leads out of its root.
	if e := (*fs.PathError)(nil); errors.As(err, &e) && strings.Contains(e.Err.Error(), "escapes") {
		return "", "Working directory outside workspace is not allowed"
	}
	return "", invalid
}
