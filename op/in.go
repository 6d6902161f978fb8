package op

import (
	"context"
	"errors"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
)

// InSandbox is how operations that work in a sandbox ask which one.
type InSandbox struct {
	Sandbox string `json:"sandbox,omitempty" flag:"sandbox" arg:"ID" help:"which sandbox (default: the one over the workspace)" max:"64"`
}

// held is a sandbox that an operation works in.
type held struct {
	*paddock.Sandbox
	// name is what its principal calls it.
	name string
	// secrets are those that were given to it.
	secrets secrets
}

// in does something in the sandbox that is meant. A door that lasts keeps it; for
// a single call a running one is attached to, or one is made over the default
// spec's workspace, or the current directory, which ends with the call.
func (e *Env) in(ctx context.Context, where InSandbox, do func(context.Context, *held) error) (err error) {
	if where.Sandbox != "" {
		s, err := paddock.Attach(ctx, where.Sandbox, e.Options)
		if err != nil {
			return err
		}
		return errors.Join(do(ctx, &held{Sandbox: s, name: where.Sandbox}), s.Close())
	}
	var spec policy.Spec
	if e.Default != nil {
		spec = *e.Default
	}
	s, err := e.Open(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return do(ctx, &held{Sandbox: s})
}
