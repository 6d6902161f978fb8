package paddock

import (
	"context"
	"fmt"
	"slices"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/obeyed"
	"github.com/paddock-dev/paddock/policy"
)

// toldSockets is how many sockets are named that a backend does not cover.
const toldSockets = 8

// coverSockets finds the sockets of the host that mounts of a request would show and that programs
// listen at, has the backend cover them, and has them compared at the end. What is not covered is
// among the losses.
func coverSockets(ctx context.Context, req *backend.Request, p *obeyed.Protection) error {
	spec := req.Spec
	if spec.Backend == policy.BackendHost || spec.Level == policy.LevelLandlock || spec.Workspace.Source == "" {
		return nil // without a wall, without Unix sockets inside, or not on this host
	}
	mounts, err := hostpath.Mounts(*req, policy.WorkspacePath)
	if err != nil {
		return nil //nolint:nilerr // the backend reports it
	}
	found, lost, err := hostpath.Sockets(ctx, *req, mounts, p.Tree().Sockets(ctx))
	if err != nil {
		return err
	}
	p.WatchSockets(found)
	p.Lost = slices.Concat(p.Lost, lost, hostpath.MountedSockets(mounts))
	if spec.Backend == policy.BackendLinux || spec.Backend == policy.BackendDocker {
		req.Sockets = found
		return nil
	}
	for i, s := range found {
		if i == toldSockets {
			p.Lost = append(p.Lost, fmt.Sprintf("%d more sockets that programs of the host listen at are not covered", len(found)-i))
			break
		}
		p.Lost = append(p.Lost, "commands may connect to "+text.Escape(s.Path)+", where a program of the host listens: backend "+spec.Backend+" covers no sockets")
	}
	return nil
}
