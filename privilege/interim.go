package privilege

import "context"

// Store is where grants are kept.
type Store interface {
	Get(ctx context.Context, principal string) (Set, error)
	Update(ctx context.Context, principal string, change func(Set) Set) (before, after Set, err error)
	List(ctx context.Context) (map[string]Set, error)
	Close() error
}

// Principal is who asks.
type Principal struct {
	Name  string
	Admin bool
}

// Denied is the answer to a principal that does not hold what is needed.
type Denied struct{ Message string }

// Error returns the message.
func (d *Denied) Error() string { return d.Message }

// CheckOpened says whether who holds every privilege of need.
func CheckOpened(ctx context.Context, open func() (Store, error), who *Principal, need Set) error {
	if need == 0 {
		return nil
	}
	if who == nil || who.Name == "" {
		return &Denied{"No context."}
	}
	if open == nil {
		return &Denied{"Privilege system unavailable."}
	}
	s, err := open()
	if err != nil {
		return &Denied{"Privilege system unavailable."}
	}
	held, err := s.Get(ctx, who.Name)
	if err != nil {
		return &Denied{"Privilege system unavailable."}
	}
	if !held.Has(need) {
		return &Denied{"The user does not have the UNSANDBOXED_EXEC privilege. Ask an admin to grant it with the alter_privileges tool."}
	}
	return nil
}
