//go:build linux

package linux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// A command is 1000 inside, whoever it is outside, and never the host's root.
func TestCommandIdentity(t *testing.T) {
	box := launchBox(t, request(t))
	if out, _ := sh(t, box, "id -u; id -g; id -G; grep ^Cap /proc/self/status"); !strings.HasPrefix(out, "1000\n1000\n1000") || strings.Count(out, "0000000000000000") != 5 {
		t.Errorf("inside: %s", out)
	}
	token := newToken()
	client := wire.Client{Dial: box.Dial}
	up := make(chan struct{}, 1)
	p, err := client.Start(t.Context(), wire.ExecRequest{Argv: []string{"/bin/sh", "-c", "echo up; sleep 1000; :", token}},
		wire.Streams{Stdout: writer(func() { up <- struct{}{} })})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	<-up
	pids := carriers(token)
	if len(pids) == 0 { // a shell about to start its program is two
		t.Fatalf("the command is %v", pids)
	}
	status, err := state.ReadStatus(fmt.Sprintf("/proc/%d/status", pids[0]))
	if err != nil {
		t.Fatal(err)
	}
	want := uint32(os.Getuid())
	if os.Geteuid() == 0 {
		if want = box.Isolation().UIDHost; want < state.LentFirst || want >= state.LentFirst+state.LentCount {
			t.Errorf("lent id %d", want)
		}
		if status["Groups"] != "" {
			t.Errorf("groups %s", status["Groups"])
		}
	}
	for _, key := range []string{"Uid", "Gid"} {
		if want == 0 || key == "Uid" && status[key] != strings.Repeat(fmt.Sprintf("%d\t", want), 3)+fmt.Sprint(want) {
			t.Errorf("%s: %q, want %d", key, status[key], want)
		}
	}
	if status["NoNewPrivs"] != "1" || status["Seccomp"] != "2" {
		t.Errorf("no_new_privs %s, seccomp %s", status["NoNewPrivs"], status["Seccomp"])
	}
}

