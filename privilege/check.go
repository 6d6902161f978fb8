package privilege

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Texts that clients compare, and that a contract fixes.
const (
	noContext     = "No context."
	noStore       = "Privilege system unavailable."
	missingFormat = "The user does not have the %s privilege. Ask an admin to grant it with the alter_privileges tool."
)

// Denied is the error for a principal that does not hold the needed privileges, or whose
// privileges cannot be read.
type Denied struct { //nolint:errname // it is the answer to a question
	// Message is the complete text for the caller.
	Message string
	// Rule is the reason, for programs: "principal" (unknown), "store" (cannot be used)
	// or "privilege" (not granted).
	Rule string
	// Missing is the set of privileges that were not granted.
	Missing Set
	// Hint says what to do about it.
	Hint string
	// Cause says what is wrong with the store. It is nil if the store works.
	Cause error
}

// Error returns the message.
func (d *Denied) Error() string { return d.Message }

// Unwrap returns the cause.
func (d *Denied) Unwrap() error { return d.Cause }

// Check returns nil if who holds every privilege of need, or need is empty. Otherwise it
// returns a [*Denied]; so it does if who or s is nil, if the store cannot be used, or if ctx
// ends.
//
// An administrator holds all privileges but [UnsandboxedExec] without an entry in the store.
func Check(ctx context.Context, s Store, who *Principal, need Set) error {
	if s == nil {
		return CheckOpened(ctx, nil, who, need)
	}
	return CheckOpened(ctx, func() (Store, error) { return s, nil }, who, need)
}

// CheckOpened is [Check] with a store that is opened only when it is needed. If open is nil,
// there is no store.
func CheckOpened(ctx context.Context, open func() (Store, error), who *Principal, need Set) error {
	if need == 0 {
		return nil
	}
	if who == nil || CheckName(who.Name) != nil {
		return &Denied{Message: noContext, Rule: "principal", Hint: "name a principal: only known principals may use operations on the host"}
	}
	if who.Admin {
		need &= UnsandboxedExec
	}
	if need == 0 {
		return nil
	}
	held, err := get(ctx, open, who.Name)
	if err != nil {
		return unavailable(err)
	}
	if missing := need &^ held; missing != 0 {
		names := missing.Names()
		return &Denied{
			Message: fmt.Sprintf(missingFormat, strings.Join(names, ", ")),
			Rule:    "privilege",
			Missing: missing,
			Hint:    "paddock privilege grant " + who.Name + " " + strings.Join(names, " "),
		}
	}
	return nil
}

func get(ctx context.Context, open func() (Store, error), name string) (Set, error) {
	if open == nil {
		return 0, errors.New("no privilege store is configured")
	}
	s, err := open()
	if err != nil {
		return 0, err
	}
	return s.Get(ctx, name)
}

func unavailable(err error) *Denied {
	d := &Denied{Message: noStore, Rule: "store", Hint: err.Error(), Cause: err}
	if u := (*Unavailable)(nil); errors.As(err, &u) && u.Hint != "" {
		d.Hint += "; " + u.Hint
	}
	return d
}
