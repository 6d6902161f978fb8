package hostpath

import (
	"os"
	"path/filepath"
	"testing"
)

func TestUnasked(t *testing.T) {
	root := Real(t.TempDir())
	if err := os.MkdirAll(filepath.Join(root, "people", "ann", "app"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("people", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", filepath.Join(root, "link", "ann"))
	for dir, want := range map[string]string{
		filepath.Join(root, "people", "ann"): "your home", filepath.Join(root, "people"): "your home", root: "your home", "/": "your home",
		filepath.Join(root, "people", "ann", "app"): "", filepath.Join(root, "people", "an"): "", filepath.Join(root, "people", "annie"): "",
		"/etc": "/etc", "/etc/nginx": "", "/usr": "/usr", "/usr/local/src": "", "/root": "root's home", "/home/nobody-in-particular": "a home",
		"/srv/app": "",
	} {
		if got := Unasked(dir); got != want {
			t.Errorf("%s is or holds %q, want %q", dir, got, want)
		}
	}
}
