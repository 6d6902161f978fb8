package privilege

import "context"

// MaxPrincipals bounds how many principals a store holds.
const MaxPrincipals = 1 << 16

// Store keeps grants. Its methods are safe for concurrent use by many goroutines and many
// processes.
type Store interface {
	// Get returns what a principal was granted, or 0. If the store cannot be read it
	// returns an error.
	Get(ctx context.Context, principal string) (Set, error)
	// Update changes what a principal was granted, and returns it before and after. It is
	// atomic: change may be called several times, its last result is stored, and no
	// concurrent change is lost.
	Update(ctx context.Context, principal string, change func(Set) Set) (before, after Set, err error)
	// List returns what each principal was granted. More than [MaxPrincipals] are an error.
	List(ctx context.Context) (map[string]Set, error)
	// Close frees the store's resources.
	Close() error
}

// Unavailable says that a store cannot be used: it cannot be reached, or its content is
// invalid.
type Unavailable struct { //nolint:errname // it is the state of a store
	// Store names the store, without its password.
	Store string
	Cause error
	// Hint says what to do about it. It may be empty.
	Hint string
}

// Error says which store and why.
func (e *Unavailable) Error() string {
	return "cannot use the privileges in " + e.Store + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Unavailable) Unwrap() error { return e.Cause }
