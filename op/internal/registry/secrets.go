package registry

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/wire"
)

// CheckSecrets returns an error if the sandbox has no secret of one of the names. The agent
// refuses such a name, too, but its error could be one about the command.
func (h *Sandbox) CheckSecrets(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	r, err := h.Client().ListSecrets(ctx)
	if err != nil {
		return Refusal("list the secrets", err)
	}
	for _, name := range names {
		if !slices.Contains(r.Names, name) {
			unknown := ErrNoSecret("use", name)
			unknown.Code = wire.CodeBadRequest // not found would be the command
			return unknown
		}
	}
	return nil
}

// Hide replaces the values of secrets in texts, as the agent does in its answers. Without an
// answer of the agent nothing of them is left.
func (h *Sandbox) Hide(ctx context.Context, texts ...string) []string {
	if len(texts) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, EndTime)
	defer cancel()
	hidden, err := h.Client().RedactTexts(ctx, texts...)
	if err != nil {
		return slices.Repeat([]string{redact.Placeholder}, len(texts)) // rather than with a secret
	}
	return hidden
}

// Environ returns the variables of a request: those that are always set, and those that are
// given. Later ones win.
func Environ(given []string, always map[string]string) map[string]string {
	env := maps.Clone(always)
	if env == nil {
		env = map[string]string{}
	}
	for _, text := range given {
		name, value, _ := strings.Cut(text, "=")
		env[name] = value
	}
	return env
}

// SecretOutput lists the secrets of a sandbox, never their values.
type SecretOutput struct {
	Names []string `json:"names"`
	// Path is the directory inside in which those of secret_set are files of their names; empty
	// if there are none.
	Path osstring.String `json:"path,omitempty"`
}

// Render writes the names of the secrets and the directory that they are in.
func (out SecretOutput) Render(w io.Writer) error {
	in := ""
	if out.Path != "" {
		in = " in " + string(out.Path)
	}
	line := "secrets" + in + ": " + strings.Join(out.Names, ", ")
	if len(out.Names) == 0 {
		line = "there are no secrets"
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

// ErrNoSecret returns the error of a secret that is unknown.
func ErrNoSecret(verb, name string) *paddock.Error {
	return &paddock.Error{Message: fmt.Sprintf("cannot %s secret %q: unknown name", verb, name), Code: wire.CodeNotFound,
		Hint: "paddock secret list names those that there are"}
}
