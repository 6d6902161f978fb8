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
		filepath.Join(root, "people", "ann"): "is or holds your home", filepath.Join(root, "people"): "is or holds your home", root: "is or holds your home", "/": "is or holds your home",
		filepath.Join(root, "people", "ann", "app"): "", filepath.Join(root, "people", "an"): "", filepath.Join(root, "people", "annie"): "",
		"/etc": "is or holds /etc", "/etc/ssl": "lies in /etc", "/usr": "is or holds /usr", "/usr/local": "lies in /usr", "/usr/lib": "lies in /usr",
		"/var": "is or holds /var", "/opt": "is or holds /opt", "/proc/1": "lies in /proc", "/dev/shm": "lies in /dev", "/run": "is or holds /run",
		"/root": "is or holds root's home", "/home/nobody-in-particular": "is or holds a home",
		"/srv/app": "", "/tmp/app": "", "/var/tmp/app": "", "/optional": "",
	} {
		if got := Unasked(dir); got != want {
			t.Errorf("%s %q, want %q", dir, got, want)
		}
	}
}
