//go:build linux

package linux

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// withDownloads adds a cache of the sandbox's, at /c, to a request, and what the caller's tool
// has downloaded, of which content-v2 is shown.
func withDownloads(t *testing.T, req backend.Request) (with backend.Request, own, theirs string) {
	t.Helper()
	own, theirs = tempDir(t), tempDir(t)
	for at, text := range map[string]string{
		own + "/d/content-v2/own": "own", own + "/d/content-v2/both": "own", own + "/d/index-v5/own": "own",
		theirs + "/content-v2/theirs": "theirs", theirs + "/content-v2/both": "theirs", theirs + "/content-v2/deep/er": "deep",
		theirs + "/index-v5/secret": "secret", theirs + "/index-v5/own": "secret", theirs + "/other": "secret", theirs + "/tmp/x": "secret",
	} {
		testkit.Write(t, at, text, 0o644)
	}
	req.Spec.Mounts = append(req.Spec.Mounts, policy.Mount{Source: own, Target: "/c", Mode: "rw"}, policy.Mount{Source: theirs, Target: "/c/d", Mode: "ro"})
	req.Stored = []backend.Stored{{Source: own, Tool: "npm"}, {Source: theirs, Tool: "npm", Downloads: true, Over: "/c/d", Hidden: []string{"index-v5", "later", "other", "tmp"}}}
	return req, own, theirs
}

