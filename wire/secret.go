package wire

import (
	"context"
	"maps"
	"slices"
)

// Bounds of the secrets that set_secrets stores.
const (
	// MaxSecrets is how many a sandbox can have.
	MaxSecrets = 128
	// MinSecretBytes and MaxSecretBytes bound a value, in bytes, without a line end at
	// its end: a shorter one would be replaced everywhere, and a longer one not be found.
	MinSecretBytes = 4
	MaxSecretBytes = 64 << 10
	// MaxSecretsBytes bounds the values of all, in bytes.
	MaxSecretsBytes = 128 << 10
	// MaxSecretEnv is how many secrets a request can name in secret_env.
	MaxSecretEnv = 64
)

// SetSecretsRequest stores secrets in the agent's memory, all of them or none. No answer
// has their values.
type SetSecretsRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	// Secrets are the values by their names, which are names of variables.
	Secrets map[string]string `json:"secrets"`
	// Replace removes all others.
	Replace bool `json:"replace,omitempty"`
	// Files also makes a file of each, which commands can read.
	Files bool `json:"files,omitempty"`
}

// ListSecretsRequest asks for the names of the secrets.
type ListSecretsRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
}

// DeleteSecretsRequest removes secrets, all of those that it names or none.
type DeleteSecretsRequest struct {
	Action    string   `json:"action"`
	KeepAlive bool     `json:"keep_alive,omitempty"`
	Names     []string `json:"names"`
}

// SecretsResult has the names of all secrets that are stored, sorted.
type SecretsResult struct {
	Names []string `json:"names"`
	// Path is the directory in which those with Files are; empty if there are none.
	Path OSString `json:"path,omitempty"`
}

// RedactTextsRequest asks for texts with the secrets of the sandbox replaced.
type RedactTextsRequest struct {
	Action    string   `json:"action"`
	KeepAlive bool     `json:"keep_alive,omitempty"`
	Texts     []string `json:"texts"`
}

// RedactTextsResult has the texts in the same order.
type RedactTextsResult struct {
	Texts []string `json:"texts"`
}

// SetSecrets stores secrets, and returns the names of all.
func (c *Client) SetSecrets(ctx context.Context, q SetSecretsRequest) (SecretsResult, error) {
	for _, name := range slices.Sorted(maps.Keys(q.Secrets)) {
		if err := checkUTF8("secrets", name, q.Secrets[name]); err != nil {
			return SecretsResult{}, err
		}
	}
	return secretsFromPeer(Call(ctx, c, SetSecrets, q))
}

// ListSecrets returns the names of the secrets.
func (c *Client) ListSecrets(ctx context.Context) (SecretsResult, error) {
	return secretsFromPeer(Call(ctx, c, ListSecrets, ListSecretsRequest{}))
}

// DeleteSecrets removes secrets, and returns the names of those that are left.
func (c *Client) DeleteSecrets(ctx context.Context, names ...string) (SecretsResult, error) {
	return secretsFromPeer(Call(ctx, c, DeleteSecrets, DeleteSecretsRequest{Names: names}))
}

// RedactTexts returns texts with the secrets of the sandbox replaced.
func (c *Client) RedactTexts(ctx context.Context, texts ...string) ([]string, error) {
	r, err := Call(ctx, c, RedactTexts, RedactTextsRequest{Texts: texts})
	if err == nil && len(r.Texts) != len(texts) {
		err = Errorf(CodeInternal, "cannot use the agent's result: it has %d texts for %d", len(r.Texts), len(texts))
	}
	if err != nil {
		return nil, err
	}
	return r.Texts, nil
}

// secretsFromPeer makes a list that came over the wire safe to print.
func secretsFromPeer(r SecretsResult, err error) (SecretsResult, error) {
	if err == nil && len(r.Names) > MaxSecrets {
		err = Errorf(CodeInternal, "cannot use the agent's result: it has %d secrets", len(r.Names))
	}
	if err != nil {
		return SecretsResult{}, err
	}
	for i, name := range r.Names {
		r.Names[i] = printable(name)
	}
	r.Path = OSString(printable(string(r.Path)))
	return r, nil
}
