package registry

import (
	"cmp"
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

// Bounds of the sessions that a server keeps.
const (
	maxSessions          = 64
	maxPrincipalSessions = 16
)

// Sessions are the sessions of a server. A principal finds only its own. The zero value is ready;
// Close ends all.
type Sessions struct {
	mu     sync.Mutex
	open   map[SessionKey]*Session // nil while one is being opened
	closed bool
}

// SessionKey names a session.
type SessionKey struct{ principal, ID string }

// Session is a session, and what belongs to it.
type Session struct {
	Key     SessionKey
	Sandbox *paddock.Sandbox
	Shell   *paddock.Session
	Plan    SessionPlan
	Scratch string // the temporary workspace, if it has one
	Shared  bool   // the sandbox is not its own
	Kept    bool   // the sandbox outlives the server, and so does the session
	Called  string // what its principal calls the sandbox
}

// ScratchPrefix begins the names of temporary workspaces.
const ScratchPrefix = "paddock-session-"

// The agent's bounds of a command's output, if a session has no others.
const (
	SessionLines = 100
	SessionBytes = 1 << 20
)

// Begin opens the session in its sandbox.
func (k *Session) Begin(ctx context.Context) (err error) {
	opts := k.Plan.Opts
	opts.ID = k.Key.ID
	if k.Shell, err = k.Sandbox.OpenSession(ctx, opts); err != nil {
		return err
	}
	// The agent's defaults, for the answers of commands whose output they cut.
	k.Plan.Opts.MaxLines, k.Plan.Opts.MaxBytes = cmp.Or(opts.MaxLines, SessionLines), cmp.Or(opts.MaxBytes, SessionBytes)
	if k.Plan.Opts.CommandTimeout == 0 {
		k.Plan.Opts.CommandTimeout = paddock.DefaultSessionTimeout
	}
	return nil
}

// Close ends the session, its sandbox, and its temporary workspace. A shared sandbox is not
// closed. When ctx ends, Close stops waiting for the session's running command.
func (k *Session) Close(ctx context.Context) error {
	if k.Shared {
		ended := make(chan error, 1)
		go func() { ended <- k.Shell.Close() }()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return errors.Join(&paddock.Error{Message: "cannot wait for the end of session " + k.Key.ID}, ctx.Err())
		}
	}
	var errs []error
	if k.Sandbox != nil {
		defer context.AfterFunc(ctx, func() { _ = k.Sandbox.Close() })() // the Close below returns its error
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

// ErrNoSessions is the error of keeping a session in a program that ends with the call.
var ErrNoSessions = &paddock.Error{Message: "cannot keep a session: it would end with this call", Hint: "paddock session keeps one, and speaks JSON lines with --json"}

// Reserve reserves an id for a session that is being opened, or a new id if it is empty.
func (s *Sessions) Reserve(principal, id string) (SessionKey, error) {
	key := SessionKey{principal, id}
	if s == nil {
		return key, ErrNoSessions
	}
	if key.ID == "" {
		key.ID = strings.ToLower(rand.Text())
	}
	if !ValidName(key.ID) {
		return key, &paddock.Error{Message: "cannot open session " + fmt.Sprintf("%q", id) + ": " + NameRule}
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
		return key, &paddock.Error{Message: "cannot open session " + key.ID + ": the name is taken", Code: wire.CodeExists}
	case own >= maxPrincipalSessions || len(s.open) >= maxSessions:
		return key, &paddock.Error{Message: "cannot open another session: too many are open", Hint: "session_close ends one", Code: wire.CodeBusy}
	}
	if s.open == nil {
		s.open = map[SessionKey]*Session{}
	}
	s.open[key] = nil
	return key, nil
}

// NameRule says which names [ValidName] allows.
const NameRule = "a name has 1 to 64 letters, digits, dots, hyphens and underscores, and starts with a letter or a digit"

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

// Put stores a session, or frees its name if k is nil. It reports whether the session was stored,
// which fails if the server has closed meanwhile.
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

// Find returns a principal's session.
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

// Attach stores a session that was found in a sandbox, unless its id is taken.
func (s *Sessions) Attach(principal, id string, k *Session) {
	k.Key = SessionKey{principal, id}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.open[k.Key]; taken || s.closed {
		return
	}
	if s.open == nil {
		s.open = map[SessionKey]*Session{}
	}
	s.open[k.Key] = k
}

// Remove removes a session, for one of those that want to close it.
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

// Of returns a principal's sessions in the order of their names.
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

// Close ends all sessions but those in sandboxes that outlive the server. None can be opened any more.
func (s *Sessions) Close() error { return s.CloseWithin(context.Background()) }

// CloseWithin is Close, which does not wait for shutdown commands any longer when ctx ends.
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
			var err error
			if k.Kept {
				k.Shell.Detach()
			} else {
				err = k.Close(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// SessionPlan has the settings for opening a session.
type SessionPlan struct {
	Spec policy.Spec
	Opts paddock.SessionOptions
	// Bounded says that the caller has given a bound of a command's output.
	Bounded bool
	// Start is how long the caller waits for the sandbox.
	Start TimeLimit
}

// LeaveAll removes the sessions in a sandbox that has ended.
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
