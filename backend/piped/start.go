//go:build linux

package piped

import (
	"context"

	"github.com/paddock-dev/paddock/backend"
)

// Start starts the wall and the agent behind it, and returns when that accepts
// requests and the wall was looked at. On error nothing is left behind.
func Start(_ context.Context, _ backend.Request, w Wall) (backend.Sandbox, error) {
	return nil, &backend.StartError{Stage: "keeper", Op: "start", Object: w.Backend, Cause: "it cannot be started yet"}
}
