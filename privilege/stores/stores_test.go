package stores

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/privilege"
)

func TestOpen(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	t.Setenv(paddock.StateDirEnv, state)
	other := filepath.Join(t.TempDir(), "state", "p.json")
	grant := func(set privilege.Set) privilege.Set { return set | privilege.UnsandboxedExec }
	for where, file := range map[string]string{"": filepath.Join(state, FileName), other: other} {
		s, err := Open(where, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Update(t.Context(), "a", grant); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	for _, where := range []string{"redis://127.0.0.1:1", "unix:///nowhere/s", "file:///x", "x://"} {
		asked := ""
		_, err := Open(where, func(address string) (privilege.Store, error) {
			asked = address
			return nil, &privilege.Unavailable{Store: "x", Cause: errors.New("away")}
		})
		if u := (*privilege.Unavailable)(nil); !errors.As(err, &u) || asked != where {
			t.Errorf("%s: asked for %q, %v", where, asked, err)
		}
	}
}

// TestLocal: the owner of a file is an administrator, nobody but root is one
// of a server.
func TestLocal(t *testing.T) {
	t.Setenv(paddock.StateDirEnv, filepath.Join(t.TempDir(), "state"))
	root := os.Geteuid() == 0
	for where, want := range map[string]bool{
		"": true, filepath.Join(t.TempDir(), "p.json"): true, "/p.json": root, "redis://127.0.0.1": root, "unix:///x": root,
	} {
		who := Local(where)
		if err := privilege.CheckName(who.Name); err != nil || who.Admin != want {
			t.Errorf("to %q: %+v, %v", where, who, err)
		}
	}
}
