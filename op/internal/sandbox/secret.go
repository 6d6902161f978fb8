package sandbox

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

// SecretSetInput gives secrets to a sandbox.
type SecretSetInput struct {
	op.InSandbox
	Secrets map[string]string `json:"secrets" help:"the values by their names, which are those of environment variables" secret:"env"`
	Replace bool              `json:"replace,omitempty" help:"forget all secrets that are not given here"`
}

// SecretListInput names the sandbox whose secrets are listed.
type SecretListInput struct {
	op.InSandbox
}

// SecretDeleteInput takes secrets away.
type SecretDeleteInput struct {
	op.InSandbox
	Names []string `json:"names" help:"which secrets" min:"1" max:"128"`
}

const secretDoc = `Secrets are values that commands may use and that answers never show. In the
sandbox each is a file of its name below the path in the answer, readable to
commands: $(cat PATH/NAME). exec, shell_open and service_start also give them as
environment variables (secret_env). Wherever a value is printed afterwards, in output, logs
and errors, [REDACTED] stands in its place; a program that encodes it another way
is not caught, nor is a file that commands write it to. They live as long as the
sandbox.`

// Desc describes the operation secret_set.
func (SecretSetInput) Desc() op.Desc {
	return op.Desc{
		Name: "secret_set", Summary: "Give secrets to a sandbox",
		Doc: secretDoc + `

Adds to those that are there, and replaces those of the same name; with replace
all others are forgotten. A value has 4 bytes to 64 KiB. The answer has the names
and the path, never a value.`,
		Lasting: true, Hints: op.Hints{Destructive: true, Idempotent: true},
	}
}

// Desc describes the operation secret_list.
func (SecretListInput) Desc() op.Desc {
	return op.Desc{
		Name: "secret_list", Summary: "List the names of a sandbox's secrets",
		Doc:     secretDoc + "\n\nThe answer has the names and the path, never a value.",
		Lasting: true, Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Desc describes the operation secret_delete.
func (SecretDeleteInput) Desc() op.Desc {
	return op.Desc{
		Name: "secret_delete", Summary: "Take secrets away from a sandbox",
		Doc: secretDoc + `

The files are removed, and the values no longer replaced in output. What has read
a secret before keeps it. The answer has the names that are left.`,
		Lasting: true, Hints: op.Hints{Frees: true, Destructive: true, Idempotent: true},
	}
}

// Do runs the operation.
func (in SecretSetInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out registry.SecretOutput, err error) {
	if err := checkSecrets(in.Secrets); err != nil {
		return registry.SecretOutput{}, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		out, err = s.ChangeSecrets(ctx, func(now map[string]string) error {
			if in.Replace {
				clear(now)
			}
			maps.Copy(now, in.Secrets)
			return nil
		})
		return err
	})
	return out, err
}

// Do runs the operation.
func (in SecretDeleteInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out registry.SecretOutput, err error) {
	if len(in.Names) == 0 {
		return out, &policy.FieldError{Field: "names", Reason: "there is none"}
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		out, err = s.ChangeSecrets(ctx, func(now map[string]string) error {
			for _, name := range in.Names {
				if _, ok := now[name]; !ok {
					return registry.ErrNoSecret("delete", name)
				}
				delete(now, name)
			}
			return nil
		})
		return err
	})
	return out, err
}

// Do runs the operation.
func (in SecretListInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out registry.SecretOutput, err error) {
	err = env.WithSandbox(ctx, in.InSandbox, func(_ context.Context, s *registry.Sandbox) error {
		out = s.SecretNames()
		return nil
	})
	return out, err
}

// checkSecrets refuses what could not be hidden in output afterwards.
func checkSecrets(given map[string]string) error {
	refuse := func(name, reason string) error {
		return &policy.FieldError{Field: policy.FieldPath("secrets", name), Reason: reason}
	}
	if len(given) == 0 {
		return &policy.FieldError{Field: "secrets", Reason: "there is none"}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given[name]
		switch shown := strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r"); {
		case !op.VariableName(name):
			return refuse(name, op.BadVariable)
		case len(shown) < op.MinSecret:
			return refuse(name, "a value must have at least 4 bytes: shorter ones cannot be hidden in output")
		case len(value) > registry.MaxSecretBytes:
			return refuse(name, "a value must have at most 64 KiB: longer ones cannot be hidden in output")
		case strings.IndexByte(value, 0) >= 0:
			return refuse(name, "a value cannot hold a NUL byte")
		}
	}
	return nil
}