// New files belong to the workspace's owner; files of anybody else stay theirs.
func TestOtherOwners(t *testing.T) {
	requireRoot(t)
	for _, owner := range []int{0, 12345} {
		t.Run(fmt.Sprint(owner), func(t *testing.T) {
			req := request(t)
			ws := req.Spec.Workspace.Source
			testkit.Write(t, filepath.Join(ws, "own"), "x", 0o644)
			testkit.Write(t, filepath.Join(ws, "other"), "x", 0o644)
			for path, uid := range map[string]int{ws: owner, filepath.Join(ws, "own"): owner, filepath.Join(ws, "other"): 54321} {
				if err := os.Chown(path, uid, uid); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(filepath.Join(ws, "other"), 0o666); err != nil {
				t.Fatal(err)
			}
			box := launchBox(t, req)
			if out, status := sh(t, box, "echo y > own && touch new && mkdir dir && stat -c %u own"); status != 0 || out != "1000" {
				t.Errorf("status %d: %s", status, out)
			}
			for _, command := range []string{"echo y > other", "chmod 600 other", "chown 1000 other"} {
				if out, status := sh(t, box, command); status == 0 {
					t.Errorf("%s: %s", command, out)
				}
			}
			for name, want := range map[string]uint32{"own": uint32(owner), "new": uint32(owner), "dir": uint32(owner), "other": 54321} {
				info, err := os.Stat(filepath.Join(ws, name))
				if err != nil {
					t.Fatal(err)
				}
				if got := info.Sys().(*syscall.Stat_t).Uid; got != want {
					t.Errorf("%s belongs to %d, want %d", name, got, want)
				}
			}
		})
	}
}

// requireMappable skips where this kernel cannot map the owners of a file system:
// of those in memory only from Linux 6.3 on.
func requireMappable(t *testing.T, dir string) {
	t.Helper()
	var helpers sync.WaitGroup
	defer helpers.Wait()
	mount, err := idmapMount(hostpath.Mount{Source: dir}, identity{uid: state.LentFirst, gid: state.LentFirst}, &helpers)
	if errors.Is(err, unix.EINVAL) {
		t.Skipf("this kernel maps no owners on the file system of %s", dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = mount.Close()
}

// A workspace on a file system in memory, where root has one.
func TestTmpfsWorkspace(t *testing.T) {
	requireRoot(t)
	dir, err := os.MkdirTemp("/run", "paddock-linux-") //nolint:usetesting // on this file system
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	requireMappable(t, dir)
	box := launchBox(t, request(t, func(s *policy.Spec) { s.Workspace.Source = dir }))
	if out, status := sh(t, box, "echo x > f && cat f"); status != 0 || out != "x" {
		t.Errorf("status %d: %s", status, out)
	}
}

func TestAsOwner(t *testing.T) {
	mount := func(uid, gid uint32) hostpath.Mount {
		return hostpath.Mount{Source: fmt.Sprintf("/of-%d", uid), UID: uid, GID: gid}
	}
	for _, tt := range []struct {
		name   string
		mounts []hostpath.Mount
		want   uint32
		says   string
	}{
		{"one owner", []hostpath.Mount{mount(1001, 1002), mount(1001, 1002)}, 1001, ""},
		{"root", []hostpath.Mount{mount(0, 0)}, 0, "belongs to root"},
		{"root second", []hostpath.Mount{mount(1001, 1001), mount(0, 0)}, 0, "belongs to root"},
		{"two owners", []hostpath.Mount{mount(1001, 1001), mount(1002, 1001)}, 0, "different owners"},
		{"two groups", []hostpath.Mount{mount(1001, 1001), mount(1001, 1002)}, 0, "different owners"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, err := asOwner(tt.mounts)
			if tt.says == "" && (err != nil || id.kind != owner || id.uid != tt.want) || err != nil && (tt.says == "" || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("%+v, %v", id, err)
			}
			if tt.says != "" && err == nil {
				t.Errorf("%+v", id)
			}
		})
	}
}

func TestMaps(t *testing.T) {
	uids, gids := identity{uid: 7, gid: 8}.maps()
	if len(uids) != 1 || uids[0] != (confine.IDMap{Inside: 1000, Host: 7, Count: 1}) || len(gids) != 1 || gids[0] != (confine.IDMap{Inside: 1000, Host: 8, Count: 1}) {
		t.Errorf("%v, %v", uids, gids)
	}
}

func TestChooseIdentity(t *testing.T) {
	id, err := chooseIdentity()
	if err != nil {
		t.Fatal(err)
	}
	if id.uid == 0 {
		t.Error("a sandbox would be root")
	}
	if os.Geteuid() != 0 && (id.kind != mapped || id.uid != uint32(os.Geteuid())) {
		t.Errorf("%+v", id)
	}
	for _, g := range id.groups {
		if g == os.Getegid() {
			t.Error("the own group is among those that could not be dropped")
		}
	}
}

func TestWithin(t *testing.T) {
	for _, tt := range []struct {
		path, dir, rel string
		ok             bool
	}{
		{"/a", "/a", "", true}, {"/a/b/c", "/a", "b/c", true}, {"/ab", "/a", "", false}, {"/a", "/a/b", "", false}, {"/x/y", "/", "x/y", true},
	} {
		if rel, ok := hostpath.Within(tt.path, tt.dir); ok != tt.ok || ok && rel != tt.rel {
			t.Errorf("hostpath.Within(%q, %q) = %q, %v", tt.path, tt.dir, rel, ok)
		}
	}
}

// What is mounted below the workspace covers inside what it covers outside.
func TestMountBelowTheWorkspace(t *testing.T) {
	requireRoot(t)
	requireMappable(t, "/dev/shm")
	spec := ownerSpec{Request: request(t), Token: newToken(), Mount: "sub"}
	testkit.Write(t, filepath.Join(spec.Request.Spec.Workspace.Source, "sub", "covered"), "", 0o644)
	_, agent := startOwner(t, spec)
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/root/workspace/sub", agent))
	if err != nil || len(entries) != 1 || entries[0].Name() != "on-top" {
		t.Errorf("inside there are %v, %v", entries, err)
	}
}
