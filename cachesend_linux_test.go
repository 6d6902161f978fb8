package paddock

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// TestCacheEnds: what commands change in a cache ends with the sandbox if what they change in the
// workspace does not stay there. They see what earlier sandboxes kept, or an empty cache.
func TestCacheEnds(t *testing.T) {
	store, ws := storeOf(t), goWorkspace(t)
	spec := Spec{Workspace: Workspace{Source: ws}}
	shell(t, spec, auto("ann"), `mkdir -p "$GOCACHE" && echo kept > "$GOCACHE/kept"`)
	const hostile = `cat "$GOCACHE/kept"; cd "$GOCACHE" && echo evil > kept && echo evil > new && mv kept x && mv x kept && mkdir d && cat kept new`
	for _, tt := range []struct {
		name, mode, access, level string
		layered, lands            bool
	}{
		{name: "an overlay", mode: "overlay", layered: true},
		{name: "a copy", mode: "copy", layered: true},
		{name: "read-only", access: "ro", layered: true},
		{name: "read-only, at the landlock level", access: "ro", level: policy.LevelLandlock},
		{name: "bind", lands: true}, // or the others prove nothing
	} {
		if tt.level != "" && os.Geteuid() == 0 {
			continue // root's have none at that level anyway
		}
		t.Run(tt.name, func(t *testing.T) {
			if tt.layered {
				testkit.RequireOverlays(t)
			}
			with := spec
			with.Level, with.Workspace.Mode, with.Workspace.Access = tt.level, tt.mode, tt.access
			if !tt.layered && !tt.lands {
				out, iso := shell(t, with, auto("ann"), `echo "[$GOCACHE]"`)
				told := strings.Contains(strings.Join(iso.Lost, "\n"), "caches: what commands change in them would stay, and the workspace is read-only")
				if out != "[]\n" || !told {
					t.Errorf("GOCACHE is %s, and the isolation loses %q", out, iso.Lost)
				}
				with.Caches = []string{"go"}
				if _, err := Open(t.Context(), with, auto("ann")); err == nil || !strings.Contains(err.Error(), "landlock level") {
					t.Errorf("a cache that was named: %v", err)
				}
				return
			}
			out, iso := shell(t, with, auto("ann"), hostile)
			if out != "kept\nevil\nevil\n" || slices.Equal(iso.LayeredCaches, []string{"go"}) != tt.layered || slices.Equal(iso.Caches, []string{"go"}) == tt.layered {
				t.Errorf("with caches %q and layered ones %q there is %q", iso.Caches, iso.LayeredCaches, out)
			}
			want := "kept\nkept\n"
			if tt.lands {
				want = "d\nkept\nnew\nevil\n"
			}
			if out, _ := shell(t, spec, auto("ann"), `cd "$GOCACHE" && ls && cat kept`); out != want {
				t.Errorf("then the cache has %q", out)
			}
		})
	}
	if left, err := filepath.Glob(store + "/*/*/*"); err != nil || len(left) != 3 { // the cache, its record and its lock
		t.Errorf("in the store there is %q (%v)", left, err)
	}
}

// A HOME that stays, over a workspace whose changes do not, is told.
func TestHomeStays(t *testing.T) {
	storeOf(t)
	for access, want := range map[string]bool{"rw": false, "ro": true} { // the first is the control
		plan, _, err := Plan(t.Context(), Spec{Workspace: Workspace{Source: t.TempDir(), Access: access}, Home: "keep"}, auto("ann"))
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(plan.Holds.Lost, func(s string) bool { return strings.HasPrefix(s, "ending HOME with the sandbox: ") }); got != want {
			t.Errorf("access %s: lost %q", access, plan.Holds.Lost)
		}
	}
}
