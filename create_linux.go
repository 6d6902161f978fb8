package paddock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/keep"
	"github.com/paddock-dev/paddock/backend/keep/order"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/backend/state/kept"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Create opens a sandbox that outlives this process: it belongs to a small process of its own,
// its keeper, and lasts until [Stop], until its time is up or until the keeper is killed. It has
// a record, which stays until [Remove]: [Start] starts a stopped one again.
//
// The returned Sandbox is attached, as by [Attach]: its Close only detaches.
//
// If this process is killed before Create returns, there is either the whole sandbox or nothing
// of it.
func Create(ctx context.Context, spec Spec, opts Options, what Lasting) (*Sandbox, error) {
	if err := what.check(); err != nil {
		return nil, err
	}
	if opts.ID == "" {
		opts.ID = backend.NewID()
	}
	if what.Scratch {
		dir, err := ScratchWorkspace(opts.ID, opts)
		if err != nil {
			return nil, err
		}
		spec.Workspace.Source, opts.scratch = dir, dir
	}
	l, err := opts.lasting(spec)
	if err != nil {
		return nil, err
	}
	sweepKept(ctx, l.state)
	r := l.record(opts.ID, what)
	entry, err := kept.ReserveOf(l.state, opts.ID, r.Key(), what.Most)
	switch {
	case errors.Is(err, kept.ErrTaken):
		return nil, &Error{Message: "cannot create sandbox " + what.Name + ": the name is taken", Code: wire.CodeExists,
			Hint: "choose another name, or remove it: paddock rm " + what.Name}
	case errors.Is(err, kept.ErrMany):
		return nil, &Error{Message: fmt.Sprintf("cannot create sandbox %s: there are %d already", what.Name, what.Most), Code: wire.CodeBusy, Hint: "remove one"}
	case err != nil:
		return nil, keptError("create", opts.ID, l.state, err)
	}
	if what.Scratch {
		err = os.Mkdir(opts.scratch, 0o700)
	}
	var s *Sandbox
	if err == nil {
		s, err = l.start(ctx, spec, opts, entry, r)
	}
	if err != nil {
		return nil, errors.Join(err, entry.Remove(r.Key()))
	}
	return s, nil
}

// record returns the record of a new sandbox.
func (l *lasting) record(id string, what Lasting) kept.Record {
	resolved := l.spec
	names := slices.Sorted(maps.Keys(resolved.Env))
	resolved.Env, resolved.Network = nil, resolved.Network.WithoutSources()
	r := kept.Record{ID: id, Name: what.Name, Labels: what.Labels, Principal: what.Principal, Served: what.Served, Scratch: what.Scratch, Spec: policy.StoredSpec(resolved), Secret: names,
		Created: time.Now().UTC(), Idle: what.Idle, Life: what.Life, Then: kept.ThenStop}
	if what.Remove {
		r.Then = kept.ThenRemove
	}
	return r
}

// ServedName returns what the functions of this package find a sandbox by that a server made for
// a principal ([Lasting].Served), and that has this name there.
func ServedName(principal, name string) string { return kept.Key(principal, name) }

// ScratchWorkspace returns the directory that the sandbox with this id has as its workspace if
// [Lasting].Scratch is set.
func ScratchWorkspace(id string, opts Options) (string, error) {
	root, _, err := opts.stateDir()
	if err != nil {
		return "", err
	}
	return kept.Scratch(root, id), nil
}

func (w Lasting) check() error {
	switch {
	case w.Served && w.Name == "":
		return &policy.FieldError{Field: "name", Reason: "it is missing"}
	case w.Name != "" && !kept.ValidName(w.Name):
		return &policy.FieldError{Field: "name", Value: w.Name,
			Reason: "a name has 1 to 64 letters, digits, dots, hyphens and underscores, starts with a letter or digit, and is not an id"}
	case w.Idle < 0:
		return &policy.FieldError{Field: "idle", Value: w.Idle.String(), Reason: "it must be above 0"}
	case w.Life < 0:
		return &policy.FieldError{Field: "lifetime", Value: w.Life.String(), Reason: "it must be above 0"}
	}
	for key, value := range w.Labels {
		if !kept.ValidName(key) || len(value) > 256 || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return &policy.FieldError{Field: "labels", Value: key, Reason: "a label is NAME=VALUE: the name as one of a sandbox, the value of at most 256 bytes without control characters"}
		}
	}
	return nil
}

