package sandbox

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

type SecretSetInput struct {
	op.InSandbox
	Secrets map[string]string `json:"secrets" help:"the values by their names, which must be valid names of environment variables" secret:"env"`
	Replace bool              `json:"replace,omitempty" help:"remove all secrets that are not given here"`
}

type SecretListInput struct {
	op.InSandbox
}

type SecretDeleteInput struct {
	op.InSandbox
	Names []string `json:"names" help:"the names of the secrets" min:"1" max:"128"`
}

const secretDoc = `Secrets are values that commands may use and that answers never show: [REDACTED]
replaces the value wherever it is printed, in output, logs and errors. A program that
encodes the value differently is not detected, nor is a file that commands write it to.
Secrets exist as long as the sandbox.

In a tool call, each that secret_set adds is a file in the sandbox with its name below the
path in the answer, which commands can read: $(cat PATH/NAME). exec, shell_open,
session_open and service_start can also pass secrets as environment variables (secret_env).`

func (SecretSetInput) Desc() op.Desc {
	return op.Desc{
		Name: "secret_set", Summary: "Add secrets to a sandbox",
		Doc: secretDoc + `

Adds secrets, and replaces those with the same name; with replace all others are
removed. A value has from 4 bytes to 64 KiB. The answer has the names and the path,
never a value.`,
		Lasting: true, Hints: op.Hints{Destructive: true, Idempotent: true},
	}
}

func (SecretListInput) Desc() op.Desc {
	return op.Desc{
		Name: "secret_list", CLI: []string{"secret", "list"}, Summary: "List the names of a sandbox's secrets",
		Doc:      secretDoc + "\n\nThe answer has the names and the path, never a value. Secrets of \"paddock secret set\"\nare in no file.",
		Examples: "  paddock secret list web",
		Hints:    op.Hints{ReadOnly: true, Idempotent: true},
	}
}

func (SecretDeleteInput) Desc() op.Desc {
	return op.Desc{
		Name: "secret_delete", Summary: "Delete secrets of a sandbox",
		Doc: secretDoc + `

The files are removed, and the values are no longer replaced in the output of what is
started afterwards. A process that was started with a secret (secret_env) still has it,
and its output still does not show it. The answer has the names that are left.`,
		Lasting: true, Hints: op.Hints{Frees: true, Destructive: true, Idempotent: true},
	}
}

// Do stores the secrets in the sandbox's agent, in files as well.
func (in SecretSetInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out registry.SecretOutput, err error) {
	if err := checkSecrets(in.Secrets); err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		out, err = setSecrets(ctx, s, wire.SetSecretsRequest{Secrets: in.Secrets, Replace: in.Replace, Files: true})
		return err
	})
	return out, err
}

// setSecrets stores secrets in the sandbox's agent.
func setSecrets(ctx context.Context, s *registry.Sandbox, q wire.SetSecretsRequest) (registry.SecretOutput, error) {
	r, err := s.Client().SetSecrets(ctx, q)
	if full := (*wire.Error)(nil); errors.As(err, &full) && full.Code == wire.CodeTooLarge {
		return registry.SecretOutput{}, &policy.FieldError{Field: "secrets", Reason: "a sandbox has at most 128 secrets, of 128 KiB together"}
	}
	return secretOutput(r, registry.Refusal("set the secrets", err))
}

// secretOutput returns the output for an answer of the agent, or its error.
func secretOutput(r wire.SecretsResult, err error) (registry.SecretOutput, error) {
	if err != nil {
		return registry.SecretOutput{}, err
	}
	return registry.SecretOutput{Names: append([]string{}, r.Names...), Path: r.Path}, nil
}

// Do removes the secrets.
func (in SecretDeleteInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out registry.SecretOutput, err error) {
	if len(in.Names) == 0 {
		return out, &policy.FieldError{Field: "names", Reason: "it is missing"}
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		out, err = deleteSecrets(ctx, s, in.Names)
		return err
	})
	return out, err
}

// deleteSecrets removes secrets from the sandbox's agent.
func deleteSecrets(ctx context.Context, s *registry.Sandbox, names []string) (registry.SecretOutput, error) {
	r, err := s.Client().DeleteSecrets(ctx, names...)
	if unknown := (*wire.Error)(nil); errors.As(err, &unknown) && unknown.Code == wire.CodeNotFound {
		return registry.SecretOutput{}, registry.ErrNoSecret("delete", unknown.Object)
	}
	return secretOutput(r, registry.Refusal("delete the secrets", err))
}

// Do asks the agent for the names.
func (in SecretListInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out registry.SecretOutput, err error) {
	if err := in.Need(env); err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := s.Client().ListSecrets(ctx)
		out, err = secretOutput(r, registry.Refusal("list the secrets", err))
		return err
	})
	return out, err
}

// checkSecrets refuses invalid names, and values that could not be hidden in output.
func checkSecrets(given map[string]string) error {
	refuse := func(name, reason string) error {
		return &policy.FieldError{Field: policy.FieldPath("secrets", name), Reason: reason}
	}
	if len(given) == 0 {
		return &policy.FieldError{Field: "secrets", Reason: "it is missing"}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !op.VariableName(name) {
			return refuse(name, op.BadVariable)
		}
		if reason := unfitValue(given[name]); reason != "" {
			return refuse(name, reason)
		}
	}
	return nil
}

// unfitValue returns why a value cannot be a secret, or nothing.
func unfitValue(value string) string {
	switch shown := strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r"); {
	case len(shown) < op.MinSecret:
		return "a value must have at least 4 bytes: shorter ones cannot be hidden in output"
	case len(value) > wire.MaxSecretBytes:
		return "a value must have at most 64 KiB: longer ones cannot be hidden in output"
	case strings.IndexByte(value, 0) >= 0:
		return "a value cannot hold a NUL byte"
	case !utf8.ValidString(value):
		return "a value must be UTF-8 text"
	}
	return ""
}
