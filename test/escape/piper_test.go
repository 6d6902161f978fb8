//go:build linux

package escape

import (
	"context"
	"errors"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/piped"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// piper is a wall that is any command, with what Paddock puts behind each.
type piper []string

func (piper) Name() string { return policy.BackendWrapper }

func (piper) Probe(context.Context) backend.Report { return backend.Report{} }

func (piper) Plan(context.Context, backend.Request) (*confine.Plan, error) {
	return nil, errors.New("it is only started")
}

func (p piper) Start(ctx context.Context, req backend.Request) (backend.Sandbox, error) {
	l := req.Spec.Limits
	return piped.Start(ctx, req, piped.Wall{Backend: p.Name(), Argv: p, Agent: req.Agent, Guest: wire.Guest{
		Workspace: req.Spec.Workspace.Source, KernelFiles: confine.LandlockABI() >= confine.LandlockFilesABI, Rlimits: wire.GuestRlimits{OpenFiles: l.OpenFiles, FileSize: uint64(l.FileSize)},
	}})
}
