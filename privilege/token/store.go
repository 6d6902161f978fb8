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

// updateTime bounds how long a change waits for others to be done with the file.
const updateTime = 10 * time.Second

// Store is tokens in a file that its owner alone, and root, can write. Its
// methods may be called at the same time, from many goroutines and processes.
type Store struct {
	own *ownfile.File[*tables]
}

// tables are what the file holds; nil is nothing.
type tables struct {
	principals map[string]*Bounds
	tokens     map[string]Token
}

// Open opens the store in the file at path, which need not be there yet: the
// first token makes it, with mode 0600. What is wrong with an existing file is
// told here, and again by every question; the error is a
// [*UnavailableError].
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

// Check says whom a token lets in now. The error is [ErrUnknown] or
// [ErrExpired], or says why the store cannot be used.
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
	case !found.same(text): // also where there is none of this ID
		return Holder{}, ErrUnknown
	case found.Expired(now):
		return Holder{}, ErrExpired
	}
	return Holder{found, privilege.Principal{Name: found.Principal}, t.principals[found.Principal]}, nil
}

// List is all tokens, by principal and time, with their bounds, which nobody
// may change.
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

// Bounds are those of a principal, nil where it has no token.
func (s *Store) Bounds(principal string) (*Bounds, error) {
	t, err := s.read()
	if err != nil {
		return nil, err
	}
	return t.principals[principal], nil
}

// New says what token to make.
type New struct {
	// Principal is whom it lets in ([privilege.CheckName]).
	Principal string
	// Bounds are the principal's. nil: those that it has.
	Bounds *Bounds
	// Expires ends it; zero is never.
	Expires time.Time
}

// Create makes a token. The text is given here and never again. Other bounds
// than those of the principal's other tokens are refused.
func (s *Store) Create(ctx context.Context, n New, now time.Time) (text string, made Holder, err error) {
	if err := n.check(now); err != nil {
		return "", Holder{}, err
	}
	err = s.update(ctx, func(t *tables) error {
		t.drop(now)
		bounds, err := t.boundsFor(n)
		if err != nil {
			return err
		}
		if len(t.tokens) >= MaxTokens {
			return fmt.Errorf("cannot create a token: there are %d, the most there can be", MaxTokens)
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
		return &policy.FieldError{Field: "expires", Value: n.Expires.UTC().Format(time.RFC3339), Reason: "it is not in the future"}
	}
	if n.Bounds != nil {
		return n.Bounds.Validate()
	}
	return nil
}

// boundsFor are those of the new token's principal.
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

// ErrNoToken says that there is nothing of that name to revoke.
var ErrNoToken = errors.New("there is no such token")

// Revoke takes away the token of this ID, or, where that is empty, all of the
// principal. It gives what was taken.
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

// drop takes away what has expired long ago: until then lists show it.
func (t *tables) drop(now time.Time) {
	const shown = 7 * 24 * time.Hour
	maps.DeleteFunc(t.tokens, func(_ string, one Token) bool { return one.Expired(now.Add(-shown)) })
	t.forget()
}

// forget drops the bounds of principals that have no token left.
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

// Close forgets what was read.
func (s *Store) Close() error { return s.own.Close() }

// Path is where the tokens are.
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

// UnavailableError is a file of tokens that cannot be used: then nobody comes in.
type UnavailableError struct {
	File  string
	Cause error
	Hint  string // what to do about it, where there is something to say
}

// Error says which file and why.
func (e *UnavailableError) Error() string {
	return "cannot use the tokens in " + e.File + ": " + e.Cause.Error()
}

// Unwrap gives the cause.
func (e *UnavailableError) Unwrap() error { return e.Cause }
