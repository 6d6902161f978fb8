package registry

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
	open   map[SessionKey]*Session // nil while one is being opened
	closed bool
}

// SessionKey names a session.
type SessionKey struct{ principal, ID string }

// Session is a session, and what goes with it.
type Session struct {
	Key     SessionKey
	Sandbox *paddock.Sandbox
	Shell   *paddock.Session
	Plan    SessionPlan
	Scratch string // the temporary workspace, empty where there is none
	Shared  bool   // the sandbox is not its own
	Called  string // what its principal calls the sandbox
}

// ScratchPrefix begins the names of temporary workspaces.
const ScratchPrefix = "paddock-session-"

// Begin opens the session in its sandbox.
func (k *Session) Begin(ctx context.Context) (err error) {
	opts := k.Plan.Opts
	opts.ID = k.Key.ID
	if k.Shell, err = k.Sandbox.OpenSession(ctx, opts); err != nil {
		return err
	}
	// What the agent's defaults are is told where a bound has cut something.
	k.Plan.Opts.MaxLines, k.Plan.Opts.MaxBytes = orNumber(opts.MaxLines, 100), orNumber(opts.MaxBytes, 1<<20)
	if k.Plan.Opts.CommandTimeout == 0 {
		k.Plan.Opts.CommandTimeout = paddock.DefaultSessionTimeout
	}
	return nil
}

func orNumber(n, otherwise int64) int64 {
	if n == 0 {
		return otherwise
	}
	return n
}

// Close ends the session, its sandbox, and its temporary workspace. When ctx
// ends, what the session still runs is not waited for.
func (k *Session) Close(ctx context.Context) error {
	if k.Shared {
		return k.leave(ctx)
	}
	var errs []error
	if k.Sandbox != nil {
		defer context.AfterFunc(ctx, func() { _ = k.Sandbox.Close() })() // close returns what it says, too
	}
	if k.Shell != nil {
		errs = append(errs, k.Shell.Close())
	}
	if k.Sandbox != nil {
		errs = append(errs, k.Sandbox.Close())
	}
	if k.Scratch != "" {
		if err := os.RemoveAll(k.Scratch); err != nil {
			errs = append(errs, fmt.Errorf("cannot remove the temporary workspace: %w", err))
		}
	}
	return errors.Join(errs...)
}

// ErrNoSessions is the error of keeping a session for a door that does not last.
var ErrNoSessions = &paddock.Error{Message: "cannot keep a session: it would end with this call", Hint: "paddock session keeps one, and speaks JSON lines with --json"}

// Reserve takes an id for a session that is being opened; an empty one is made up.
func (s *Sessions) Reserve(principal, id string) (SessionKey, error) {
	key := SessionKey{principal, id}
	if s == nil {
		return key, ErrNoSessions
	}
	if key.ID == "" {
		key.ID = strings.ToLower(rand.Text())
	}
	if !ValidName(key.ID) {
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
		return key, ErrNoSessions
	case taken:
		return key, &paddock.Error{Message: "cannot open session " + key.ID + ": there is one of that name", Code: wire.CodeExists}
	case own >= maxPrincipalSessions || len(s.open) >= maxSessions:
		return key, &paddock.Error{Message: "cannot open another session: too many are open", Hint: "session_close ends one", Code: wire.CodeBusy}
	}
	if s.open == nil {
		s.open = map[SessionKey]*Session{}
	}
	s.open[key] = nil
	return key, nil
}

// ValidName reports whether a sandbox, session, shell or service may have the name.
func ValidName(id string) bool {
	for i, c := range []byte(id) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return id != "" && len(id) <= 64
}

// Put keeps a session, or frees its name where there is none. It reports
// whether the session is kept: it is not where the door closes meanwhile.
func (s *Sessions) Put(key SessionKey, k *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k == nil || s.closed {
		delete(s.open, key)
		return false
	}
	s.open[key] = k
	return true
}

// Find gives a principal's session.
func (s *Sessions) Find(principal, id string) (*Session, error) {
	if s == nil {
		return nil, ErrNoSessions
	}
	if id == "" {
		return nil, &policy.FieldError{Field: "session_id", Reason: "it is missing", Hint: "session_open opens one; session_list names those that are open"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.open[SessionKey{principal, id}]; k != nil {
		return k, nil
	}
	return nil, &paddock.Error{Message: fmt.Sprintf("cannot find session %q", id), Hint: "session_open opens one; session_list names those that are open", Code: wire.CodeNotFound}
}

// Remove takes a session out, for one of those who close it.
func (s *Sessions) Remove(principal, id string) (*Session, error) {
	k, err := s.Find(principal, id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[k.Key] != k {
		return nil, &paddock.Error{Message: fmt.Sprintf("cannot find session %q", id), Code: wire.CodeNotFound}
	}
	delete(s.open, k.Key)
	return k, nil
}

// Of lists a principal's sessions by name.
func (s *Sessions) Of(principal string) (list []*Session) {
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
	slices.SortFunc(list, func(a, b *Session) int { return strings.Compare(a.Key.ID, b.Key.ID) })
	return list
}

// Close ends all sessions, and lets none be opened any more.
func (s *Sessions) Close() error { return s.CloseWithin(context.Background()) }

// CloseWithin is Close, which waits for no shutdown command when ctx ends.
func (s *Sessions) CloseWithin(ctx context.Context) error {
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
			err := k.Close(ctx)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// SessionPlan is what a session is opened with.
type SessionPlan struct {
	Spec policy.Spec
	Opts paddock.SessionOptions
	// Bounded says that who asked has named a bound of a command's output.
	Bounded bool
	// Start is how long who asked waits for the sandbox.
	Start TimeLimit
}

// leave ends the session, and leaves the sandbox to others. What the session
// still runs is not waited for when ctx ends.
func (k *Session) leave(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- k.Shell.Close() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return errors.Join(&paddock.Error{Message: "cannot wait for the end of session " + k.Key.ID}, ctx.Err())
	}
}

// LeaveAll forgets the sessions in a sandbox that has ended, and what belongs to them.
func (s *Sessions) LeaveAll(h *Sandbox) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, k := range s.open {
		if k != nil && k.Shared && k.Sandbox == h.Sandbox {
			delete(s.open, key)
		}
	}
}
