//go:build linux

package hostpath

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
)

// inMounts runs a test again where it can mount what it likes, and reports whether this
// is there.
func inMounts(t *testing.T) bool {
	t.Helper()
	const forbidden = "no mount can be made here: "
	if os.Getenv("PADDOCK_TEST_MOUNTS") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), "PADDOCK_TEST_MOUNTS=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
		if id := os.Getuid(); id != 0 {
			cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
			cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
		}
		out, err := cmd.CombinedOutput()
		if len(out) == 0 {
			t.Skip(forbidden + err.Error())
		}
		if _, why, skipped := strings.Cut(string(out), forbidden); skipped {
			why, _, _ = strings.Cut(why, "\n")
			t.Skip(forbidden + why)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return false
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Skip(forbidden + err.Error())
	}
	return true
}

// bind mounts paths below root a second time, the first of each pair at the second.
func bind(t *testing.T, root string, pairs ...[2]string) {
	t.Helper()
	for _, m := range pairs {
		if err := unix.Mount(root+"/"+m[0], root+"/"+m[1], "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(root+"/"+m[1], unix.MNT_DETACH) })
	}
}

// A directory that is mounted a second time shows Paddock's own files by a second
// path, which is refused as the first is covered or refused.
func TestOtherPaths(t *testing.T) {
	if !inMounts(t) {
		return
	}
	root := dirIn(t, "home/app", "home/.local/state/paddock/sandboxes", "home/bin", "alias", "part", "ws/sub", "apart", "other", "one/home", "again")
	for _, f := range []string{"home/bin/tool", "file"} {
		if err := os.WriteFile(root+"/"+f, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	bind(t, root, [][2]string{{"home", "alias"}, {"home/.local/state/paddock/sandboxes", "part"}, {"home/.local/state", "ws/sub"}, {"home/bin/tool", "file"}, {"ws", "other"}, {"home", "one/home"}, {"one", "again"}}...)
	state := root + "/home/.local/state/paddock"
	for _, tt := range []struct {
		dir, access, state, says string
	}{
		{"alias", "", state, "alias/.local/state/paddock is another path to " + state},
		{"alias", "ro", state, "is another path to " + state},
		{"alias/.local", "", state, "is another path to " + state},
		{"alias/.local/state/paddock", "", state, "is another path to " + state},
		{"alias/.local/state/paddock/sandboxes", "", state, "is another path to " + state},
		{"part", "", state, "part is another path to " + state},
		{"ws", "", state, "ws/sub/paddock is another path to " + state},
		{"alias", "", state + "/new/state", "alias/.local/state/paddock/new/state is another path to " + state + "/new/state"},
		{"alias/bin", "", state, "alias/bin/tool is another path to " + root + "/home/bin/tool"},
		{"home", "", root + "/alias/.local/state/paddock", "is another path to " + root + "/alias/.local/state/paddock"},
		{"home", "", state, ""},
		{"home/app", "", state, ""},
		{"alias/app", "", state, ""},
		{"alias/bin", "ro", state, ""},
		{"apart", "", state, ""},
		{"other/sub", "", state, ""},
		{"again/home", "", state, ""}, // the bind was not recursive: nothing is mounted there
	} {
		req := requestOver(tt.state, root+"/"+tt.dir)
		req.Spec.Workspace.Access = tt.access
		req.Own = []backend.OwnFile{{Path: root + "/home/bin/tool", What: "the tool"}}
		mounts, err := Mounts(req, "/workspace")
		if err != nil {
			t.Fatal(err)
		}
		_, err = Covers(req, mounts)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s %s of %s: %v, want %q", tt.dir, tt.access, tt.state, err, tt.says)
		}
	}
	req := requestOver(state, root+"/apart", root+"/file")
	req.Own = []backend.OwnFile{{Path: root + "/home/bin/tool", What: "the tool"}}
	mounts, err := Mounts(req, "/workspace")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Covers(req, mounts); err == nil || !strings.Contains(err.Error(), "file is another path to "+root+"/home/bin/tool") {
		t.Errorf("a file mounted at another path: %v", err)
	}
}

// A directory of PATH counts by each path that the host has to it, and so do the programs
// that are mounted in it: a part of what commands can write may be mounted there.
func TestSearchDirOtherPaths(t *testing.T) {
	if !inMounts(t) {
		return
	}
	root := dirIn(t, "ws/bin/deep/er", "ws/in", "part/bin", "part/up", "old/bin", "oldpart/bin", "tools/bin", "tools/one", "plain/bin", "state", "other")
	for _, f := range []string{"ws/tool", "tools/one/tool", "tools/one/own", "plain/bin/x"} {
		if err := os.WriteFile(root+"/"+f, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	start := func(dirs ...string) backend.Request {
		t.Helper()
		for i := range dirs {
			dirs[i] = root + "/" + dirs[i]
		}
		req := requestOver(root+"/state", dirs...)
		mounts, err := Mounts(req, "/workspace")
		if err == nil {
			_, err = Remember(req, mounts, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	start("old")
	bind(t, root, [2]string{"ws/bin", "part/bin"}, [2]string{"ws/bin/deep", "part/up"}, [2]string{"old/bin", "oldpart/bin"}, [2]string{"tools/bin", "ws/in"}, [2]string{"ws/tool", "tools/one/tool"}, [2]string{"plain/bin", "other"})
	req := start("ws")
	for dir, says := range map[string]string{
		"part/bin":    "it lies in " + root + "/ws, which is writable",
		"part/up/er":  "it lies in " + root + "/ws, which is writable",
		"tools/bin":   "it lies in " + root + "/ws, which is writable",
		"tools/one":   "it lies in " + root + "/ws, which is writable",
		"oldpart/bin": root + "/old was writable for them",
		"plain/bin":   "",
		"other":       "",
		"tools":       "",
	} {
		found, err := SearchDir(req, root+"/"+dir)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) || err == nil && found != root+"/"+dir {
			t.Errorf("%s: %q, %v, want %q", dir, found, err, says)
		}
	}
}
