package paddock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/removal"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/layers"
	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/obeyed"
	"github.com/paddock-dev/paddock/policy"
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
	// attached says that another process owns it, and name is what it was found by.
	attached bool
	name     string
	// lasting are the options that it was attached with, if it is one of [Create].
	lasting *Options
	// principal is that of [Lasting], in the process that ends it.
	principal string
	// lost lists the files that commands can change although the host executes or
	// obeys them.
	lost []string
	// planted is Options.Planted.
	planted func(*Sandbox)
	// before is the state of the host before any command ran; nil: commands cannot
	// write anything of the host. kept is the same on disk.
	before *obeyed.Snapshot
	kept   run.Unreported
	state  string // the state directory
	// stays are the caches and the home that it uses; nil: attached.
	stays *stays
	// layer is that of an overlay, which this process has locked; nil: it has none, or is
	// attached. keepsLayer says that it stays after the end.
	layer      layers.Held
	keepsLayer bool
	discarded  int   // changes of the layer that ended with it
	uncounted  error // why discarded is not known
	upkeep     context.CancelFunc
	named      named // its network, if that is "allow"
	ports      published

	stopOnce sync.Once
	stopped  chan struct{} // closed when the fields below are final
	changes  Changes
	death    backend.Death
	stopErr  error
}

// Open builds the sandbox that spec describes and returns when it can run
// commands. ctx applies only until then.
//
// The error of an invalid spec is one or more *policy.FieldError, joined. The error of
// a wall that cannot be built here is a *backend.StartError. After an error nothing is
// left behind.
func Open(ctx context.Context, spec Spec, opts Options) (*Sandbox, error) {
	be, req, err := opts.request(spec)
	if err != nil {
		return nil, err
	}
	stays, err := opts.stay(ctx, &req, true)
	if err != nil {
		return nil, err
	}
	opts.showToolchains(&req)
	if err := opts.intercept(ctx, &req); err != nil {
		stays.release()
		return nil, err
	}
	begun, err := opts.start(ctx, be, &req)
	if err != nil {
		stays.release()
		failed := (*backend.StartError)(nil)
		switch {
		case len(req.Stored) == 0 || ctx.Err() != nil:
			return nil, err
		case stays.inside && errors.As(err, &failed) && (failed.Stage == "setup" || failed.Stage == "verify"):
			opts.Caches.Host = false
			return Open(ctx, spec, opts)
		case stays.auto: // a file system cannot be id-mapped, or commands have changed a cache meanwhile
			spec.Caches, opts.Caches = nil, CacheOptions{Principal: opts.Caches.Principal}
			s, again := Open(ctx, spec, opts)
			if again == nil {
				s.lost = append(s.lost, "caches: a start with them failed: "+err.Error())
			}
			return s, again
		case !errors.As(err, &failed) || failed.Stage != "identity":
			return nil, err
		}
		own := *failed
		own.Hint = "leave `caches` and `home` out, which are root's and cannot be shown to other users here; or " + failed.Hint
		return nil, &own
	}
	s := newSandbox(begun.wall, req.Spec)
	s.layer, s.keepsLayer = begun.layer, opts.Layer.Keep
	s.search, s.discreet, s.stays = opts.Path, opts.NoLinks, stays
	s.planted, s.lost, s.before, s.state = opts.Planted, slices.Concat(losses(begun.protection), openings(req), stays.lost), begun.before, req.StateDir
	keeping, cancel := context.WithCancel(context.Background())
	s.upkeep = cancel
	stays.upkeep(keeping)
	if err = s.expectRedaction(ctx); err == nil {
		err = writeSpec(req.StateDir, s.ID(), req.Spec)
	}
	if err == nil { // again: a server that has begun to listen since looks at the specs that are written
		reached, rerr := refuseServers(req)
		s.lost, err = append(s.lost, reached...), rerr
	}
	if s.before != nil { // for the process that comes after this one was killed
		var kerr error
		if s.kept, kerr = run.KeepUnreported(req.StateDir, s.ID(), s.before.Encode()); kerr != nil {
			what := "cannot keep what was there before sandbox " + s.ID() + ": "
			if hint := hostpath.RoomHint(kerr, req.StateDir); hint != "" {
				kerr = &Error{Message: what + kerr.Error(), Hint: hint}
			} else {
				kerr = fmt.Errorf("%s%w", what, kerr)
			}
			err = errors.Join(err, kerr)
		}
	}
	if err == nil {
		err = s.publishAll()
	}
	if err == nil && opts.Unreported != nil {
		err = tellUnreported(ctx, run.TakeUnreported(req.StateDir, false), opts.Unreported)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// begun is a wall that was started, with what belongs to it.
type begun struct {
	wall       backend.Sandbox
	layer      layers.Held // of an overlay, else nil
	protection obeyed.Protection
	before     *obeyed.Snapshot // what was there before
}

// start protects what the host obeys, makes the layer of an overlay, and starts the wall.
func (o Options) start(ctx context.Context, be backend.Backend, req *backend.Request) (b begun, err error) {
	if b.layer, err = o.makeLayer(ctx, req); err != nil {
		return b, err
	}
	defer func() {
		switch {
		case err == nil || b.layer == nil:
		case o.Layer.Reopen:
			b.layer.Release()
		default:
			err = errors.Join(err, b.layer.Remove(context.WithoutCancel(ctx)))
		}
	}()
	if b.protection, err = o.protect(ctx, req); err == nil {
		err = coverSockets(ctx, req, &b.protection)
	}
	if err == nil {
		_, err = refuseServers(*req)
	}
	if err != nil {
		return b, err
	}
	if req.ID == "" {
		req.ID = backend.NewID()
	}
	started, err := o.remember(*req)
	if err != nil {
		return b, err
	}
	defer started()
	wait := before(ctx, *req, b.protection)
	b.wall, err = be.Start(ctx, *req)
	b.before = wait()
	return b, err
}

func newSandbox(wall backend.Sandbox, spec Spec) *Sandbox {
	s := &Sandbox{wall: wall, client: wire.Client{Dial: wall.Dial}, spec: spec, stopped: make(chan struct{})}
	s.openNamed()
	return s
}

// expectRedaction prepares the client for the redaction rules of the spec, if it has any,
// and asks the agent whether it was started with them: requests do not carry them, so
// another agent would show what the spec hides.
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
				Hint: "install paddock and paddock-agent from one release; a backend must pass on the rules of the spec"}
		}
	}
	return nil
}

