//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/wire"
)

// Start builds the wall and starts an agent behind it.
//
// The agent's program starts while this side still makes its plan, so that
// neither waits for the other; what the plan needs of the host (id-mapped
// mounts) follows the agent through its control socket.
func (b *Backend) Start(ctx context.Context, req backend.Request) (backend.Sandbox, error) {
	go warm()
	mounts, err := userMounts(req.Spec)
	if err != nil {
		return nil, err
	}
	dir, err := newStateDir(req.StateDir)
	if err != nil {
		return nil, err
	}
	id, err := chooseIdentity()
	if err == nil && id.kind == idmap {
		id.uid, err = dir.lendUID()
		id.gid = id.uid
	}
	var s *sandbox
	if err == nil {
		s, err = start(ctx, req, dir, id, mounts)
	}
	var unmapped *unmappedError
	if errors.As(err, &unmapped) {
		// The next step of the ladder: the owner of what was named, if that is
		// one ordinary user.
		if id, err = asOwner(mounts); err == nil {
			s, err = start(ctx, req, dir, id, mounts)
		} else {
			err = fail("identity", "map the owner of", unmapped.source, fmt.Errorf("%w (%w)", err, unmapped.err),
				"use a workspace on ext4, xfs, btrfs or tmpfs, or one that an ordinary user owns, or run paddock as that user")
		}
	}
	if err != nil {
		dir.remove()
		return nil, err
	}
	return s, nil
}

// warm builds what encoding takes while the kernel and the agent are at work.
func warm() {
	_ = wire.WriteLine(io.Discard, confine.Boot{Plan: &confine.Plan{Setup: make([]confine.Step, 1)}})
	wire.Warm()
}

// start makes one attempt with one identity. What it leaves behind on failure
// is the state directory alone.
func start(ctx context.Context, req backend.Request, dir *stateDir, id identity, mounts []userMount) (*sandbox, error) {
	l := &launch{dir: dir, id: id, namespaces: namespaces(req.Spec)}
	defer l.close()
	if err := l.open(req.Agent); err != nil {
		return nil, err
	}
	s, err := l.clone()
	if err != nil {
		return nil, err
	}
	err = s.prepare(req, id, mounts)
	if err == nil {
		err = s.boot(ctx)
	}
	if err != nil {
		s.kill()
		return nil, s.explain(err)
	}
	return s, nil
}

// prepare makes the plan, and opens what it hands over.
func (s *sandbox) prepare(req backend.Request, id identity, mounts []userMount) error {
	var err error
	if s.plan, err = newPlan(req.Spec, id, guardedBy(req), mounts); err != nil || id.kind != idmap {
		return err
	}
	for _, m := range mounts {
		f, err := idmapMount(m, id)
		if errors.Is(err, unix.ELOOP) {
			s.closeFiles()
			return fail("setup", "open", m.source, err, "a symbolic link has taken its place meanwhile")
		}
		if err != nil {
			s.closeFiles()
			return &unmappedError{m.source, err}
		}
		s.files = append(s.files, f)
	}
	return nil
}

// unmappedError is a path that cannot be id-mapped.
type unmappedError struct {
	source string
	err    error
}

func (e *unmappedError) Error() string { return e.source + " cannot be id-mapped: " + e.err.Error() }
func (e *unmappedError) Unwrap() error { return e.err }
