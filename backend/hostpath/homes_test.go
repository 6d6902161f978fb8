package hostpath

import (
	"os"
	"slices"
	"testing"
)

// A home behind a link counts by both paths.
func TestUsersOverLinks(t *testing.T) {
	root := Real(t.TempDir())
	if err := os.MkdirAll(root+"/var/home/ann", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("var/home", root+"/home"); err != nil {
		t.Fatal(err)
	}
	u := Users{Own: root + "/var/home/ann", dirs: map[string]string{"ann": root + "/home/ann", "ann2": root + "/home/ann", "ben": root + "/home/ben"}}
	u.resolve()
	if want := []string{root + "/home/ann", root + "/home/ben", root + "/var/home/ann", root + "/var/home/ben"}; !slices.Equal(u.All(), want) {
		t.Errorf("%q, want %q", u.All(), want)
	}
	if !u.Has(root+"/var/home/ann") || !u.Has(root+"/home/ann") || u.Has(root+"/home") {
		t.Error("other homes")
	}
}
