package hostpath

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// listed returns what the list of a state directory has of a directory.
func listed(t *testing.T, state, dir string) []Listed {
	t.Helper()
	all, err := Listing(state)
	if err != nil {
		t.Fatal(err)
	}
	var found []Listed
	for _, one := range all {
		if one.Is(dir) {
			found = append(found, one)
		}
	}
	return found
}

// An entry says which sandboxes could write, also where the file of writers is damaged or far too long.
// Forgetting waits for starts, and one that has looked at the list before puts its entry back.
func TestForget(t *testing.T) {
	root := Real(t.TempDir())
	state, ws := filepath.Join(root, "state"), filepath.Join(root, "ws")
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	start := func(id string, seen *Seen) (started func()) {
		t.Helper()
		req := requestOver(state, ws)
		req.ID = id
		if seen != nil {
			req.Seen = seen
		}
		mounts, err := Mounts(req, "/workspace")
		if err == nil {
			started, err = Remember(req, mounts, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		return started
	}
	start("", nil)()
	if found := listed(t, state, ws); len(found) != 1 || len(found[0].Writers) != 0 || found[0].Gone {
		t.Fatalf("%+v", found)
	}
	before := NewSeen(List(state)) // of a start that has read the list, and goes on later
	start("pd-first", nil)()
	by := filepath.Join(state, writersName)
	text, err := os.ReadFile(by)
	if err != nil {
		t.Fatal(err)
	}
	many := strings.Repeat(strings.ReplaceAll(string(text), "pd-first", "pd-between"), maxWriters/len(text)+1)
	if err := os.WriteFile(by, []byte(string(text)+"damaged\n1 2 3\n"+many), 0o600); err != nil {
		t.Fatal(err)
	}
	started := start("pd-last", nil)
	found := listed(t, state, ws)
	if n := len(found[0].Writers); len(found) != 1 || n != keptWriters-1 && n != keptWriters && n != keptWriters+1 || found[0].Writers[0].ID != "pd-first" ||
		found[0].Writers[n-1].ID != "pd-last" || found[0].Writers[0].Field != "workspace.source" || found[0].Writers[0].State != state {
		t.Fatalf("%+v", found)
	}
	if info, err := os.Stat(by); err != nil || info.Size() > maxWriters/2 {
		t.Errorf("%v, %v", info, err)
	}

	list, err := readList(state, writtenName, ownedByCaller)
	if err != nil {
		t.Fatal(err)
	}
	earlier := list.entries[0]
	earlier.Born--
	list.entries = append([]entry{earlier}, list.entries...)
	if err := os.WriteFile(filepath.Join(state, writtenName), []byte(list.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := listed(t, state, ws); len(again) != 1 || again[0].Gone {
		t.Errorf("with the inode of a directory that is gone: %+v", again)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Forget(ctx, state, found, func() error { t.Error("a sandbox starts"); return nil }); err == nil || !strings.Contains(err.Error(), "a sandbox is starting") {
		t.Errorf("while a sandbox starts: %v", err)
	}
	started()
	if err := Forget(t.Context(), state, found, func() error { return os.ErrInvalid }); err == nil || len(listed(t, state, ws)) != 1 {
		t.Errorf("with a check that fails: %v", err)
	}
	if err := Forget(t.Context(), state, found, func() error { return nil }); err != nil || len(listed(t, state, ws)) != 0 {
		t.Errorf("%v, %+v", err, listed(t, state, ws))
	}
	if text, err := os.ReadFile(by); err != nil || strings.Contains(string(text), ws) {
		t.Errorf("%s, %v", text, err)
	}
	start("pd-late", before)()
	if found := listed(t, state, ws); len(found) != 1 || len(found[0].Writers) != 1 || found[0].Writers[0].ID != "pd-late" || time.Since(found[0].Writers[0].At) > time.Hour {
		t.Errorf("a start that had read the list before: %+v", found)
	}
	moved := filepath.Join(root, "moved")
	if err := os.Rename(ws, moved); err != nil {
		t.Fatal(err)
	}
	if found := listed(t, state, moved); len(found) != 1 || !found[0].Gone || found[0].Path != ws {
		t.Errorf("moved: %+v", found)
	}
}
