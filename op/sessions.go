package op

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Bounds of the sessions that a door keeps.
const (
	maxSessions          = 64
	maxPrincipalSessions = 16
)

// Sessions are the sessions of a door that lasts: each with a sandbox of its
// own. A principal finds its own alone. The zero value is ready; Close ends all.
type Sessions struct {
	mu     sync.Mutex
	open   map[sessionKey]*keptSession // nil while one is being opened
	closed bool
}

type sessionKey struct{ principal, id string }

// keptSession is a session, and what goes with it.
type keptSession struct {
	key     sessionKey
	sandbox *paddock.Sandbox
	shell   *paddock.Session
	plan    sessionPlan
	scratch string // the temporary workspace, empty where there is none
	shared  bool   // the sandbox is not its own
	called  string // what its principal calls the sandbox
}

// scratchPrefix begins the names of temporary workspaces.
const scratchPrefix = "paddock-session-"

// openSession opens a sandbox, and the session in it. Nothing is left where
// that fails.
func (e *Env) openSession(ctx context.Context, in SessionOpenInput, key sessionKey) (_ *keptSession, err error) {
	if where, shared, err := in.where(e); err != nil || shared {
		if err != nil {
			return nil, err
		}
		return e.openShared(ctx, in.SessionInput, key, where)
	}
	p, err := in.plan(ctx, e)
	if err != nil {
		return nil, err
	}
	k := &keptSession{key: key, plan: p}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close(ctx))
		}
	}()
	if p.spec.Workspace.Source == "" {
		if k.scratch, err = os.MkdirTemp("", scratchPrefix); err != nil {
			return nil, fmt.Errorf("cannot make a temporary workspace: %w", err)
		}
		p.spec.Workspace.Source = k.scratch
	}
	if k.sandbox, err = e.allowing(k.scratch).openFor(ctx, p.spec, p.start, &Stream{}); err != nil {
		return nil, err
	}
	k.called = k.sandbox.ID()
	if err := k.begin(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

// workspace is where the session's is: for a door that keeps sandboxes as commands
// find it, for who has this session alone the directory outside.
func (k *keptSession) workspace(e *Env) string {
	if e.Sandboxes != nil {
		return workspaceAt(k.sandbox.Isolation().Level, k.sandbox.Spec())
	}
	return k.sandbox.Spec().Workspace.Source
}

// begin opens the session in its sandbox.
func (k *keptSession) begin(ctx context.Context) (err error) {
	opts := k.plan.opts
	opts.ID = k.key.id
	if k.shell, err = k.sandbox.OpenSession(ctx, opts); err != nil {
		return err
	}
	// What the agent's defaults are is told where a bound has cut something.
	k.plan.opts.MaxLines, k.plan.opts.MaxBytes = orNumber(opts.MaxLines, 100), orNumber(opts.MaxBytes, 1<<20)
	if k.plan.opts.CommandTimeout == 0 {
		k.plan.opts.CommandTimeout = paddock.DefaultSessionTimeout
	}
	return nil
}

func orNumber(n, otherwise int64) int64 {
	if n == 0 {
		return otherwise
	}
	return n
}

// close ends the session, its sandbox, and its temporary workspace. When ctx
// ends, what the session still runs is not waited for.
func (k *keptSession) close(ctx context.Context) error {
	if k.shared {
		return k.leave(ctx)
	}
	var errs []error
	if k.sandbox != nil {
		defer context.AfterFunc(ctx, func() { _ = k.sandbox.Close() })() // close returns what it says, too
	}
	if k.shell != nil {
		errs = append(errs, k.shell.Close())
	}
	if k.sandbox != nil {
		errs = append(errs, k.sandbox.Close())
	}
	if k.scratch != "" {
		if err := os.RemoveAll(k.scratch); err != nil {
			errs = append(errs, fmt.Errorf("cannot remove the temporary workspace: %w", err))
		}
	}
	return errors.Join(errs...)
}

// principal is whose sessions are meant.
func (e *Env) principal() string {
	if e.Principal == nil {
		return ""
	}
	return e.Principal.Name
}

var errNoSessions = &paddock.Error{Message: "cannot keep a session: it would end with this call", Hint: "paddock session keeps one, and speaks JSON lines with --json"}

// reserve takes an id for a session that is being opened; an empty one is made up.
func (s *Sessions) reserve(principal, id string) (sessionKey, error) {
	key := sessionKey{principal, id}
	if s == nil {
		return key, errNoSessions
	}
	if key.id == "" {
		key.id = strings.ToLower(rand.Text())
	}
	if !sessionName(key.id) {
		return key, &paddock.Error{Message: "cannot open session " + fmt.Sprintf("%q", id) + ": its name may have 64 letters, digits, dots, lines and underscores, the first of them a letter or a digit"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := 0
	for k := range s.open {
		if k.principal == principal {
			own++
		}
	}
	_, taken := s.open[key]
	switch {
	case s.closed:
		return key, errNoSessions
	case taken:
		return key, &paddock.Error{Message: "cannot open session " + key.id + ": there is one of that name", Code: wire.CodeExists}
	case own >= maxPrincipalSessions || len(s.open) >= maxSessions:
		return key, &paddock.Error{Message: "cannot open another session: too many are open", Hint: "session_close ends one", Code: wire.CodeBusy}
	}
	if s.open == nil {
		s.open = map[sessionKey]*keptSession{}
	}
	s.open[key] = nil
	return key, nil
}

func sessionName(id string) bool {
	for i, c := range []byte(id) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return id != "" && len(id) <= 64
}

// put keeps a session, or frees its name where there is none. It reports
// whether the session is kept: it is not where the door closes meanwhile.
func (s *Sessions) put(key sessionKey, k *keptSession) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k == nil || s.closed {
		delete(s.open, key)
		return false
	}
	s.open[key] = k
	return true
}

// find gives a principal's session.
func (s *Sessions) find(principal, id string) (*keptSession, error) {
	if s == nil {
		return nil, errNoSessions
	}
	if id == "" {
		return nil, &policy.FieldError{Field: "session_id", Reason: "it is missing", Hint: "session_open opens one; session_list names those that are open"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.open[sessionKey{principal, id}]; k != nil {
		return k, nil
	}
	return nil, &paddock.Error{Message: fmt.Sprintf("cannot find session %q", id), Hint: "session_open opens one; session_list names those that are open", Code: wire.CodeNotFound}
}

// remove takes a session out, for one of those who close it.
func (s *Sessions) remove(principal, id string) (*keptSession, error) {
	k, err := s.find(principal, id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[k.key] != k {
		return nil, &paddock.Error{Message: fmt.Sprintf("cannot find session %q", id), Code: wire.CodeNotFound}
	}
	delete(s.open, k.key)
	return k, nil
}

// of lists a principal's sessions by name.
func (s *Sessions) of(principal string) (list []*keptSession) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, k := range s.open {
		if key.principal == principal && k != nil {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b *keptSession) int { return strings.Compare(a.key.id, b.key.id) })
	return list
}

// Close ends all sessions, and lets none be opened any more.
func (s *Sessions) Close() error { return s.close(context.Background()) }

// close is Close, which waits for no shutdown command when ctx ends.
func (s *Sessions) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	all := s.open
	s.open = nil
	s.mu.Unlock()
	var mu sync.Mutex
	var errs []error
	var wait sync.WaitGroup
	for _, k := range all {
		if k == nil {
			continue
		}
		wait.Go(func() {
			err := k.close(ctx)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}