// lasting is what a start of a persistent sandbox needs.
type lasting struct {
	state       string
	keeper, end string // programs
	spec        Spec   // resolved
}

// lasting checks whether such a sandbox can be made, and finds the programs.
func (o Options) lasting(spec Spec) (*lasting, error) {
	be, resolved, err := o.prepare(spec)
	if err != nil {
		return nil, err
	}
	if _, ok := be.(backend.Keepable); !ok {
		return nil, &policy.FieldError{Field: "backend", Value: be.Name(), Reason: "its sandboxes end with the process that opened them: the wall's command is a child of that process",
			Hint: "leave it out for the walls of the kernel; paddock run and paddock session work with it"}
	}
	if len(resolved.Network.Publish) > 0 {
		return nil, &policy.FieldError{Field: "publish", Value: strings.Join(resolved.Network.Publish, ","), Reason: "the process that listens on the host would end with this one",
			Hint: "leave it out, and publish it while you need it, with paddock forward"}
	}
	agent, err := o.agentPath()
	if err != nil {
		return nil, err
	}
	dir, seen, err := o.stateDir()
	if err != nil {
		return nil, err
	}
	l := &lasting{state: dir, spec: resolved}
	l.keeper, l.end, err = o.keeperPrograms(seen, agent)
	return l, err
}

// start starts the sandbox of a record, and hands it over to its keeper. It closes the entry if
// it succeeds.
func (l *lasting) start(ctx context.Context, spec Spec, opts Options, entry *kept.Entry, r kept.Record) (_ *Sandbox, err error) {
	keeper, err := keep.Start(l.keeper)
	if err != nil {
		return nil, err
	}
	opts.keeper, opts.reportUse, opts.Layer.Keep = keeper, r.Idle > 0, true
	s, err := Open(ctx, spec, opts)
	if err != nil {
		keeper.Abandon()
		return nil, err
	}
	r.Status, r.Boot, r.Started = kept.Running, kept.Boot(), time.Now().UTC()
	if err := s.handOver(keeper, l, entry, r); err != nil {
		s.keepsLayer = opts.Layer.Reopen
		err = errors.Join(err, s.Close())
		keeper.Abandon()
		return nil, err
	}
	s.leave()
	_ = entry.Sync() // it is the keeper's now, so that this is no reason to fail
	entry.Close()
	opts.keeper = nil
	return Attach(ctx, r.ID, opts)
}

// legacy is what the program needs that ends a sandbox with a keeper. Its files are numbered
// from 0 in the order in which the keeper has them after its own three.
type legacy struct {
	Wall   backend.Legacy    `json:"wall"`
	Files  int               `json:"files"`  // of the wall
	Before bool              `json:"before"` // there is a file with the state before commands ran
	Layer  bool              `json:"layer"`  // there is the lock of a layer
	Caches int               `json:"caches"` // files of caches
	Spec   policy.StoredSpec `json:"spec"`
}

