// Package registry keeps what lasts between the calls of a server: sandboxes by name
// ([Sandboxes]) with their commands, secrets and shells ([Sandbox]), and sessions ([Sessions]). A
// principal finds only its own. Numbers are bounded, for each principal and in all.
package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Bounds of the sandboxes that a server keeps.
const (
	maxSandboxes          = 64
	MaxPrincipalSandboxes = 16
)

// DefaultName is the name of the sandbox for calls that name none.
const DefaultName = "default"

// Sandboxes are the sandboxes of a server. A principal finds only its own. The zero value is
// ready; Close ends all.
type Sandboxes struct {
	mu     sync.Mutex
	open   map[sandboxKey]*Slot
	closed bool
}

type sandboxKey struct{ principal, Name string }

// Slot is where a sandbox is, or will be, under its name.
type Slot struct {
	Key     sandboxKey
	Ready   chan struct{} // closed once Sandbox and Err are final
	Sandbox *Sandbox      // nil if it could not be opened
	Err     error
	gone    bool // it was removed
	kept    bool // it is for a sandbox that outlives the server
}

// ErrNoSandboxes is the error of keeping a sandbox in a program that ends with the call.
var ErrNoSandboxes = &paddock.Error{
	Message: "cannot keep a sandbox: it would end with this call",
	Hint:    "paddock mcp keeps them; paddock run has one for each command",
}

// Claim returns the slot of a name, and whether it is new: then the caller settles it.
func (s *Sandboxes) Claim(principal, name string) (p *Slot, mine bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sandboxKey{principal, name}
	if p := s.open[key]; p != nil {
		return p, false, nil
	}
	p, err = s.reserve(key, name != DefaultName)
	return p, err == nil, err
}

// Own returns how many sandboxes of a principal end with the server.
func (s *Sandboxes) Own(principal string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, p := range s.open {
		if k.principal == principal && !p.kept {
			n++
		}
	}
	return n
}

// reserve makes a slot; s is locked. Sandboxes that outlive servers are bounded where their records
// are, since each server has only a part of them.
func (s *Sandboxes) reserve(key sandboxKey, kept bool) (*Slot, error) {
	own, all := 0, 0
	for k, p := range s.open {
		if p.kept {
			continue
		}
		if all++; k.principal == key.principal {
			own++
		}
	}
	switch {
	case s.closed:
		return nil, &paddock.Error{Message: "cannot open a sandbox: the server is ending", Code: wire.CodeGone}
	case !kept && (own >= MaxPrincipalSandboxes || all >= maxSandboxes):
		return nil, ErrManySandboxes
	}
	if s.open == nil {
		s.open = map[sandboxKey]*Slot{}
	}
	p := &Slot{Key: key, Ready: make(chan struct{}), kept: kept}
	s.open[key] = p
	return p, nil
}

// ErrManySandboxes is the error of one sandbox too many.
var ErrManySandboxes = &paddock.Error{Message: "cannot open another sandbox: too many are open", Hint: "sandbox_delete ends one", Code: wire.CodeBusy}

// ErrSandboxExists returns the error of a name that is taken.
func ErrSandboxExists(name string) error {
	return &paddock.Error{Message: "cannot create sandbox " + name + ": the name is taken", Code: wire.CodeExists,
		Hint: "use it, choose another name, or end it with sandbox_delete"}
}

// Create reserves a slot for a sandbox of this name, or of a new name if it is empty. kept says
// that the sandbox outlives the server.
func (s *Sandboxes) Create(principal, name string, kept bool) (*Slot, error) {
	if s == nil {
		return nil, ErrNoSandboxes
	}
	if name == "" {
		name = "s" + strings.ToLower(rand.Text()[:7])
	}
	if !ValidName(name) {
		return nil, &policy.FieldError{Field: "name", Value: name, Reason: NameRule}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sandboxKey{principal, name}
	if s.open[key] != nil {
		return nil, ErrSandboxExists(name)
	}
	return s.reserve(key, kept)
}

// Settle opens the sandbox of a slot. If that fails, or the server has closed meanwhile, the slot
// is free again and nothing is left.
func (s *Sandboxes) Settle(p *Slot, open func() (*Sandbox, error)) {
	h, err := open()
	s.mu.Lock()
	if p.gone && err == nil {
		err = &paddock.Error{Message: "cannot open sandbox " + p.Key.Name + ": the server is ending", Code: wire.CodeGone}
	}
	if err == nil {
		p.Sandbox = h
	} else if s.open[p.Key] == p {
		delete(s.open, p.Key)
	}
	s.mu.Unlock()
	if p.Sandbox == nil && h != nil {
		err = errors.Join(err, h.Close())
	}
	p.Err = err
	close(p.Ready)
}

// Find returns a principal's sandbox by its name or its id. It waits for one that is being opened.
func (s *Sandboxes) Find(ctx context.Context, principal, name string) (*Sandbox, error) {
	p, err := s.At(principal, name)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.Ready:
	case <-ctx.Done():
		return nil, fmt.Errorf("cannot wait for sandbox %s: %w", name, ctx.Err())
	}
	if p.Sandbox == nil {
		return nil, ErrNoSandbox(name)
	}
	return p.Sandbox, nil
}

// ErrNoSandbox returns the error of a name that is unknown.
func ErrNoSandbox(name string) error {
	return &paddock.Error{Message: fmt.Sprintf("cannot find sandbox %q", name), Hint: "leave it out for the default one; sandbox_list names those that are open", Code: wire.CodeNotFound}
}

// At returns the slot of a principal's sandbox, by its name or its id.
func (s *Sandboxes) At(principal, name string) (*Slot, error) {
	if s == nil {
		return nil, ErrNoSandboxes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.open[sandboxKey{principal, name}]; p != nil {
		return p, nil
	}
	for key, p := range s.open {
		if key.principal == principal && p.Sandbox != nil && p.Sandbox.ID() == name {
			return p, nil
		}
	}
	return nil, ErrNoSandbox(name)
}

// Take removes a sandbox, and reports whether the caller is the one that removed it.
func (s *Sandboxes) Take(p *Slot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[p.Key] != p {
		return false
	}
	delete(s.open, p.Key)
	p.gone = true
	return true
}

// Of returns a principal's sandboxes in the order of their names, without those that are still
// being opened.
func (s *Sandboxes) Of(principal string) (list []*Sandbox) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, p := range s.open {
		if key.principal == principal && p.Sandbox != nil {
			list = append(list, p.Sandbox)
		}
	}
	slices.SortFunc(list, func(a, b *Sandbox) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Close ends all sandboxes with all that runs in them, and detaches from those that outlive the
// server. None can be opened any more. It returns
// when the kernel has confirmed their end.
func (s *Sandboxes) Close() error {
	s.mu.Lock()
	s.closed = true
	all := s.open
	s.open = nil
	for _, p := range all {
		p.gone = true
	}
	s.mu.Unlock()
	var mu sync.Mutex
	var errs []error
	var wait sync.WaitGroup
	for _, p := range all {
		wait.Go(func() {
			<-p.Ready // one that is still being opened ends itself
			if p.Sandbox == nil {
				return
			}
			err := p.Sandbox.Close()
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}
