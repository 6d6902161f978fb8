package paddock

import (
	"context"

	"github.com/paddock-dev/paddock/wire"
)

// SetSecrets stores secrets in the sandbox, by their names, which must be valid names of
// variables: all of them or none. They replace those of the same names. The values are in the
// memory of the sandbox's agent until it ends. From then on [REDACTED] replaces them in the
// output of everything but commands that run already and write straight to a file of the host. [Cmd.SecretEnv]
// passes them to commands, also in other processes that have the sandbox.
//
// A value has from 4 bytes to 64 KiB, in UTF-8 without NUL bytes; a sandbox has at most 128
// secrets, of 128 KiB together.
func (s *Sandbox) SetSecrets(ctx context.Context, secrets map[string]string) error {
	_, err := s.client.SetSecrets(ctx, wire.SetSecretsRequest{Secrets: secrets})
	return secretsError("set the secrets", err)
}

// Secrets returns the names of the stored secrets, sorted.
func (s *Sandbox) Secrets(ctx context.Context) ([]string, error) {
	r, err := s.client.ListSecrets(ctx)
	return r.Names, secretsError("list the secrets", err)
}

// DeleteSecrets removes stored secrets: all of those that are named or none. For an unknown
// name the error has the code [wire.CodeNotFound]. What was started with a secret keeps it, and its
// output still does not show it.
func (s *Sandbox) DeleteSecrets(ctx context.Context, names ...string) error {
	_, err := s.client.DeleteSecrets(ctx, names...)
	return secretsError("delete the secrets", err)
}

func secretsError(what string, err error) error {
	if err == nil {
		return nil
	}
	return agentError(what, err)
}
