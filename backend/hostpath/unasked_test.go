package hostpath

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
	session := Real(t.TempDir())
	if err := os.Mkdir(filepath.Join(session, "app"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", session)
	for dir, want := range map[string]string{
		filepath.Join(root, "people", "ann"): "is or holds your home", filepath.Join(root, "people"): "is or holds your home", root: "is or holds your home", "/": "is or holds your home",
		filepath.Join(root, "people", "ann", "app"): "", filepath.Join(root, "people", "an"): "", filepath.Join(root, "people", "annie"): "",
		"/etc": "is or holds /etc", "/etc/ssl": "lies in /etc", "/usr": "is or holds /usr", "/usr/local": "lies in /usr", "/usr/lib": "lies in /usr",
		"/var": "is or holds /var", "/opt": "is or holds /opt", "/proc/1": "lies in /proc", "/dev/shm": "lies in /dev", "/run": "is or holds /run",
		"/root": "is or holds root's home", "/home/nobody-in-particular": "is or holds a home",
		"/run/user/1000": "is where the sockets of a session lie", session: "is where the sockets of a session lie", filepath.Join(session, "app"): "",
		"/srv/app": "", "/tmp/app": "", "/var/tmp/app": "", "/optional": "",
		"/tmp": "is where everything in /tmp lies", "/var/tmp": "is where everything in /var/tmp lies", "/srv": "is where everything in /srv lies",
		"/mnt": "is where everything in /mnt lies", "/media": "is where everything in /media lies",
	} {
		if got := Unasked(dir); got != want {
			t.Errorf("%s %q, want %q", dir, got, want)
		}
	}
}

// A directory that other users can change is a workspace only if it is named. Where a mode or an
// owner is that of every project, there is nothing to say.
func TestShared(t *testing.T) {
	const other = 54321
	for _, tt := range []struct {
		name     string
		mode     os.FileMode
		uid, gid int // -1: the caller's
		root     bool
		says     string
	}{
		{"own", 0o755, -1, -1, false, ""},
		{"own group", 0o775, -1, -1, false, ""},
		{"all", 0o777, -1, -1, false, "every user of this host (mode 0777)"},
		{"all, sticky", 0o777 | os.ModeSticky, -1, -1, false, "every user of this host (mode 1777)"},
		{"a foreign group", 0o775, -1, other, true, "the group 54321 (mode 0775)"},
		{"a foreign group that reads", 0o755, -1, other, true, ""},
		{"another user's, for root", 0o755, other, other, true, ""},
		{"another user's with the group of that name, for root", 0o775, 1, 1, true, ""}, // daemon
		{"another user's with another group, for root", 0o775, 1, other, true, "the group 54321 (mode 0775)"},
	} {
		dir := filepath.Join(Real(t.TempDir()), "d")
		if tt.root && os.Geteuid() != 0 {
			continue
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, tt.uid, tt.gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, tt.mode); err != nil {
			t.Fatal(err)
		}
		why := ""
		if tt.says != "" {
			why = "can be changed by " + tt.says
		}
		if got := Shared(dir); got != tt.says {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.says)
		}
		if got := Unasked(dir); got != why {
			t.Errorf("%s: %q, want %q", tt.name, got, why)
		}
		told := Openings([]Mount{{Dir: true, Source: "/opt"}, {Dir: true, Source: dir, Writable: true}, {Dir: true, Source: dir}})
		if one := tt.says != ""; one != (len(told) == 1) || one && !strings.Contains(told[0], dir+" can be changed by "+tt.says) {
			t.Errorf("%s: told %q", tt.name, told)
		}
	}

	dir := filepath.Join(Real(t.TempDir()), "d")
	if err := os.Mkdir(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	id := func(n uint32) string { return string([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}) }
	entry := func(tag, perm byte, of uint32) string { return string([]byte{tag, 0, perm, 0}) + id(of) }
	const none = ^uint32(0)
	list := id(2) + entry(1, 7, none) + entry(2, 7, other) + entry(4, 0, none) + entry(0x10, 7, none) + entry(0x20, 0, none)
	if err := unix.Setxattr(dir, "system.posix_acl_access", []byte(list), 0); err == nil { // else the file system has no lists
		if got := Shared(dir); !strings.Contains(got, "access control list") {
			t.Errorf("a list of access: %q", got)
		}
		list = id(2) + entry(1, 7, none) + entry(2, 5, other) + entry(4, 5, none) + entry(0x10, 7, none) + entry(0x20, 0, none)
		if err := unix.Setxattr(dir, "system.posix_acl_access", []byte(list), 0); err != nil {
			t.Fatal(err)
		}
		if got := Shared(dir); got != "" {
			t.Errorf("a list by which nobody else can write: %q", got)
		}
	}

	t.Setenv("HOME", dir)
	if told := Openings([]Mount{{Dir: true, Source: dir}}); len(told) == 0 || !strings.Contains(told[0], "your home: "+dir+" is or holds it, and they can read what") {
		t.Errorf("a home: %q", told)
	}
}
