//go:build linux

package linux

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/policy"
)

// TestBundleOfRootFS: of a root file system, which commands could have made, nothing but regular
// files is read, and no link leads out of it.
func TestBundleOfRootFS(t *testing.T) {
	t.Setenv("SSL_CERT_FILE", "")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := bundles[0][1:]
	for name, tt := range map[string]struct {
		make func(root, file string) error
		want string
	}{
		"file": {func(_, file string) error { return os.WriteFile(file, []byte("certificates"), 0o600) }, "certificates\n"},
		"link": {func(_, file string) error { return os.Symlink(secret, file) }, ""},
		"fifo": {func(_, file string) error { return unix.Mkfifo(file, 0o600) }, ""},
		"large": {func(_, file string) error {
			return os.WriteFile(file, make([]byte, mostBundle+1), 0o600)
		}, ""},
		"directory that is a link": {func(root, file string) error {
			away := filepath.Join(t.TempDir(), "certs")
			if err := os.Rename(filepath.Dir(file), away); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(away, filepath.Base(file)), []byte("of the host"), 0o600); err != nil {
				return err
			}
			return os.Symlink(away, filepath.Dir(file))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			file := filepath.Join(root, at)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := tt.make(root, file); err != nil {
				t.Fatal(err)
			}
			if got := string(hostBundle(policy.Spec{RootFS: root})); got != tt.want {
				t.Errorf("%.40q, want %q", got, tt.want)
			}
		})
	}
}