// Client returns a client of the sandbox's agent, for what this package has no methods
// for: files, archives, shells, services, secrets. See package wire.
func (s *Sandbox) Client() *wire.Client { return &s.client }

// ID returns the sandbox's random name.
func (s *Sandbox) ID() string { return s.wall.ID() }

// Spec returns the spec, with the defaults filled in.
func (s *Sandbox) Spec() Spec { return s.spec }

// Isolation returns what really holds, as verified from outside.
func (s *Sandbox) Isolation() Isolation {
	held := s.wall.Isolation()
	own, lost := s.ports.told()
	held.Published, held.Lost = own, slices.Concat(held.Lost, s.lost, lost)
	if held.Egress != nil && s.named.client != nil { // rules can have changed
		rules := s.named.current()
		held.Network, held.Egress = rules.Mode, rules.Egress(held.Egress.How)
	}
	return held
}

// Done returns a channel that is closed when the sandbox has ended, by Close or by itself.
func (s *Sandbox) Done() <-chan struct{} { return s.wall.Done() }

// Planted returns the paths of [Changes].Planted. It is empty before [Sandbox.Close].
func (s *Sandbox) Planted() []string {
	var paths []string
	for _, c := range s.Changes().Planted {
		paths = append(paths, c.Path)
	}
	return paths
}

// Changes returns the files that the commands have made or changed and that programs of the
// host execute or obey. It is empty before [Sandbox.Close].
func (s *Sandbox) Changes() Changes {
	select {
	case <-s.stopped:
		return s.changes
	default:
		return Changes{}
	}
}

// Close kills everything inside and returns when the kernel has confirmed
// that no process is left. Later calls return the same result. For a sandbox
// of [Attach], Close only detaches from it.
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

// End is Close, which also ends a sandbox of [Create] that is attached. Other sandboxes of other
// processes cannot be ended: then it only detaches.
func (s *Sandbox) End() error {
	if s.lasting == nil {
		return s.Close()
	}
	death, err := s.force()
	if err == nil && !death.Proved {
		err = &Error{Message: "cannot prove that every process of sandbox " + s.ID() + " has ended"}
	}
	return err
}

// endWait is how long the keeper of a sandbox may take to end it.
const endWait = 2 * time.Minute

