package registry

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// secrets are the secrets that were installed in a sandbox, by name. The agent accepts only a
// complete set and never returns it, so a copy is stored here, for adding to it.
type secrets struct {
	mu     sync.Mutex
	values map[string]string
	path   string // of their directory inside; empty before the first
}

// ChangeSecrets installs a changed set. If that fails, the old set stays installed.
func (h *Sandbox) ChangeSecrets(ctx context.Context, change func(map[string]string) error) (SecretOutput, error) {
	h.secrets.mu.Lock()
	defer h.secrets.mu.Unlock()
	next := maps.Clone(h.secrets.values)
	if next == nil {
		next = map[string]string{}
	}
	if err := change(next); err != nil {
		return SecretOutput{}, err
	}
	size := 0
	for _, value := range next {
		size += len(value)
	}
	if len(next) > maxSecrets || size > maxSecretsAll {
		return SecretOutput{}, &policy.FieldError{Field: "secrets", Reason: "a sandbox has at most 128 secrets, of 128 KiB together"}
	}
	archive, err := secretArchive(next)
	if err != nil {
		return SecretOutput{}, err
	}
	// If a caller gives up half-way, the agent and this record must not differ.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), EndTime)
	defer cancel()
	q := wire.InstallSecretsRequest{ArchiveSize: int64(len(archive))}
	r, err := wire.Upload(ctx, h.Client(), wire.InstallSecrets, q, bytes.NewReader(archive))
	if err != nil {
		return SecretOutput{}, Refusal("install the secrets", err)
	}
	h.secrets.values, h.secrets.path = next, string(r.Destination)
	return h.secrets.told(), nil
}

// secretArchive returns a set as the agent accepts it.
func secretArchive(values map[string]string) ([]byte, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(values[name])), Typeflag: tar.TypeReg})
		if err == nil {
			_, err = io.WriteString(t, values[name])
		}
		if err != nil {
			return nil, fmt.Errorf("cannot pack the secrets: %w", err)
		}
	}
	err := t.Close()
	return b.Bytes(), err
}

// SecretNames returns the names of the secrets that are installed, and where they are.
func (h *Sandbox) SecretNames() SecretOutput {
	h.secrets.mu.Lock()
	defer h.secrets.mu.Unlock()
	return h.secrets.told()
}

func (s *secrets) told() SecretOutput {
	out := SecretOutput{Names: slices.AppendSeq([]string{}, maps.Keys(s.values))}
	slices.Sort(out.Names)
	if len(out.Names) > 0 {
		out.Path = s.path
	}
	return out
}

// Hide replaces the values of secrets in a text, as the agent does in its answers.
func (h *Sandbox) Hide(text string) string {
	h.secrets.mu.Lock()
	var values []string
	for _, value := range h.secrets.values {
		values = append(values, strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r"))
	}
	h.secrets.mu.Unlock()
	set, err := redact.NewSet(values)
	if err != nil {
		return redact.Placeholder // rather than with a secret
	}
	return set.Text(text)
}

// WithSecrets returns the named secrets as variables, and then the given variables.
func (h *Sandbox) WithSecrets(given []string, named []string) ([]string, error) {
	h.secrets.mu.Lock()
	defer h.secrets.mu.Unlock()
	all := make([]string, 0, len(given)+len(named))
	for _, name := range named {
		value, ok := h.secrets.values[name]
		if !ok {
			return nil, ErrNoSecret("use", name)
		}
		all = append(all, name+"="+value)
	}
	return append(all, given...), nil
}

// Environ returns the variables that are added to the sandbox's environment: those that are
// always set, the named secrets, and those that are given. Later ones win.
func (h *Sandbox) Environ(given []string, named []string, always map[string]string) (map[string]string, error) {
	env := maps.Clone(always)
	if env == nil {
		env = map[string]string{}
	}
	all, err := h.WithSecrets(given, named)
	if err != nil {
		return nil, err
	}
	for _, text := range all {
		name, value, _ := strings.Cut(text, "=")
		env[name] = value
	}
	return env, nil
}

// Bounds of the secrets of a sandbox: as many as the agent can hide in output.
const (
	maxSecrets     = 128
	MaxSecretBytes = 64 << 10  // of one
	maxSecretsAll  = 128 << 10 // of all
)

// SecretOutput lists the secrets of a sandbox, never their values.
type SecretOutput struct {
	Names []string `json:"names"`
	// Path is the directory inside in which each is a file of its name; empty if there are none.
	Path string `json:"path,omitempty"`
}

// Render writes the names of the secrets and the directory that they are in.
func (out SecretOutput) Render(w io.Writer) error {
	if len(out.Names) == 0 {
		_, err := fmt.Fprintln(w, "there are no secrets")
		return err
	}
	_, err := fmt.Fprintf(w, "secrets in %s: %s\n", out.Path, strings.Join(out.Names, ", "))
	return err
}

// ErrNoSecret returns the error of a secret that is unknown.
func ErrNoSecret(verb, name string) error {
	return &paddock.Error{Message: fmt.Sprintf("cannot %s secret %q: unknown name", verb, name), Hint: "secret_list names those that there are", Code: wire.CodeNotFound}
}
