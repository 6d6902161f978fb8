//go:build linux

package linux

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
)

// Commands change a copy of git's configuration in every way in which programs do,
// and the host's file stays as it was. What the copy is in the end is the host's to see.
func TestOwnCopy(t *testing.T) {
	req := request(t)
	ws := req.Spec.Workspace.Source
	repository(t, ws)
	box := launchBox(t, req)
	if copies := box.Isolation().OwnCopies; len(copies) != 1 || copies[0] != "/workspace/.git/config" {
		t.Fatalf("copies of %q", copies)
	}
	for _, tt := range []struct {
		command, says string // says is "" where it is to succeed
	}{
		{"cat .git/config", "[core]"},
		{"at=$(readlink .git/config) && echo '[a]' > $at.lock && mv $at.lock $at", ""}, // as git does
		{"cat .git/config", "[a]"},
		{"echo '\tb = c' >> .git/config", ""},
		{"echo x > new && mv -T new .git/config", "busy"},
		{"echo x > new && ln -f new .git/config", "cross-device"},
		{"ln .git/config hard", "cross-device"},
		{"rm -f .git/config", "busy"},
		{"mv .git/config away", "busy"},
		{"mv .git gone", "busy"},
		{"rm /run/paddock-copies/0/config.link", "No such file"},
		{"mv /run/paddock-copies /run/gone", "busy"},
		{"umount .git/config", ""},
		{"cat .git/config", "b = c"},
	} {
		out, status := sh(t, box, tt.command)
		if tt.says == "" && status != 0 && !strings.HasPrefix(tt.command, "umount") || !strings.Contains(strings.ToLower(out), strings.ToLower(tt.says)) {
			t.Errorf("%s: status %d: %s", tt.command, status, out)
		}
	}
	sameConfig(t, ws)
	death, err := box.Stop(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(death.Copies[ws+"/.git/config"].Text); text != "[a]\n\tb = c\n" {
		t.Errorf("the copy is %q", text)
	}
	sameConfig(t, ws)
}

// What commands have put in the place of a copy is no trap for who reads it.
func TestOwnCopyHostile(t *testing.T) {
	const at = "/run/paddock-copies/0"
	for name, command := range map[string]string{
		"a FIFO":                  "rm $at/config && mkfifo $at/config",
		"a link to a host's file": "ln -sf /etc/hostname $at/config",
		"a link above":            "rm -r $at && ln -s /etc $at",
		"a directory":             "rm $at/config && mkdir $at/config",
		"nothing":                 "rm -r $at",
		"too much":                "head -c 2000000 /dev/zero > $at/config",
	} {
		req := request(t)
		ws := req.Spec.Workspace.Source
		repository(t, ws)
		box := launchBox(t, req)
		if out, status := sh(t, box, "at="+at+"; "+command); status != 0 {
			t.Fatalf("%s: %s", name, out)
		}
		death, err := box.Stop(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if c := death.Copies[ws+"/.git/config"]; len(death.Copies) != 1 || c.Err == nil || len(c.Text) > 0 {
			t.Errorf("%s: %+v was read", name, death.Copies)
		}
		sameConfig(t, ws)
	}
}

// A repository of whose configuration a copy finds no room has the read-only file.
func TestOwnCopyRefused(t *testing.T) {
	req := request(t)
	ws := req.Spec.Workspace.Source
	repository(t, ws)
	for _, n := range "abcdefghij" {
		dir := ws + "/" + string(n) + "/.git"
		repository(t, filepath.Dir(dir))
		testkit.Write(t, dir+"/config", strings.Repeat("# comment\n", 100_000), 0o644)
	}
	box := launchBox(t, req)
	if n := len(box.Isolation().OwnCopies); n == 0 || n > 10 {
		t.Errorf("%d copies", n)
	}
	for _, n := range "abcdefghij" {
		at := "/workspace/" + string(n) + "/.git/config"
		out, _ := sh(t, box, "mv "+at+" x")
		if !strings.Contains(out, "busy") {
			t.Errorf("%s: %s", at, out)
		}
	}
	death, err := box.Stop(t.Context(), 0)
	if err != nil || len(death.Copies) != len(box.Isolation().OwnCopies) {
		t.Errorf("%d copies were read: %v", len(death.Copies), err)
	}
	for at, c := range death.Copies {
		if c.Err != nil {
			t.Errorf("%s: %v", at, c.Err)
		}
	}
}
