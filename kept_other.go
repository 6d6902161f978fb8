//go:build !linux

package paddock

import (
	"context"

	"github.com/paddock-dev/paddock/internal/elsewhere"
)

var errElsewhere = &Error{Message: "cannot keep a sandbox: " + elsewhere.Problem, Hint: elsewhere.Hint}

// EndVerb is the first argument of the program that a keeper executes to end its sandbox.
const EndVerb = "end-kept"

// Create fails: there are no sandboxes here.
func Create(context.Context, Spec, Options, Lasting) (*Sandbox, error) { return nil, errElsewhere }

// Start fails.
func Start(context.Context, string, map[string]string, Options) (*Sandbox, error) {
	return nil, errElsewhere
}

// Find fails.
func Find(context.Context, string, Options) (Listed, error) { return Listed{}, errElsewhere }

// ListLasting finds none.
func ListLasting(context.Context, Options) ([]Listed, error) { return nil, nil }

// Stop fails.
func Stop(context.Context, string, Options) (Listed, error) { return Listed{}, errElsewhere }

// Remove fails.
func Remove(context.Context, string, bool, Options) (Listed, error) { return Listed{}, errElsewhere }

// EndKept fails.
func EndKept([]string, Options, func(Changes) string) error { return errElsewhere }

// Pause fails.
func Pause(context.Context, string, Options) (string, error) { return "", errElsewhere }

// Resume fails.
func Resume(context.Context, string, Options) error { return errElsewhere }

// ServedName returns "": no sandbox has it.
func ServedName(_, _ string) string { return "" }

// ScratchWorkspace fails.
func ScratchWorkspace(string, Options) (string, error) { return "", errElsewhere }

func (Options) attachGone(context.Context, string) error { return nil }
