package privilege

import (
	"context"
	"errors"
	"testing"
)

// fakeStore answers each question with the same words.
type fakeStore struct {
	Store
	set   Set
	err   error
	asked int
}

func (f *fakeStore) Get(context.Context, string) (Set, error) {
	f.asked++
	return f.set, f.err
}

func TestCheck(t *testing.T) {
	const (
		lacksExec  = "The user does not have the UNSANDBOXED_EXEC privilege. Ask an admin to grant it with the alter_privileges tool."
		lacksAlter = "The user does not have the ALTER_PRIVILEGES privilege. Ask an admin to grant it with the alter_privileges tool."
	)
	gone := &Unavailable{Store: "x", Cause: errors.New("gone"), Hint: "start it"}
	user, admin := &Principal{Name: "user:ann"}, &Principal{Name: "user:root", Admin: true}
	tests := []struct {
		name  string
		store Store
		who   *Principal
		need  Set
		err   string
		hint  string
	}{
		{"nothing is needed", nil, nil, 0, "", ""},
		{"nobody asks", &fakeStore{set: 1<<64 - 1}, nil, UnsandboxedExec, "No context.", "*"},
		{"nobody with a name asks", &fakeStore{set: 1<<64 - 1}, &Principal{Admin: true}, UnsandboxedExec, "No context.", "*"},
		{"granted", &fakeStore{set: UnsandboxedExec}, user, UnsandboxedExec, "", ""},
		{"not granted", &fakeStore{set: ^UnsandboxedExec}, user, UnsandboxedExec, lacksExec, "paddock privilege grant user:ann UNSANDBOXED_EXEC"},
		{"one of two", &fakeStore{set: UnsandboxedExec}, user, UnsandboxedExec | AlterPrivileges, lacksAlter, "paddock privilege grant user:ann ALTER_PRIVILEGES"},
		{"an administrator alters", &fakeStore{err: gone}, admin, AlterPrivileges, "", ""},
		{"an administrator alters without a store", nil, admin, AlterPrivileges, "", ""},
		{"an administrator without the grant", &fakeStore{}, admin, UnsandboxedExec | AlterPrivileges, lacksExec, "paddock privilege grant user:root UNSANDBOXED_EXEC"},
		{"an administrator with the grant", &fakeStore{set: UnsandboxedExec}, admin, UnsandboxedExec | AlterPrivileges, "", ""},
		{"the store is gone", &fakeStore{set: UnsandboxedExec, err: gone}, user, UnsandboxedExec, "Privilege system unavailable.", "cannot use the privileges in x: gone; start it"},
		{"the store is gone for an administrator", &fakeStore{err: gone}, admin, UnsandboxedExec, "Privilege system unavailable.", "*"},
		{"there is no store", nil, user, UnsandboxedExec, "Privilege system unavailable.", "no privilege store is configured"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Check(t.Context(), tt.store, tt.who, tt.need)
			if tt.err == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			denied := (*Denied)(nil)
			if !errors.As(err, &denied) || err.Error() != tt.err {
				t.Fatalf("got %v, want %s", err, tt.err)
			}
			if denied.Hint != tt.hint && (tt.hint != "*" || denied.Hint == "") {
				t.Errorf("hint is %q, want %q", denied.Hint, tt.hint)
			}
		})
	}
}

func TestCheckOpensLate(t *testing.T) {
	opened := 0
	open := func() (Store, error) {
		opened++
		return &fakeStore{set: UnsandboxedExec}, nil
	}
	admin := &Principal{Name: "a", Admin: true}
	if err := CheckOpened(t.Context(), open, admin, AlterPrivileges); err != nil || opened != 0 {
		t.Errorf("%v, opened %d times", err, opened)
	}
	if err := CheckOpened(t.Context(), open, admin, UnsandboxedExec); err != nil || opened != 1 {
		t.Errorf("%v, opened %d times", err, opened)
	}
	broken := func() (Store, error) { return nil, errors.New("broken") }
	err := CheckOpened(t.Context(), broken, admin, UnsandboxedExec)
	if err == nil || err.Error() != "Privilege system unavailable." {
		t.Error(err)
	}
}
