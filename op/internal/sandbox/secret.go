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

const secretDoc = `Secrets are values that commands may use and that answers never show. In the
sandbox each is a file with its name below the path in the answer, which commands
can read: $(cat PATH/NAME). exec, shell_open and service_start can also pass them as
environment variables (secret_env). From then on [REDACTED] replaces the value
wherever it is printed, in output, logs and errors. A program that encodes the value
differently is not detected, nor is a file that commands write it to. Secrets exist
as long as the sandbox.`

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
		Name: "secret_list", Summary: "List the names of a sandbox's secrets",
		Doc:     secretDoc + "\n\nThe answer has the names and the path, never a value.",
		Lasting: true, Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

func (SecretDeleteInput) Desc() op.Desc {
	return op.Desc{
		Name: "secret_delete", Summary: "Delete secrets of a sandbox",
		Doc: secretDoc + `

The files are removed, and the values are no longer replaced in output. A process
that has read a secret still has it. The answer has the names that are left.`,
		Lasting: true, Hints: op.Hints{Frees: true, Destructive: true, Idempotent: true},
	}
}

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

func (in SecretDeleteInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out registry.SecretOutput, err error) {
	if len(in.Names) == 0 {
		return out, &policy.FieldError{Field: "names", Reason: "it is missing"}
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

func (in SecretListInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out registry.SecretOutput, err error) {
	err = env.WithSandbox(ctx, in.InSandbox, func(_ context.Context, s *registry.Sandbox) error {
		out = s.SecretNames()
		return nil
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
