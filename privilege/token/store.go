package token

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/internal/ownfile"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

// FileName is the name of the file in the state directory.
const FileName = "tokens.json"

// updateTime bounds how long a change waits for other writers.
const updateTime = 10 * time.Second

// Store keeps tokens in a file that only its owner and root can write. Its methods are safe
// for concurrent use by many goroutines and processes.
type Store struct {
	own *ownfile.File[*tables]
}

// tables are the content of the file. nil is an empty file.
type tables struct {
	principals map[string]*Bounds
	tokens     map[string]Token
}

// Open opens the store in the file at path, which need not exist: the first token creates it
// with mode 0600. If an existing file cannot be used, Open returns an [*UnavailableError], as
// does every method.
func Open(path string) (*Store, error) {
	own, err := ownfile.New(path, maxFile, parse)
	if err != nil {
		return nil, &UnavailableError{File: path, Cause: err}
	}
	s := &Store{own}
	if _, err := s.read(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Store) read() (*tables, error) {
	t, err := s.own.Read()
	if err != nil {
		return nil, s.unavailable(err)
	}
	if t == nil {
		t = &tables{}
	}
	return t, nil
}

// Check returns the holder of a token. The error is [ErrUnknown], [ErrExpired] or an
// [*UnavailableError].
func (s *Store) Check(text string, now time.Time) (Holder, error) {
	t, err := s.read()
	if err != nil {
		return Holder{}, err
	}
	id, ok := idOf(text)
	if !ok {
		return Holder{}, ErrUnknown
	}
	found := t.tokens[id]
	switch {
	case !found.same(text): // also if the ID is unknown
		return Holder{}, ErrUnknown
	case found.Expired(now):
		return Holder{}, ErrExpired
	}
	return Holder{found, privilege.Principal{Name: found.Principal}, t.principals[found.Principal]}, nil
}

// List returns all tokens, sorted by principal and time, with their bounds, which must not
// be changed.
func (s *Store) List() ([]Holder, error) {
	t, err := s.read()
	if err != nil {
		return nil, err
	}
	all := make([]Holder, 0, len(t.tokens))
	for _, one := range t.tokens {
		all = append(all, Holder{one, privilege.Principal{Name: one.Principal}, t.principals[one.Principal]})
	}
	slices.SortFunc(all, func(a, b Holder) int {
		if a.Token.Principal != b.Token.Principal {
			return strings.Compare(a.Token.Principal, b.Token.Principal)
		}
		if order := a.Token.Created.Compare(b.Token.Created); order != 0 {
			return order
		}
		return strings.Compare(a.Token.ID, b.Token.ID)
	})
	return all, nil
}

// Bounds returns the bounds of a principal, or nil if it has no token.
func (s *Store) Bounds(principal string) (*Bounds, error) {
	t, err := s.read()
	if err != nil {
		return nil, err
	}
	return t.principals[principal], nil
}

// New describes a token to create.
type New struct {
	// Principal is the name of the principal ([privilege.CheckName]).
	Principal string
	// Bounds are the bounds of the principal. nil: those that it has.
	Bounds *Bounds
	// Expires is when the token expires. Zero: never.
	Expires time.Time
}

// Create creates a token, whose text cannot be read again later. Bounds that differ from those
// of the principal's other tokens are refused.
func (s *Store) Create(ctx context.Context, n New, now time.Time) (text string, made Holder, err error) {
	if err := n.check(now); err != nil {
		return "", Holder{}, err
	}
	err = s.update(ctx, func(t *tables) error {
		// Lists show tokens that have expired for a week.
		const shown = 7 * 24 * time.Hour
		maps.DeleteFunc(t.tokens, func(_ string, one Token) bool { return one.Expired(now.Add(-shown)) })
		t.forget()
		bounds, err := t.boundsFor(n)
		if err != nil {
			return err
		}
		if len(t.tokens) >= MaxTokens {
			return fmt.Errorf("cannot create a token: there are %d already, which is the maximum", MaxTokens)
		}
		one := Token{Principal: n.Principal, Created: now.UTC().Truncate(time.Second)}
		if !n.Expires.IsZero() {
			one.Expires = n.Expires.UTC().Truncate(time.Second)
		}
		for again := true; again; _, again = t.tokens[one.ID] {
			text, one.ID, one.hash = newText()
		}
		t.tokens[one.ID] = one
		t.principals[n.Principal] = bounds
		made = Holder{one, privilege.Principal{Name: n.Principal}, bounds}
		return nil
	})
	if err != nil {
		return "", Holder{}, err
	}
	return text, made, nil
}

func (n New) check(now time.Time) error {
	if err := privilege.CheckName(n.Principal); err != nil {
		return err
	}
	if !n.Expires.IsZero() && n.Expires.Before(now.Add(time.Second)) {
		return &policy.FieldError{Field: "expires", Value: n.Expires.UTC().Format(time.RFC3339), Reason: "it must be in the future"}
	}
	if n.Bounds != nil {
		return n.Bounds.Validate()
	}
	return nil
}

// boundsFor returns the bounds of the new token's principal.
func (t *tables) boundsFor(n New) (*Bounds, error) {
	old := t.principals[n.Principal]
	switch {
	case old == nil && n.Bounds == nil:
		return nil, &policy.FieldError{Field: "workspace", Reason: "it is missing, and " + n.Principal + " has no token yet that says it",
			Hint: "name the directory that it may change: --workspace DIR"}
	case old == nil || n.Bounds == nil || old.Equal(n.Bounds):
		if n.Bounds != nil {
			return n.Bounds, nil
		}
		return old, nil
	}
	return nil, &policy.FieldError{Field: "principal", Value: n.Principal, Reason: "its other tokens have other bounds, and all of them share its sandboxes",
		Hint: "leave the bounds out, revoke the others first (paddock token revoke --principal " + n.Principal + "), or name another principal"}
}

// ErrNoToken means that there is no such token to revoke.
var ErrNoToken = errors.New("there is no such token")

// Revoke deletes the token with an ID or, if that is empty, all tokens of the principal. It
// returns the deleted ones.
func (s *Store) Revoke(ctx context.Context, id, principal string) (gone []Token, err error) {
	err = s.update(ctx, func(t *tables) error {
		for _, one := range t.tokens {
			if one.ID == id || id == "" && one.Principal == principal {
				gone = append(gone, one)
				delete(t.tokens, one.ID)
			}
		}
		if len(gone) == 0 {
			return ErrNoToken
		}
		t.forget()
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(gone, func(a, b Token) int { return strings.Compare(a.ID, b.ID) })
	return gone, nil
}

// forget deletes the bounds of principals without a token.
func (t *tables) forget() {
	held := make(map[string]bool, len(t.principals))
	for _, one := range t.tokens {
		held[one.Principal] = true
	}
	maps.DeleteFunc(t.principals, func(name string, _ *Bounds) bool { return !held[name] })
}

func (s *Store) update(ctx context.Context, change func(*tables) error) error {
	ctx, cancel := context.WithTimeout(ctx, updateTime)
	defer cancel()
	var refused error
	err := s.own.Update(ctx, func(old *tables) ([]byte, error) {
		next := &tables{principals: make(map[string]*Bounds), tokens: make(map[string]Token)}
		if old != nil {
			maps.Copy(next.principals, old.principals)
			maps.Copy(next.tokens, old.tokens)
		}
		refused = change(next)
		if refused != nil {
			return nil, refused
		}
		return encode(next)
	})
	if refused != nil {
		return refused
	}
	return s.unavailable(err)
}

// Close frees the cached content.
func (s *Store) Close() error { return s.own.Close() }

// Path returns the path of the file.
func (s *Store) Path() string { return s.own.Path() }

func (s *Store) unavailable(err error) error {
	if err == nil {
		return nil
	}
	u := &UnavailableError{File: s.own.Path(), Cause: err}
	if broken := (*ownfile.BrokenError)(nil); errors.As(err, &broken) {
		u.Hint = broken.Hint
	}
	return u
}

// UnavailableError says that the file of tokens cannot be used. Then no token is valid.
type UnavailableError struct {
	File  string
	Cause error
	Hint  string // what to do about it; may be empty
}

// Error says which file and why.
func (e *UnavailableError) Error() string {
	return "cannot use the tokens in " + e.File + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Cause }
