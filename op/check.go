package op

import (
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

// CheckGiven is CheckPath for an optional path.
func CheckGiven(field string, path osstring.String) error {
	if path == "" {
		return nil
	}
	return CheckPath(field, path)
}

// CheckPath checks a path of the workspace, before a sandbox is opened for it.
func CheckPath(field string, text osstring.String) error {
	path := string(text)
	refuse := func(reason, hint string) error {
		return &policy.FieldError{Field: field, Value: path, Reason: reason, Hint: hint}
	}
	const where = "paths are relative to the workspace, or below /workspace; use a command for other places"
	switch {
	case strings.TrimSpace(path) == "":
		return refuse("it is empty", where)
	case strings.IndexByte(path, 0) >= 0:
		return refuse("it holds a NUL byte", "")
	case strings.HasPrefix(path, "/") && path != "/workspace" && !strings.HasPrefix(path, "/workspace/"):
		return refuse("it is outside the workspace", where)
	}
	for _, name := range strings.Split(path, "/") {
		if name == ".." {
			return refuse("it leads up with ..", where)
		}
	}
	return nil
}

// NameOr checks the name of a shell or a service. If made is true, an empty name is replaced
// by a random one.
func NameOr(field, name string, made bool) (string, error) {
	if name == "" && made {
		return strings.ToLower(rand.Text()[:12]), nil
	}
	if name == "" {
		return "", &policy.FieldError{Field: field, Reason: "it is missing: calls find it by its name"}
	}
	if !registry.ValidName(name) {
		return "", &policy.FieldError{Field: field, Value: name, Reason: registry.NameRule}
	}
	return name, nil
}

// DurationWithin returns the duration in a field, or a default. It must be above 0 and at most most.
func DurationWithin(field string, given *policy.Duration, otherwise, most time.Duration) (time.Duration, error) {
	if given == nil {
		return otherwise, nil
	}
	if d := time.Duration(*given); d > 0 && d <= most {
		return d, nil
	}
	return 0, &policy.FieldError{Field: field, Value: given.String(), Reason: "it must be above 0 and at most " + policy.Duration(most).String()}
}

// OneOf checks that a field is one of words, or empty, which is the default.
func OneOf(field, value string, words ...string) error {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	return &policy.FieldError{Field: field, Value: value, Reason: "it must be one of " + strings.Join(words, ", ")}
}

// AtLeastOne checks that a number is given and not 0.
func AtLeastOne(field string, n uint64) error {
	if n == 0 {
		return &policy.FieldError{Field: field, Reason: "it must be 1 at least"}
	}
	return nil
}

// CountOr returns *n, or otherwise if n is nil.
func CountOr(n *uint64, otherwise uint64) uint64 {
	if n == nil {
		return otherwise
	}
	return *n
}

// Defaults and bounds of what operations on shells return and wait for.
const (
	ShellChars   = 16000
	ShellTimeout = 30 * time.Second
	MaxTimeout   = 10 * time.Minute
	IdleDefault  = 300 // milliseconds
)
