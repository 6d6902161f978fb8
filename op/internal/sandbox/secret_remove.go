package sandbox

import (
	"context"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

// SecretRemoveInput is secret_delete for the command line, where a sandbox comes first.
type SecretRemoveInput struct {
	op.InNamed
	Keys []string `json:"keys" arg:"KEY..." help:"the names of the secrets" max:"128"`
}

func (SecretRemoveInput) Desc() op.Desc {
	return op.Desc{
		Name: "secret_remove", CLI: []string{"secret", "rm"}, Summary: "Remove secrets of a sandbox",
		Doc: `Remove secrets from a sandbox: all that are named, or none if one of them is unknown.
What was started with a secret still has it, and its output still does not show it; the
output of what is started afterwards does.`,
		Examples: "  paddock secret rm web TOKEN",
		Local:    true, Hints: op.Hints{Frees: true, Destructive: true, Idempotent: true},
	}
}

// Do removes the secrets.
func (in SecretRemoveInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out registry.SecretOutput, err error) {
	if in.Sandbox != "" && len(in.Keys) == 0 {
		return out, &policy.FieldError{Field: "keys", Reason: "no secret is named", Hint: "paddock secret list " + policy.ShellWord(in.Sandbox) + " shows them"}
	}
	err = in.With(ctx, env, func(ctx context.Context, s *registry.Sandbox) error {
		out, err = deleteSecrets(ctx, s, in.Keys)
		return err
	})
	return out, err
}
