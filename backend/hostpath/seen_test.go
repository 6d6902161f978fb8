package hostpath

import (
	"os"
	"slices"
	"testing"
)

// What one start has seen serves all of it, but for a state that the start itself
// makes: it is hidden in the same start.
func TestSeen(t *testing.T) {
	root := dirIn(t, "tree")
	state := root + "/tree/state"
	hides := func(seen *Seen) bool {
		t.Helper()
		req := requestOver(state, root+"/tree")
		req.Spec.Workspace.Access, req.Seen = "ro", seen
		started(t, req)
		mounts, err := Mounts(req, "/elsewhere")
		if err != nil || mounts[0].Target != "/elsewhere" || mounts[0].Source != root+"/tree" {
			t.Fatalf("%+v, %v", mounts, err)
		}
		covers, err := Covers(req, mounts)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(covers, func(c Cover) bool { return c.Hidden && c.Path == state })
	}
	if !hides(NewSeen(nil)) {
		t.Error("a state that is made is not hidden")
	}
	seen := NewSeen(List(state))
	if !hides(seen) {
		t.Error("a state that is there is not hidden")
	}
	// A directory that takes the workspace's place has another identity than what was judged.
	was := seen.mounts[0].ID
	if err := os.Rename(root+"/tree", root+"/moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root+"/tree", 0o755); err != nil {
		t.Fatal(err)
	}
	req := requestOver(root+"/moved/state", root+"/tree")
	req.Seen = seen
	if mounts, err := Mounts(req, "/workspace"); err != nil || !mounts[0].ID.Same(was) {
		t.Errorf("%+v, %v", mounts, err)
	}
}
