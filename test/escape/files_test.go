//go:build linux

package escape

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// A set-id file that was there before stays one only as long as nobody has
// written to it.
func TestExistingSetID(t *testing.T) {
	onLevels(t, func(t *testing.T, c column) {
		h := newHost(t, c)
		b := h.start(t, h.spec(h.inside, "none"))
		for _, how := range []string{"append", "overwrite"} {
			path := filepath.Join(h.inside, "set-id-"+how)
			testkit.Write(t, path, "true program", 0o755)
			h.lend(t)
			if err := os.Chmod(path, 0o755|os.ModeSetuid); err != nil {
				t.Fatal(err)
			}
			if got, err := h.attack(t.Context(), b, []string{how, "{ws}/set-id-" + how}); err != nil || got != succeeded {
				t.Fatalf("%s: %s, %v", how, got, err)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode()&os.ModeSetuid != 0 {
				t.Errorf("%s: the file is another, and still set-id: %v", how, info.Mode())
			}
		}
	})
}

// What commands make belongs to the owner of the workspace, and is nobody's
// way to another identity.
func TestOwnership(t *testing.T) {
	onLevels(t, func(t *testing.T, c column) {
		h := newHost(t, c)
		b := h.start(t, h.spec(h.inside, "none"))
		if res, err := b.client.Exec(t.Context(), wire.ExecRequest{Command: "umask 0; mkdir d && echo x > d/f && ln -s /etc/shadow d/l"}); err != nil || res.ExitCode != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		owner := os.Geteuid()
		if c == (column{asRoot, policy.LevelLandlock}) {
			owner = ordinaryID
		}
		for _, name := range []string{"d", "d/f", "d/l"} {
			info, err := os.Lstat(filepath.Join(h.inside, name))
			if err != nil {
				t.Fatal(err)
			}
			st := info.Sys().(*syscall.Stat_t)
			if int(st.Uid) != owner || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
				t.Errorf("%s: uid %d, %v", name, st.Uid, info.Mode())
			}
		}
	})
}