// handOver hands the sandbox over to the keeper.
func (s *Sandbox) handOver(keeper *keep.Keeper, l *lasting, entry *kept.Entry, r kept.Record) error {
	wall, ok := s.wall.(backend.Heritable)
	if !ok {
		return &Error{Message: "cannot hand sandbox " + s.ID() + " over to its keeper: its backend does not support it"}
	}
	given, files, err := wall.Bequeath(s.lost)
	if err != nil {
		return err
	}
	own := legacy{Wall: given, Files: len(files), Spec: policy.StoredSpec(s.spec)}
	own.Spec.Env = nil
	if f := fileOf(s.kept); f != nil {
		own.Before, files = true, append(files, f)
	}
	if s.layer != nil {
		own.Layer, files = true, append(files, s.layer.File())
	}
	for _, u := range s.stays.used {
		own.Caches, files = own.Caches+1, append(files, u.File())
	}
	text, err := json.Marshal(own)
	if err != nil {
		return fmt.Errorf("cannot hand sandbox %s over: %w", s.ID(), err)
	}
	if err := hostpath.Replace(filepath.Join(state.Path(l.state, s.ID()), state.LegacyName), 0o600, text); err != nil {
		return keptError("create", s.ID(), l.state, err)
	}
	program, err := os.Open(l.end)
	if err != nil {
		return fmt.Errorf("cannot hand sandbox %s over: %w", s.ID(), err)
	}
	defer program.Close()
	socket, err := state.ListenKeeper(l.state, s.ID())
	if err != nil {
		return err
	}
	defer socket.Close()
	running, err := state.Read(state.Path(l.state, s.ID()))
	if err == nil {
		r.Agent = state.Process{PID: running.PID, Start: running.Start}
		r.Keeper.PID = keeper.PID()
		r.Keeper.Start, err = state.StartTime(r.Keeper.PID)
	}
	if err != nil {
		return keptError("create", s.ID(), l.state, err)
	}
	order := order.Kept{Process: given.Process, Idle: r.Idle, Life: r.Life, Argv: []string{"paddock", EndVerb, l.state, r.ID}, Env: endEnv()}
	if order.From, order.To, err = entry.Prepare(r); err != nil {
		return keptError("create", s.ID(), l.state, err)
	}
	return keeper.Keep(order, slices.Concat([]*os.File{program, socket, files[given.Control]}, files, []*os.File{entry.Lock()}))
}

// EndVerb is the first argument of the program that a keeper executes to end its sandbox.
const EndVerb = "end-kept"

// endEnv returns the variables that the program of the end gets: where things are, and nothing
// that could be secret.
func endEnv() []string {
	var env []string
	for _, name := range []string{"HOME", "PATH", "USER", "LANG", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
		AgentEnv, KeeperEnv, StateDirEnv, CacheDirEnv, CacheMaxEnv, "PADDOCK_AUDIT_SIZE", "PADDOCK_AUDIT_KEEP", "PADDOCK_PRIVILEGES"} {
		if value, ok := os.LookupEnv(name); ok && !strings.Contains(value, "://") { // a URL can hold a password
			env = append(env, name+"="+value)
		}
	}
	return env
}

// leave forgets a sandbox that the keeper has.
func (s *Sandbox) leave() {
	s.upkeep()
	s.stays.release()
	if s.kept != nil {
		s.kept.Release()
	}
	if s.layer != nil {
		s.layer.Release()
	}
	s.wall.(backend.Heritable).Leave()
}

// fileOf returns the locked file of a kept state, or nil.
func fileOf(u any) *os.File {
	if u, ok := u.(*state.Unreported); ok && u != nil {
		return u.File()
	}
	return nil
}

// keptError returns the error of the records of persistent sandboxes.
func keptError(verb, name, dir string, err error) error {
	if hint := hostpath.RoomHint(err, dir); hint != "" {
		return &Error{Message: "cannot " + verb + " sandbox " + name + ": " + err.Error(), Hint: hint}
	}
	switch {
	case errors.Is(err, kept.ErrUnknown), errors.Is(err, fs.ErrNotExist):
		return &Error{Message: "cannot " + verb + " sandbox " + name + ": no such sandbox", Code: wire.CodeNotFound, Hint: unknownHint(dir, name)}
	case errors.Is(err, kept.ErrBusy):
		return &Error{Message: "cannot " + verb + " sandbox " + name + ": " + err.Error(), Code: wire.CodeBusy, Hint: "try again"}
	}
	return fmt.Errorf("cannot %s sandbox %s: %w", verb, name, err)
}
