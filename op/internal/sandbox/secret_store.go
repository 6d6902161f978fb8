package sandbox

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// SecretStoreInput is secret_set for the command line, where a value must be in no argument.
type SecretStoreInput struct {
	op.InNamed
	Key      string           `json:"key" arg:"KEY" help:"the secret's name, as that of an environment variable" max:"64"`
	FromEnv  *string          `json:"from_env,omitempty" flag:"from-env" arg:"VAR" help:"read the value from this variable of your environment"`
	FromFile *osstring.String `json:"from_file,omitempty" flag:"from-file" arg:"FILE" complete:"file" help:"read the value from a file"`
}

// SecretStoreOutput lists the secrets that the sandbox has now.
type SecretStoreOutput struct {
	registry.SecretOutput
	key string
}

// Render says that the secret is set.
func (out SecretStoreOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "secret %s is set\n", out.key)
	return err
}

func (SecretStoreInput) Desc() op.Desc {
	return op.Desc{
		Name: "secret_store", CLI: []string{"secret", "set"}, Summary: "Give a sandbox a secret",
		Doc: `Store a value in a sandbox under a name: commands can use it, and what they print does
not show it. The value is read from standard input, from a variable (--from-env) or from
a file (--from-file), never from an argument, which other processes of this host could
see. A line end at the end of the input or the file is left out. A value has from 4 bytes
to 64 KiB.

"paddock exec --secret-env KEY NAME -- CMD" passes it to a command as an environment
variable; "paddock shell" and "paddock service start" have the same flag. From now on
[REDACTED] replaces the value in what commands print, also in shells, services and
background commands that run already; a "paddock exec" that runs already is left alone.
The value is in the memory of the sandbox's agent and nowhere else: it ends with
"paddock stop".`,
		Examples: `  # from a program, a variable or a file
  pass show api-token | paddock secret set web TOKEN
  paddock secret set web TOKEN --from-env API_TOKEN
  paddock secret set web TOKEN --from-file ~/.config/api-token

  # for one command
  paddock exec --secret-env TOKEN web -- ./deploy`,
		Local: true, Hints: op.Hints{Destructive: true, Idempotent: true},
		Streams: op.Streams{In: true},
	}
}

// Do reads the value, and stores it in the sandbox's agent.
func (in SecretStoreInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out SecretStoreOutput, err error) {
	switch {
	case in.Sandbox == "":
		return out, in.With(ctx, env, nil) // says so
	case in.Key == "":
		return out, &policy.FieldError{Field: "key", Reason: "no secret is named", Hint: "paddock secret set NAME KEY"}
	case !op.VariableName(in.Key):
		return out, &policy.FieldError{Field: "key", Value: in.Key, Reason: op.BadVariable}
	}
	value, field, err := in.read(ctx, env, stream)
	if err != nil {
		return out, err
	}
	if reason := unfitValue(value); reason != "" && field != "" {
		return out, &policy.FieldError{Field: field, Reason: reason}
	} else if reason != "" {
		return out, &paddock.Error{Message: "cannot use standard input: " + reason, Code: wire.CodeBadRequest}
	}
	err = in.With(ctx, env, func(ctx context.Context, s *registry.Sandbox) error {
		out.key = in.Key
		out.SecretOutput, err = setSecrets(ctx, s, wire.SetSecretsRequest{Secrets: map[string]string{in.Key: value}})
		return err
	})
	return out, err
}

// read returns the value, and the field that says where it is from, if it is not standard input.
func (in SecretStoreInput) read(ctx context.Context, env *op.Env, stream *op.Stream) (value, field string, err error) {
	switch {
	case in.FromEnv != nil && in.FromFile != nil:
		return "", "", &policy.FieldError{Field: "from_file", Reason: "a variable is given, too", Hint: "give one of the two"}
	case in.FromEnv != nil:
		value, ok := env.Lookup(*in.FromEnv)
		if !ok {
			return "", "", &policy.FieldError{Field: "from_env", Value: *in.FromEnv, Reason: "no such variable is set"}
		}
		return value, "from_env", nil
	case in.FromFile != nil:
		if err := env.MayRead("from_file", string(*in.FromFile)); err != nil {
			return "", "", err
		}
		text, err := env.ReadFile(ctx, "from_file", "secret", string(*in.FromFile), wire.MaxSecretBytes+2)
		return withoutLineEnd(text), "from_file", err
	case stream.Ask != nil:
		return "", "", &paddock.Error{Message: "cannot read the secret: standard input is a terminal, which would show it", Code: wire.CodeBadRequest,
			Hint: "pipe the value in, or use --from-env VAR or --from-file FILE"}
	case stream.Stdin == nil:
		return "", "", nil
	}
	text, err := io.ReadAll(io.LimitReader(stream.Stdin, wire.MaxSecretBytes+3))
	if err != nil {
		return "", "", fmt.Errorf("cannot read the secret: %w", err)
	}
	return withoutLineEnd(text), "", nil
}

func withoutLineEnd(text []byte) string {
	line, ended := strings.CutSuffix(string(text), "\n")
	if ended {
		line = strings.TrimSuffix(line, "\r")
	}
	return line
}
