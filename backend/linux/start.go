//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Start builds the wall and starts an agent behind it.
//
// The agent's program starts while this side still makes its plan, so that
// neither waits for the other; what the plan needs of the host (id-mapped
// mounts) follows the agent through its control socket.
//
// A spec of level full on a host that lets nobody make namespaces falls to the
// landlock level where it allows that by name.
func (b *Backend) Start(ctx context.Context, req backend.Request) (backend.Sandbox, error) {
	go wire.Warm()
	mounts, err := hostpath.Mounts(req, workspaceDir)
	if err != nil {
		return nil, err
	}
	dir, err := newStateDir(req.StateDir, req.ID)
	if err != nil {
		return nil, err
	}
	var s *sandbox
	if req.Spec.Level == policy.LevelLandlock {
		s, err = startLandlock(ctx, req, dir, mounts)
	} else {
		s, err = startFull(ctx, req, dir, mounts)
		if req.Spec.Allows(policy.DegradeNamespaces) && cannotNest(err) {
			s, err = startDegraded(ctx, req, dir, mounts, err)
		}
	}
	if err != nil {
		dir.remove()
		return nil, err
	}
	if err := s.save(&s.isolation); err != nil {
		_, _ = s.Stop(ctx, 0)
		return nil, err
	}
	return s, nil
}

// startFull goes down the ladder of identities: an id-mapped mount of the
// caller's, or the owner of what was named, if that is one ordinary user.
func startFull(ctx context.Context, req backend.Request, dir *stateDir, mounts []hostpath.Mount) (*sandbox, error) {
	id, err := chooseIdentity()
	if err == nil && id.kind == idmap {
		id.uid, err = dir.lendUID()
		id.gid = id.uid
	}
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, req, dir, id, mounts)
	var unmapped *unmappedError
	if !errors.As(err, &unmapped) {
		return s, err
	}
	if id, err = asOwner(mounts); err == nil {
		return start(ctx, req, dir, id, mounts)
	}
	return nil, backend.Failed("identity", "map the owner of", unmapped.source, fmt.Errorf("%w (%w)", err, unmapped.err),
		"use a workspace on ext4, xfs, btrfs or tmpfs, or one that an ordinary user owns, or run paddock as that user")
}

func startLandlock(ctx context.Context, req backend.Request, dir *stateDir, mounts []hostpath.Mount) (*sandbox, error) {
	id, err := landlockIdentity(req.Spec, mounts)
	if err == nil {
		err = dir.makeScratch(id, homeLinks(req.Home, mounts))
	}
	if err != nil {
		return nil, err
	}
	return start(ctx, req, dir, id, mounts)
}

// startDegraded is startLandlock for a spec that was written for more.
func startDegraded(ctx context.Context, req backend.Request, dir *stateDir, mounts []hostpath.Mount, cause error) (*sandbox, error) {
	req.Spec.Level = policy.LevelLandlock
	spec, err := req.Spec.Resolve(policy.Base{})
	if err != nil {
		return nil, errors.Join(cause, err)
	}
	req.Spec = spec
	s, err := startLandlock(ctx, req, dir, mounts)
	if err != nil {
		return nil, errors.Join(cause, err)
	}
	s.isolation.Degraded = append(s.isolation.Degraded, policy.DegradeNamespaces)
	return s, nil
}

// start makes one attempt with one identity. What it leaves behind on failure
// is the state directory alone.
func start(ctx context.Context, req backend.Request, dir *stateDir, id identity, mounts []hostpath.Mount) (*sandbox, error) {
	l := &launch{dir: dir, id: id, groups: findHierarchy()}
	l.scope = wantsScope(l.groups, req.Spec.Limits)
	if len(l.groups.place.Controllers) > 0 {
		name := groupName(dir.ID)
		dir.group = filepath.Join(l.groups.place.Dir, name)
		var err error
		if l.group, err = newControl(l.groups, name, id); err != nil {
			return nil, err
		}
	}
	if req.Spec.Level == policy.LevelFull {
		l.namespaces = namespaces(req.Spec)
	}
	defer l.close()
	if err := l.open(req.Agent); err != nil {
		l.group.remove()
		return nil, err
	}
	s, err := l.clone(ctx)
	if err != nil {
		l.group.remove()
		return nil, err
	}
	s.program = req.Agent
	err = s.prepare(req, id, mounts, l.groups)
	if err == nil {
		err = s.boot(ctx)
	}
	if err != nil {
		s.kill()
		s.group.remove()
		return nil, s.explain(err)
	}
	return s, nil
}

// prepare makes the plan, and opens what it hands over.
func (s *sandbox) prepare(req backend.Request, id identity, mounts []hostpath.Mount, groups hierarchy) error {
	var err error
	if req.Spec.Level == policy.LevelLandlock {
		s.plan, err = landlockPlan(req.Spec, id, req, mounts, groups, s.dir.group, s.dir.scratch)
	} else {
		s.plan, err = newPlan(req.Spec, id, req, mounts, groups, s.dir.group)
	}
	if err != nil || id.kind != idmap {
		return err
	}
	for _, m := range mounts {
		f, err := idmapMount(m, id, &s.helpers)
		if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ESTALE) {
			s.closeFiles()
			hint := "something else has taken its place meanwhile"
			if errors.Is(err, unix.ELOOP) {
				hint = "a symbolic link has taken its place meanwhile"
			}
			return backend.Failed("setup", "open", m.Source, err, hint)
		}
		if err != nil {
			s.closeFiles()
			return &unmappedError{m.Source, err}
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
