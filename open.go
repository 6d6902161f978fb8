package paddock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath/snapshot"
	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/wire"
)

// Sandbox is a workspace behind a wall, ready to run commands. All methods
// may be called concurrently. It lives until [Sandbox.Close], or until the
// calling process ends, however that happens.
type Sandbox struct {
	wall   backend.Sandbox
	client wire.Client
	spec   Spec
	// search is Options.Path, and discreet Options.NoLinks: hints do not say where things
	// of this host are.
	search   string
	discreet bool
	// attached says that another process owns it.
	attached bool
	// lost is what is open to commands of what the host executes or obeys.
	lost []string
	// planted is Options.Planted.
	planted func(*Sandbox)
	// before is what was there of the host's before any command; nil: nothing of
	// it can be written. kept is the same on disk.
	before *snapshot.Snapshot
	kept   run.Unreported
	state  string // the directory of state

	stopOnce sync.Once
	stopped  chan struct{} // closed once those below are final
	changes  Changes
	death    backend.Death
	stopErr  error
}

// Open builds the sandbox that spec describes and returns when it can run
// commands. ctx bounds the building alone.
//
// A spec that makes no sense is one or more *policy.FieldError, joined; a
// wall that cannot be built here is a *backend.StartError. After an error
// nothing is left behind.
func Open(ctx context.Context, spec Spec, opts Options) (*Sandbox, error) {
	be, req, err := opts.request(spec)
	if err != nil {
		return nil, err
	}
	protection, err := opts.protect(ctx, &req)
	if err != nil {
		return nil, err
	}
	if err := opts.remember(req); err != nil {
		return nil, err
	}
	wait := before(ctx, req, protection)
	wall, err := be.Start(ctx, req)
	found := wait()
	if err != nil {
		return nil, err
	}
	s := newSandbox(wall, req.Spec)
	s.search, s.discreet = opts.Path, opts.NoLinks
	s.planted, s.lost, s.before, s.state = opts.Planted, losses(protection), found, req.StateDir
	if err = s.expectRedaction(ctx); err == nil {
		err = errors.Join(writeSpec(req.StateDir, s.ID(), req.Spec), s.keepBefore(req.StateDir))
	}
	if err == nil && opts.Unreported != nil {
		err = tellUnreported(ctx, run.TakeUnreported(req.StateDir, false), opts.Unreported)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func newSandbox(wall backend.Sandbox, spec Spec) *Sandbox {
	return &Sandbox{wall: wall, client: wire.Client{Dial: wall.Dial}, spec: spec, stopped: make(chan struct{})}
}

// expectRedaction prepares the client for the redaction rules of the spec, if it has any,
// and asks the agent whether it was started with them: requests do not carry them, so
// that another agent would show what the spec hides.
func (s *Sandbox) expectRedaction(ctx context.Context) error {
	if len(s.spec.Redaction) == 0 {
		return nil
	}
	s.client.Framed = true
	hello, err := s.client.Hello(ctx)
	if err != nil {
		return agentError("ask the agent for its redaction rules", err)
	}
	for _, rule := range s.spec.Redaction {
		if !slices.Contains(hello.Redaction, rule.Name) {
			return &Error{Message: "cannot use the agent: it was started without the redaction rule " + rule.Name,
				Hint: "install paddock and paddock-agent from one release; a backend must hand on the rules of the spec"}
		}
	}
	return nil
}

// Client speaks to the sandbox's agent, for what this package has no words for:
// files, archives, shells, services, secrets. See package wire.
func (s *Sandbox) Client() *wire.Client { return &s.client }

// ID is the sandbox's random name.
func (s *Sandbox) ID() string { return s.wall.ID() }

// Spec is what was asked for, with the defaults filled in.
func (s *Sandbox) Spec() Spec { return s.spec }

// Isolation is what really holds, as verified from outside.
func (s *Sandbox) Isolation() Isolation {
	held := s.wall.Isolation()
	held.Lost = slices.Concat(held.Lost, s.lost)
	return held
}

// Done is closed when the sandbox has ended, by Close or by itself.
func (s *Sandbox) Done() <-chan struct{} { return s.wall.Done() }

// Planted lists the paths of [Changes].Planted. It is known after
// [Sandbox.Close], and empty before.
func (s *Sandbox) Planted() []string {
	var paths []string
	for _, c := range s.Changes().Planted {
		paths = append(paths, c.Path)
	}
	return paths
}

// Changes is what the commands have made or changed of what programs of the
// host execute or obey. It is known after [Sandbox.Close], and empty before.
func (s *Sandbox) Changes() Changes {
	select {
	case <-s.stopped:
		return s.changes
	default:
		return Changes{}
	}
}

// Close kills everything inside and returns when the kernel has confirmed
// that no process is left. Later calls return what the first one did. A sandbox
// of [Attach] is only let go of.
func (s *Sandbox) Close() error {
	death, err := s.stop()
	if err != nil {
		return fmt.Errorf("cannot close sandbox %s: %w", s.ID(), err)
	}
	if !death.Proved && !s.attached {
		return &Error{Message: "cannot prove that every process of sandbox " + s.ID() + " has ended"}
	}
	return nil
}

// stop ends the sandbox once. It takes no context: a caller in a hurry must
// not be able to leave processes behind.
func (s *Sandbox) stop() (backend.Death, error) {
	s.stopOnce.Do(func() {
		s.death, s.stopErr = s.wall.Stop(context.Background(), 0)
		if s.before != nil { // commands could write to the host
			s.changes = newChanges(s.ID(), s.before.Workspace(), s.before.Compare(context.Background()))
			s.compareGit()
		}
		close(s.stopped)
		if s.planted != nil && !s.changes.Empty() {
			s.planted(s)
		}
		if s.kept != nil {
			s.kept.Forget()
		}
	})
	return s.death, s.stopErr
}