// treeOf describes everything in a directory: names, types, modes, owners, times and contents.
func treeOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(at string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(at, &st)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %d %o %d:%d %d %d", at, st.Ino, st.Mode, st.Uid, st.Gid, st.Mtim.Nano(), st.Ctim.Nano())
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			text, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %x", sha256.Sum256(text))
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Commands see their own cache with the caller's downloads below it, and nothing else of the
// caller's. They can change all of it, for themselves alone: neither directory changes, and
// ten sandboxes do not meet.
func TestOverlay(t *testing.T) {
	testkit.RequireOverlays(t)
	req, own, theirs := withDownloads(t, request(t))
	before := [2]string{treeOf(t, own), treeOf(t, theirs)}
	var wait sync.WaitGroup
	var box backend.Sandbox
	for range 10 {
		box = launchBox(t, req)
		if got := box.Isolation(); !slices.Equal(got.Downloads, []string{"npm"}) || !slices.Equal(got.Caches, []string{"npm"}) || !got.Verified {
			t.Fatalf("downloads %q, caches %q", got.Downloads, got.Caches)
		}
		box := box
		wait.Go(func() {
			for _, tt := range [][2]string{
				{"cd /c/d; ls; ls index-v5 content-v2; cat content-v2/* 2>/dev/null", "content-v2\nindex-v5\ncontent-v2:\nboth\ndeep\nown\ntheirs\n\nindex-v5:\nown\nownowntheirs"},
				{"grep -r secret /c; echo none", "none"},
				{"cd /c/d; cat other tmp/x index-v5/secret 2>&1 | grep -c 'No such file'", "3"},
				{"cd /c/d; echo more >> content-v2/theirs; cat content-v2/theirs; echo new > content-v2/new; mkdir tmp; cat content-v2/new", "theirsmore\nnew"},
				{"cd /c/d; mv content-v2/new tmp/new && ln tmp/new content-v2/linked && cat content-v2/linked", "new"},
				{"cd /c/d; rm -r content-v2/deep && mkdir content-v2/deep && ls content-v2/deep", ""},
				{"cd /c/d; chmod 600 content-v2/both && rm content-v2/own && ls content-v2", "both\ndeep\nlinked\ntheirs"},
				{"rm -rf /c/d/* && ls -A /c/d", ""},
				{"rmdir /c/d 2>&1 | grep -c busy; mknod /c/d/x c 0 0 2>&1 | grep -c 'not permitted'", "1\n1"},
				{"grep -c '" + own + "\\|" + theirs + "' /proc/self/mounts", "0"},
			} {
				if out, _ := sh(t, box, tt[0]); out != tt[1] {
					t.Errorf("%s\nsays %q, not %q", tt[0], out, tt[1])
				}
			}
		})
	}
	wait.Wait()
	if now := [2]string{treeOf(t, own), treeOf(t, theirs)}; now != before {
		t.Errorf("before there was\n%s\nand then\n%s", before, now)
	}
	testkit.Write(t, theirs+"/later/secret", "secret", 0o644)
	if out, _ := sh(t, box, "ls -A /c/d; cat /c/d/later/secret"); out != "cat: /c/d/later/secret: No such file or directory" {
		t.Errorf("what is hidden came later, and is seen: %q", out)
	}
}

// What commands of an earlier sandbox have left in the cache hides what is in it. It never shows
// what is hidden, and never keeps a sandbox from starting.
func TestOverlayOverHostile(t *testing.T) {
	testkit.RequireOverlays(t)
	mark := func(name, value string, files ...string) func(*testing.T, string) error {
		return func(_ *testing.T, own string) (err error) {
			for _, file := range files {
				err = errors.Join(err, unix.Setxattr(filepath.Join(own, file), "user.overlay."+name, []byte(value), 0))
			}
			return err
		}
	}
	replaced := func(with func(at string) error) func(*testing.T, string) error {
		return func(_ *testing.T, own string) error { return errors.Join(os.RemoveAll(own+"/d"), with(own+"/d")) }
	}
	for name, tt := range map[string]struct {
		leave  func(t *testing.T, own string) error
		merged bool
	}{
		"nothing":           {func(*testing.T, string) error { return nil }, true},
		"opaque":            {mark("opaque", "y", "d", "d/content-v2"), true},
		"redirected":        {mark("redirect", "/index-v5", "d/content-v2"), true},
		"redirected beside": {mark("redirect", "index-v5", "d/content-v2", "d/index-v5"), true},
		"data of a file": {func(t *testing.T, own string) error {
			return errors.Join(mark("metacopy", "", "d/content-v2/own")(t, own), mark("redirect", "/index-v5/secret", "d/content-v2/own")(t, own))
		}, true},
		"marked as removed": {func(t *testing.T, own string) error {
			return errors.Join(mark("opaque", "x", "d/content-v2")(t, own), mark("whiteout", "y", "d/content-v2/own")(t, own))
		}, true},
		"removed": {func(_ *testing.T, own string) error {
			return errors.Join(os.RemoveAll(own+"/d/content-v2"), unix.Mknod(own+"/d/content-v2", unix.S_IFCHR, 0))
		}, true},
		"a link to the root": {func(_ *testing.T, own string) error {
			return errors.Join(os.RemoveAll(own+"/d/content-v2"), os.Symlink("/", own+"/d/content-v2"))
		}, true},
		"what is tried": {func(_ *testing.T, own string) error { return os.Mkdir(own+"/d/.paddock-try", 0o700) }, false},
		"closed": {func(t *testing.T, own string) error {
			t.Cleanup(func() { _ = os.Chmod(own+"/d", 0o700) }) // it is a directory, and is removed
			return os.Chmod(own+"/d", 0)
		}, true},
		"a link": {replaced(func(at string) error { return os.Symlink("/etc", at) }), false},
		"a loop": {replaced(func(at string) error { return os.Symlink("d", at) }), false},
		"a pipe": {replaced(func(at string) error { return unix.Mkfifo(at, 0o600) }), false},
		"a file": {replaced(func(at string) error { return os.WriteFile(at, nil, 0o600) }), false},
		"gone":   {replaced(func(string) error { return nil }), false},
	} {
		t.Run(name, func(t *testing.T) {
			req, own, theirs := withDownloads(t, request(t))
			before := treeOf(t, theirs)
			if err := tt.leave(t, own); err != nil {
				t.Fatal(err)
			}
			box := launchBox(t, req)
			if got := box.Isolation(); slices.Contains(got.Downloads, "npm") != tt.merged || !slices.Equal(got.Caches, []string{"npm"}) {
				t.Errorf("downloads %q, caches %q", got.Downloads, got.Caches)
			}
			if out, _ := sh(t, box, "find /c -type f -exec cat {} + 2>/dev/null; grep -rs secret /c; touch /c/x; ls /c/x"); strings.Contains(out, "secret") || !strings.HasSuffix(out, "/c/x") {
				t.Errorf("inside there is %q", out)
			}
			if now := treeOf(t, theirs); now != before {
				t.Errorf("before there was\n%s\nand then\n%s", before, now)
			}
		})
	}
}

// Where the overlay cannot be had, commands have their own cache alone.
func TestNoOverlay(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, req *backend.Request, theirs string) error
		root  bool
	}{
		"what is hidden has no name": {func(_ *testing.T, req *backend.Request, _ string) error {
			req.Stored[1].Hidden = append(req.Stored[1].Hidden, "a/b")
			return nil
		}, false},
		"no id-mapped mounts": {func(t *testing.T, _ *backend.Request, theirs string) error {
			t.Cleanup(func() { _ = unix.Unmount(theirs, unix.MNT_DETACH) })
			return unix.Mount("theirs", theirs, "ramfs", 0, "")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.root {
				requireRoot(t)
			}
			req, _, theirs := withDownloads(t, request(t))
			if err := tt.spoil(t, &req, theirs); err != nil {
				t.Fatal(err)
			}
			box := launchBox(t, req)
			got := box.Isolation()
			if len(got.Downloads) > 0 || !slices.Equal(got.Caches, []string{"npm"}) || !got.Verified {
				t.Errorf("downloads %q, caches %q", got.Downloads, got.Caches)
			}
			if out, _ := sh(t, box, "cd /c/d; cat content-v2/*; echo x > content-v2/x; cat content-v2/x"); out != "ownownx" {
				t.Errorf("inside: %q", out)
			}
			if slices.ContainsFunc(box.(*sandbox).plan.plan.Setup, func(s confine.Step) bool { return s.Do == confine.OpOverlay }) {
				t.Error("the plan has the overlay")
			}
		})
	}
}

