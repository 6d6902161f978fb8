// Package docker builds sandboxes from containers of an engine: docker,
// podman, nerdctl, or another with the same arguments. It runs the engine's
// command line, and links none of its packages.
//
// # Shape
//
// A spec becomes a container as data (container.go, mounts.go), whose command
// line is made in one place (args.go). "run -i" is the wall's command: the
// agent is process 1 of the container, and uses the pipe of the attached
// client, which a keeper owns (package piped). Before the first request the
// backend reads from the engine, and from the kernel if possible, which container
// was really made (verify.go, proc_linux.go). A difference ends the sandbox,
// unless the user's own extra arguments asked for it.
//
// # Life and death
//
// The container has a name and a label with the sandbox's id. The agent ends
// when its standard input ends, the keeper removes the container, and the next
// start removes what both leave behind. The container's death is proved when
// the engine says that it does not exist; an engine that does not answer proves
// nothing.
//
// # Limits
//
// The wall is as good as the engine: everybody who controls the engine controls the
// host. Nothing is downloaded unless the user's extra arguments have "--pull".
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

// Name returns "docker".
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
		if _, err = e.askWithin(ctx, pullTime, maxAnswer, "pull", o.Image); err == nil {
			img, imgErr = e.image(ctx, o.Image)
		} else {
			err = e.fail("pull the image", o.Image, err)
		}
	}
	if err == nil {
		err = imgErr
	}
	return e, img, err
}
