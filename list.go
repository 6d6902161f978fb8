package paddock

import (
	"context"
	"fmt"
	"time"
)

// Running is a sandbox that runs, of this process or of another one of the same user
// with the same directory of state.
type Running struct {
	// ID is what [Attach] takes.
	ID      string
	Backend string
	Since   time.Time
	// Ready is false while it is being started: then there is no Spec, and Attach
	// does not find it.
	Ready bool
	// Spec is what its owner asked for, without Env.
	Spec Spec
}

// List returns the sandboxes that run, the oldest first. Backends whose sandboxes have
// no directory of state are not in it.
func List(ctx context.Context, opts Options) ([]Running, error) {
	state, _, err := opts.stateDir()
	if err != nil {
		return nil, err
	}
	list, err := running(state)
	if err != nil {
		return nil, fmt.Errorf("cannot list the sandboxes: %w", err)
	}
	for i := range list {
		if spec, err := readSpec(ctx, state, list[i].ID); err == nil && list[i].Ready {
			list[i].Spec = spec
		} else {
			list[i].Ready = false
		}
	}
	return list, nil
}