// What commands change in a cache whose changes end is theirs alone, and the cache stays as it is.
// Where the overlay cannot be had, they have an empty one.
func TestLayeredCache(t *testing.T) {
	testkit.RequireOverlays(t)
	for name, tt := range map[string]struct {
		leave func(own string) error
		seen  bool
	}{
		"as it is":        {func(string) error { return nil }, true},
		"marked opaque":   {func(own string) error { return unix.Setxattr(own+"/d", "user.overlay.opaque", []byte("y"), 0) }, true},
		"with a pipe":     {func(own string) error { return unix.Mkfifo(own+"/pipe", 0o600) }, true},
		"with links":      {func(own string) error { return os.Symlink("/", own+"/root") }, true},
		"what is tried":   {func(own string) error { return os.Mkdir(own+"/.paddock-try", 0o700) }, false},
		"a name too many": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			req, own := request(t), tempDir(t)
			testkit.Write(t, own+"/d/kept", "kept", 0o644)
			req.Spec.Mounts = append(req.Spec.Mounts, policy.Mount{Source: own, Target: "/c", Mode: "ro"})
			req.Stored = []backend.Stored{{Source: own, Tool: "go", Ends: true}}
			if tt.leave == nil {
				req.Stored[0].Hidden = []string{"a/b"}
			} else if err := tt.leave(own); err != nil {
				t.Fatal(err)
			}
			before := treeOf(t, own)
			box := launchBox(t, req)
			got := box.Isolation()
			lost := strings.Contains(strings.Join(got.Lost, "\n"), "the cache of go: it begins empty")
			if slices.Equal(got.LayeredCaches, []string{"go"}) != tt.seen || lost == tt.seen || len(got.Caches) > 0 || !got.Verified {
				t.Errorf("layered %q, caches %q, lost %q", got.LayeredCaches, got.Caches, got.Lost)
			}
			want := "kept\nx"
			if !tt.seen {
				want = "x"
			}
			if out, _ := sh(t, box, "cat /c/d/kept 2>/dev/null && echo; echo x > /c/new && mkdir -p /c/d && echo x > /c/d/kept && chmod 700 /c /c/d && cat /c/d/kept && rm -rf /c/d && mkdir /c/d && ls /c/d"); out != want {
				t.Errorf("inside: %q", out)
			}
			if now := treeOf(t, own); now != before {
				t.Errorf("before there was\n%s\nand then\n%s", before, now)
			}
		})
	}
}
