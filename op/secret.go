package op

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Bounds of the secrets of a sandbox: what the agent can hide in output.
const (
	maxSecrets     = 128
	maxSecretBytes = 64 << 10  // of one
	maxSecretsAll  = 128 << 10 // of all
)

// SecretSetInput gives secrets to a sandbox.
type SecretSetInput struct {
	InSandbox
	Secrets map[string]string `json:"secrets" help:"the values by their names, which are those of environment variables" secret:"env"`
	Replace bool              `json:"replace,omitempty" help:"forget all secrets that are not given here"`
}

// SecretDeleteInput takes secrets away.
type SecretDeleteInput struct {
	InSandbox
	Names []string `json:"names" help:"which secrets" min:"1" max:"128"`
}

// SecretOutput is what secrets a sandbox has. Their values are never told.
type SecretOutput struct {
	Names []string `json:"names"`
	// Path is the directory inside in which each is a file of its name; empty
	// where there are none.
	Path string `json:"path,omitempty"`
}

const secretDoc = `Secrets are values that commands may use and that answers never show. In the
sandbox each is a file of its name below the path in the answer, readable to
commands: $(cat PATH/NAME). exec, shell_open and service_start also give them as
environment variables (secret_env). Wherever a value is printed afterwards, in output, logs
and errors, [REDACTED] stands in its place; a program that encodes it another way
is not caught, nor is a file that commands write it to. They live as long as the
sandbox.`

func secretOps() []Op {
	return []Op{
		New(Desc{
			Name: "secret_set", Summary: "Give secrets to a sandbox",
			Doc: secretDoc + `

Adds to those that are there, and replaces those of the same name; with replace
all others are forgotten. A value has 4 bytes to 64 KiB. The answer has the names
and the path, never a value.`,
			Lasting: true, Hints: Hints{Destructive: true, Idempotent: true},
		}, secretSet, renderSecrets),
		New(Desc{
			Name: "secret_list", Summary: "List the names of a sandbox's secrets",
			Doc:     secretDoc + "\n\nThe answer has the names and the path, never a value.",
			Lasting: true, Hints: Hints{ReadOnly: true, Idempotent: true},
		}, secretList, renderSecrets),
		New(Desc{
			Name: "secret_delete", Summary: "Take secrets away from a sandbox",
			Doc: secretDoc + `

The files are removed, and the values no longer replaced in output. What has read
a secret before keeps it. The answer has the names that are left.`,
			Lasting: true, Hints: Hints{Frees: true, Destructive: true, Idempotent: true},
		}, secretDelete, renderSecrets),
	}
}

func secretSet(ctx context.Context, env *Env, in SecretSetInput, _ *Stream) (out SecretOutput, err error) {
	if err := checkSecrets(in.Secrets); err != nil {
		return SecretOutput{}, err
	}
	err = env.in(ctx, in.InSandbox, func(ctx context.Context, s *held) error {
		out, err = s.changeSecrets(ctx, func(now map[string]string) error {
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

func secretDelete(ctx context.Context, env *Env, in SecretDeleteInput, _ *Stream) (out SecretOutput, err error) {
	if len(in.Names) == 0 {
		return out, &policy.FieldError{Field: "names", Reason: "there is none"}
	}
	err = env.in(ctx, in.InSandbox, func(ctx context.Context, s *held) error {
		out, err = s.changeSecrets(ctx, func(now map[string]string) error {
			for _, name := range in.Names {
				if _, ok := now[name]; !ok {
					return noSecret("delete", name)
				}
				delete(now, name)
			}
			return nil
		})
		return err
	})
	return out, err
}

func secretList(ctx context.Context, env *Env, in InSandbox, _ *Stream) (out SecretOutput, err error) {
	err = env.in(ctx, in, func(_ context.Context, s *held) error {
		out = s.secretNames()
		return nil
	})
	return out, err
}

func noSecret(verb, name string) error {
	return &paddock.Error{Message: fmt.Sprintf("cannot %s secret %q: there is none of that name", verb, name), Hint: "secret_list names those that there are", Code: wire.CodeNotFound}
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
		case !variableName(name):
			return refuse(name, badVariable)
		case len(shown) < minSecret:
			return refuse(name, "a value must have at least 4 bytes: shorter ones cannot be hidden in output")
		case len(value) > maxSecretBytes:
			return refuse(name, "a value must have at most 64 KiB: longer ones cannot be hidden in output")
		case strings.IndexByte(value, 0) >= 0:
			return refuse(name, "a value cannot hold a NUL byte")
		}
	}
	return nil
}

func variableName(name string) bool {
	for i, c := range []byte(name) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

func renderSecrets(w io.Writer, out SecretOutput) error {
	if len(out.Names) == 0 {
		_, err := fmt.Fprintln(w, "there are no secrets")
		return err
	}
	_, err := fmt.Fprintf(w, "secrets in %s: %s\n", out.Path, strings.Join(out.Names, ", "))
	return err
}