// force is stop, which also ends a sandbox of [Create] that is attached.
func (s *Sandbox) force() (backend.Death, error) {
	if s.lasting == nil {
		return s.stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	k, err := Stop(ctx, s.ID(), *s.lasting)
	_, _ = s.stop() // it only detaches
	return backend.Death{Proved: err == nil && (k.End == nil || k.End.Proved)}, err
}

// stop ends the sandbox once. It takes no context, because an impatient caller must
// not be able to leave processes behind.
func (s *Sandbox) stop() (backend.Death, error) {
	s.stopOnce.Do(func() {
		s.ports.close()
		s.death, s.stopErr = s.wall.Stop(context.Background(), 0)
		s.sweepStages()
		if s.stays != nil { // no command uses them any more
			s.upkeep()
			s.stays.release()
		}
		s.endLayer()
		if s.before != nil { // commands could write to the host
			s.changes = newChanges(s.ID(), s.before.Workspace(), s.before.Compare(context.Background()))
			s.changes.Principal = s.principal
			if held := s.wall.Isolation(); held.Backend == policy.BackendHost || held.Level == policy.LevelLandlock || slices.Contains(strings.Fields(held.Landlock), confine.FlagSockets) {
				s.changes.Sockets = nil // there is no wall, or they were closed all the time
			}
			s.compareGit()
		}
		if s.discarded > 0 || s.uncounted != nil {
			s.changes.Sandbox, s.changes.Workspace, s.changes.Discarded = s.ID(), s.spec.Workspace.Source, s.discarded
		}
		if s.uncounted != nil {
			s.changes.Unseen = append(s.changes.Unseen, "the overlay, whose changes ended with the sandbox: "+hostpath.Reason(s.uncounted))
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

// sweepStages removes what the agent had begun to unpack for a copy when it was killed. What
// another sandbox's agent unpacks over the same directory is locked, and stays.
func (s *Sandbox) sweepStages() {
	dir := s.spec.Workspace.Source
	if s.spec.Workspace.OnlyReads() {
		dir = layers.Upper(s.state, s.ID()) // "" of a copy, which is gone
	}
	if s.attached || !s.death.Proved || dir == "" {
		return
	}
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	for err == nil {
		var names []string
		names, err = f.Readdirnames(1024)
		for _, name := range names {
			if strings.HasPrefix(name, wire.StagePrefix) {
				_ = removal.Here(context.Background(), filepath.Join(dir, name)) // the next copy tries again
			}
		}
	}
}

// endLayer removes the layer of a sandbox that has ended, or lets others use it.
func (s *Sandbox) endLayer() {
	switch {
	case s.layer == nil:
	case s.keepsLayer || s.stopErr != nil || !s.death.Proved: // something may still write there
		s.layer.Release()
	default:
		ctx, cancel := context.WithTimeout(context.Background(), countTime)
		s.discarded, s.uncounted = s.layer.Count(ctx)
		cancel()
		s.stopErr = s.layer.Remove(context.Background())
	}
}

// countTime bounds how long the changes of a layer are counted before it is removed.
const countTime = 10 * time.Second

// Stats lists what is running in a sandbox, and its use of resources. Sandbox is nil if no
// control group counts all commands together. Fields that the group does not count are nil
// too.
type Stats = wire.UsageResult

// Stats asks the agent what is running. The numbers come from the agent and are not verified.
func (s *Sandbox) Stats(ctx context.Context) (Stats, error) {
	stats, err := wire.Call(ctx, &s.client, wire.Usage, wire.UsageRequest{})
	if err != nil {
		return Stats{}, agentError("read the statistics", err)
	}
	return stats, nil
}

// Freeze pauses every command of the sandbox, and returns when all of them have stopped.
// Timeouts keep running, and frozen commands can be killed. It fails if the backend cannot
// do it: the linux backend needs control groups.
func (s *Sandbox) Freeze(ctx context.Context) error {
	f, err := s.freezer()
	if err != nil {
		return err
	}
	return f.Freeze(ctx)
}

// Thaw lets the commands continue.
func (s *Sandbox) Thaw(ctx context.Context) error {
	f, err := s.freezer()
	if err != nil {
		return err
	}
	return f.Thaw(ctx)
}

func (s *Sandbox) freezer() (backend.Freezer, error) {
	if f, ok := s.wall.(backend.Freezer); ok {
		return f, nil
	}
	return nil, &Error{Message: "cannot freeze sandbox " + s.ID() + ": its backend has no means for it"}
}
