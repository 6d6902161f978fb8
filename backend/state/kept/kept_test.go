//go:build linux

package kept

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/backend"
)

// reserved makes a sandbox's directory, with a record if status is not empty.
func reserved(t *testing.T, root, name, status string) (id string) {
	t.Helper()
	id = backend.NewID()
	e, err := Reserve(root, id, name)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if status != "" {
		if err := e.Write(Record{Name: name, Status: status}); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

func TestNames(t *testing.T) {
	root := t.TempDir()
	id := reserved(t, root, "web", Stopped)
	for _, name := range []string{"web", id} {
		if got, err := Find(root, name); err != nil || got != id {
			t.Errorf("find %s: %q, %v", name, got, err)
		}
	}
	if _, err := Reserve(root, backend.NewID(), "web"); !errors.Is(err, ErrTaken) {
		t.Errorf("the same name again: %v", err)
	}
	for _, name := range []string{"", "nope", "../web", "web/", "a\nb", backend.NewID()} {
		if got, err := Find(root, name); !errors.Is(err, ErrUnknown) {
			t.Errorf("find %q: %q, %v", name, got, err)
		}
	}
	e, err := Act(t.Context(), root, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Remove("web"); err != nil {
		t.Fatal(err)
	}
	if _, err := Act(t.Context(), root, id); !errors.Is(err, ErrUnknown) {
		t.Errorf("acting on it after that: %v", err)
	}
	reserved(t, root, "web", Stopped)
}

// What was left half made is no sandbox: its name is free, and a sweep removes it, unless
// somebody is making it.
func TestHalfMade(t *testing.T) {
	root := t.TempDir()
	reserved(t, root, "half", "")
	making := backend.NewID()
	e, err := Reserve(root, making, "making")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if all, damaged := List(root); len(all)+len(damaged) > 0 {
		t.Errorf("listed: %v, %v", all, damaged)
	}
	if _, err := Reserve(root, backend.NewID(), "making"); !errors.Is(err, ErrTaken) {
		t.Errorf("a name that is being taken: %v", err)
	}
	Sweep(root, func(string) error { return nil })
	left, _ := filepath.Glob(root + "/*/*")
	if want := []string{root + "/kept/lock", root + "/kept/" + making, root + "/names/making"}; len(left) != len(want) {
		t.Errorf("after a sweep: %q, want %q", left, want)
	}
	reserved(t, root, "half", Stopped)
}

// Only one process acts on a sandbox, and a record is the old one or the new one.
func TestAct(t *testing.T) {
	root := t.TempDir()
	id := reserved(t, root, "", Stopped)
	e, err := Act(t.Context(), root, id)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Act(ctx, root, id); !errors.Is(err, ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
	from, to, err := e.Prepare(Record{Status: Running})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Read(root, id); err != nil || r.Status != Stopped {
		t.Errorf("before the rename: %+v, %v", r, err)
	}
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
	if r, err := Read(root, id); err != nil || r.Status != Running {
		t.Errorf("after the rename: %+v, %v", r, err)
	}
	e.Close()
}

// A record that cannot be read is said to be damaged, and hides no other.
func TestDamaged(t *testing.T) {
	root := t.TempDir()
	good, other := reserved(t, root, "good", Stopped), backend.NewID()
	for what, text := range map[string]string{"cut off": `{"version":1,`, "of another sandbox": `{"version":1,"id":"` + other + `"}`, "of another version": `{"version":99}`} {
		id := reserved(t, root, "bad", Stopped)
		if err := os.WriteFile(filepath.Join(Dir(root, id), "record.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		all, damaged := List(root)
		if len(all) != 1 || all[0].ID != good || damaged[id] == nil || !strings.Contains(damaged[id].Error(), "its record is") {
			t.Errorf("%s: %v, %v", what, all, damaged)
		}
		if err := os.RemoveAll(Dir(root, id)); err != nil {
			t.Fatal(err)
		}
	}
}
