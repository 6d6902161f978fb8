//go:build linux

// Package linux builds sandboxes from the kernel's own parts: namespaces, a
// private mount tree, seccomp and an unprivileged identity. It needs no root,
// no daemon and no set-id helper.
//
// # Shape
//
// [Backend.Plan] turns a spec into a confine.Plan, which describes the wall
// completely; the new process applies it to itself. Start opens the files that
// the plan needs, clones the agent into its namespaces, sends it the plan, and
// then reads from the kernel whether the walls are in place (verify.go) before it
// sends a request.
//
// # Life and death
//
// The agent is PID 1 of the sandbox: its end is the end of every process
// inside, and the kernel reports it only when they are gone. It dies with the
// process that started it, by a parent-death signal and by the closing of its
// lifeline. The next start removes what a killed process left on disk (state.go).
//
// # Identities
//
// An ordinary user's own id is mapped to 1000 inside. Root lends each sandbox
// a host id that nothing else uses, and shows the workspace through an id-mapped
// mount, so that files keep their owner (identity.go).
package linux

import (
	"context"
	"path/filepath"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

// Backend is the linux backend. Its zero value is ready for use.
type Backend struct{}

// New returns the linux backend.
func New() *Backend { return &Backend{} }

// Name returns "linux".
func (*Backend) Name() string { return "linux" }

// Plan returns what Start would do with a resolved spec, without doing it. The host
// id that root lends is chosen anew for each sandbox; the plan shows the first of
// the range.
func (b *Backend) Plan(_ context.Context, req backend.Request) (*confine.Plan, error) {
	mounts, err := hostpath.Mounts(req, workspaceDir)
	if err != nil {
		return nil, err
	}
	groups := lookForHierarchy()
	if wantsScope(groups, req.Spec.Limits) {
		groups = lookForScope(groups)
	}
	group := filepath.Join(groups.place.Dir, groupName("ID"))
	if req.Spec.Level == policy.LevelLandlock {
		id, err := landlockIdentity(req.Spec, mounts)
		if err != nil {
			return nil, err
		}
		d := &stateDir{Dir: &state.Dir{Root: req.StateDir, ID: "ID", Path: filepath.Join(req.StateDir, "sandboxes", "ID")}}
		p, err := landlockPlan(req, id, mounts, groups, group, d.scratchPath())
		if err != nil {
			return nil, err
		}
		return p.plan, nil
	}
	id, err := chooseIdentity()
	if err != nil {
		return nil, err
	}
	p, err := newPlan(req, id, mounts, groups, group)
	if err != nil {
		return nil, err
	}
	return p.plan, nil
}
