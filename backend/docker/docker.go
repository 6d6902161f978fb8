// Package docker builds sandboxes from containers of an engine: docker,
// podman, nerdctl, or what takes the same arguments. It drives the engine's
// command line, and links nothing of it.
//
// # Shape
//
// A spec becomes a container as data (container.go, mounts.go), whose command
// line is made in one place (args.go). "run -i" is the wall's command: the
// agent is process 1 of the container, and its pipe is the attached client's,
// owned by a keeper (package piped). Before the first request the engine is
// asked what it made, and the kernel too where it can be (verify.go,
// proc_linux.go); a difference ends the sandbox, unless the user's own extra
// arguments asked for it.
//
// # Life and death
//
// The container has a name and a label with the sandbox's id. The agent ends
// with its standard input, the keeper removes the container, and what both
// leave behind is removed by the next start. Its death is proved when the
// engine says that there is no such container; an engine that does not answer
// proves nothing.
//
// # Limits
//
// The wall is as good as the engine: who commands it has the host. Nothing is
// downloaded here, unless the user's extra arguments say "--pull".
package docker

import (
	"context"
	"sync"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// Backend is the docker backend. Its zero value is ready for use.
type Backend struct{}

// New returns the docker backend.
func New() *Backend { return &Backend{} }

// Name is "docker".
func (*Backend) Name() string { return policy.BackendDocker }

// open finds the engine that a spec names and the image in it.
func open(ctx context.Context, req backend.Request) (*engine, *image, error) {
	o := options(req.Spec)
	if err := checkImage(o.Image); err != nil {
		return nil, nil, err
	}
	mounts, err := hostpath.Mounts(req, policy.WorkspacePath)
	if err != nil {
		return nil, nil, err
	}
	c, err := findClient(o, req.StateDir, mounts)
	if err != nil {
		return nil, nil, err
	}
	var (
		wg     sync.WaitGroup
		img    *image
		imgErr error
	)
	wg.Go(func() { img, imgErr = (&engine{client: c}).image(ctx, o.Image) })
	e, err := c.reach(ctx)
	wg.Wait()
	if err == nil && imgErr != nil && wantsPull(o.ExtraRunArgs) {
		if err = e.pull(ctx, o.Image); err == nil {
			img, imgErr = e.image(ctx, o.Image)
		}
	}
	if err == nil {
		err = imgErr
	}
	return e, img, err
}
