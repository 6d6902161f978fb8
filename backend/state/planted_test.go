//go:build linux

package state

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/internal/testkit"
)

const planted = "pd-plantedaaaaaa"

// all is a sweeper that lets everything go.
func all(string, *Record) bool { return true }

// What a directory of state leads to by a link, what is not named as a sandbox is and
// what holds other things than a half-made one stays.
func TestSweepRemovesItsOwnAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		make    func(t *testing.T, root, outside string)
		refused string // the words of a start, "" where it goes on
		stays   bool
	}{
		"a half-made sandbox": {make: func(t *testing.T, root, _ string) {
			testkit.Write(t, filepath.Join(abandon(t, root, planted, nil, 0), lockName), "", 0o600)
		}},
		"an abandoned sandbox": {make: func(t *testing.T, root, _ string) {
			testkit.Write(t, filepath.Join(abandon(t, root, planted, &Record{}, 0), "other"), "", 0o600)
		}},
		"files of others": {stays: true, make: func(t *testing.T, root, _ string) {
			testkit.Write(t, filepath.Join(abandon(t, root, planted, nil, 0), "thesis"), "", 0o600)
		}},
		"a lock with text": {stays: true, make: func(t *testing.T, root, _ string) {
			testkit.Write(t, filepath.Join(abandon(t, root, planted, nil, 0), lockName), "text", 0o600)
		}},
		"another name": {stays: true, make: func(t *testing.T, root, _ string) {
			testkit.Write(t, filepath.Join(abandon(t, root, "pd-photos", nil, 0), lockName), "", 0o600)
		}},
		"a link in the place of a sandbox": {stays: true, make: func(t *testing.T, root, outside string) {
			testkit.Write(t, filepath.Join(outside, recordName), "{}", 0o600)
			link(t, outside, filepath.Join(root, sandboxesDir, planted))
		}},
		"a link in the place of all": {stays: true, refused: "symbolic link", make: func(t *testing.T, root, outside string) {
			testkit.Write(t, filepath.Join(outside, planted, recordName), "{}", 0o600)
			replace(t, root, sandboxesDir, func(at string) { link(t, outside, at) })
		}},
		"all writable for others": {stays: true, refused: "others can write", make: func(t *testing.T, root, _ string) {
			abandon(t, root, planted, &Record{}, 0)
			if err := os.Chmod(filepath.Join(root, sandboxesDir), 0o777); err != nil {
				t.Fatal(err)
			}
		}},
		"a link in the place of ids":        {stays: true, refused: "symbolic link", make: func(t *testing.T, root, outside string) { link(t, outside, filepath.Join(root, IDsDir)) }},
		"a link in the place of audit":      {stays: true, refused: "symbolic link", make: func(t *testing.T, root, outside string) { link(t, outside, filepath.Join(root, "audit")) }},
		"a link in the place of unreported": {stays: true, refused: "symbolic link", make: func(t *testing.T, root, outside string) { link(t, outside, filepath.Join(root, unreportedDir)) }},
		"a file in the place of unreported": {stays: true, refused: "not a directory", make: func(t *testing.T, root, _ string) { testkit.Write(t, filepath.Join(root, unreportedDir), "", 0o600) }},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			root, outside := filepath.Join(base, "state"), filepath.Join(base, "outside")
			if err := errors.Join(os.MkdirAll(filepath.Join(root, sandboxesDir), 0o700), os.MkdirAll(filepath.Join(outside, planted), 0o700)); err != nil {
				t.Fatal(err)
			}
			tt.make(t, root, outside)
			old := time.Now().Add(-time.Hour)
			_ = filepath.WalkDir(base, func(path string, _ os.DirEntry, _ error) error { _ = os.Chtimes(path, old, old); return nil })
			was := list(t, base)
			d, err := New(root, "", all)
			if err == nil {
				d.Remove(nil)
			}
			var e *backend.StartError
			if tt.refused == "" && err != nil || tt.refused != "" && (!errors.As(err, &e) || !strings.Contains(err.Error(), tt.refused) || !strings.Contains(e.Hint, e.Object) || !strings.Contains(e.Hint, "PADDOCK_STATE_DIR")) {
				t.Errorf("a start: %v", err)
			}
			if _, err := Attach(root, planted); tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)) {
				t.Errorf("who attaches: %v", err)
			}
			TakeUnreported(root)
			if now := list(t, base); tt.stays != (now == was) {
				t.Errorf("left of\n%s\nis\n%s", was, now)
			}
		})
	}
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

// replace puts something else in the place of a directory.
func replace(t *testing.T, root, name string, put func(at string)) {
	t.Helper()
	at := filepath.Join(root, name)
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	put(at)
}

// list is all that lies below a directory.
func list(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}
