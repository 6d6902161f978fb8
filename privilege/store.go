package privilege

import "context"

// MaxPrincipals bounds how many principals a store holds.
const MaxPrincipals = 1 << 16

// Store is where grants are kept. Its methods may be called at the same time,
// from many goroutines and from many processes.
type Store interface {
	// Get is what a principal was granted: 0 where that is nothing. A store
	// that cannot be read is an error, never 0.
	Get(ctx context.Context, principal string) (Set, error)
	// Update changes what a principal was granted, and gives what it was
	// before and after. It is atomic: change may be called several times, and
	// the last of its answers holds; no other change is lost.
	Update(ctx context.Context, principal string, change func(Set) Set) (before, after Set, err error)
	// List is what every principal was granted. More than [MaxPrincipals] are
	// an error.
	List(ctx context.Context) (map[string]Set, error)
	// Close gives back what the store holds.
	Close() error
}

// Unavailable is a store that cannot be used now: it cannot be reached, or
// what it holds makes no sense.
type Unavailable struct { //nolint:errname // it says how a store is
	// Store names it, without its password.
	Store string
	// Cause is what went wrong.
	Cause error
	// Hint says what to do about it, where there is something to say.
	Hint string
}

// Error says which store and why.
func (e *Unavailable) Error() string {
	return "cannot use the privileges in " + e.Store + ": " + e.Cause.Error()
}

// Unwrap gives the cause.
func (e *Unavailable) Unwrap() error { return e.Cause }
