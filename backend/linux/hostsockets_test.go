//go:build linux

package linux

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

// connectEnv makes the test's program connect to the sockets that its arguments name.
const connectEnv = "PADDOCK_TEST_CONNECT"

// connectAll prints for each path whether something answers there.
func connectAll(paths []string) int {
	for _, at := range paths {
		verdict := "nobody"
		for _, network := range []string{"unix", "unixgram", "unixpacket"} {
			if c, err := net.Dial(network, at); err == nil {
				verdict = "connected"
				_ = c.Close()
			}
		}
		fmt.Println(at, verdict)
	}
	return 0
}

// clientAt is where sandboxes of these tests have the test's program.
const clientAt = "/mnt/client"

// newClient returns the path of a copy of the test's program, which everybody can execute.
func newClient(t *testing.T) string {
	t.Helper()
	client := filepath.Join(tempDir(t), "client")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(client, program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// connects says what commands meet at each of these paths.
func connects(t *testing.T, box backend.Sandbox, paths ...string) map[string]string {
	t.Helper()
	out, _ := sh(t, box, "cd / && "+connectEnv+"=1 "+clientAt+" "+strings.Join(paths, " "))
	found := map[string]string{}
	for line := range strings.Lines(out) {
		at, verdict, _ := strings.Cut(strings.TrimSpace(line), " ")
		found[at] = verdict
	}
	return found
}

// listenAt listens until the test ends. Everybody may connect.
func listenAt(t *testing.T, at string, kind int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		t.Cleanup(func() { _ = unix.Close(fd) })
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: at})
	}
	if err == nil && kind != unix.SOCK_DGRAM {
		err = unix.Listen(fd, 8)
	}
	if err == nil {
		err = os.Chmod(at, 0o777)
	}
	if err != nil {
		t.Fatalf("cannot listen at %s: %v", at, err)
	}
}

// Commands cannot connect to what programs of the host listen at, by whatever name they bound it, and
// find their own servers.
func TestHostSockets(t *testing.T) {
	shown, named := tempDir(t), tempDir(t)
	listenAt(t, filepath.Join(named, "named"), unix.SOCK_STREAM)
	req := request(t, func(s *policy.Spec) {
		s.Mounts = []policy.Mount{{Source: shown, Target: "/mnt/shown"}, {Source: newClient(t), Target: clientAt}}
		s.HostSockets = []string{filepath.Join(named, "named")}
	})
	ws := req.Spec.Workspace.Source
	for _, dir := range []string{ws + "/sub/deep", shown + "/sub"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	listenAt(t, ws+"/stream", unix.SOCK_STREAM)
	listenAt(t, ws+"/datagram", unix.SOCK_DGRAM)
	listenAt(t, ws+"/packets", unix.SOCK_SEQPACKET)
	listenAt(t, ws+"/sub/deep/below", unix.SOCK_STREAM)
	listenAt(t, ws+"/old", unix.SOCK_STREAM)
	listenAt(t, ws+"/linked", unix.SOCK_STREAM)
	listenAt(t, shown+"/stream", unix.SOCK_STREAM)
	listenAt(t, shown+"/sub/old", unix.SOCK_DGRAM)
	if err := errors.Join(os.Rename(ws+"/old", ws+"/sub/renamed"), os.Link(ws+"/linked", ws+"/sub/link"), os.Rename(shown+"/sub/old", shown+"/sub/renamed")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(ws)
	listenAt(t, "relative", unix.SOCK_STREAM)
	inside := []string{"/workspace/stream", "/workspace/datagram", "/workspace/packets", "/workspace/sub/deep/below", "/workspace/sub/renamed",
		"/workspace/linked", "/workspace/sub/link", "/workspace/relative", "/mnt/shown/stream", "/mnt/shown/sub/renamed"}
	if os.Geteuid() == 0 {
		listenElsewhere(t, ws+"/elsewhere")
		inside = append(inside, "/workspace/elsewhere")
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: ws + "/stale", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()

	open := launchBox(t, req)
	for at, verdict := range connects(t, open, inside...) {
		if verdict != "connected" {
			t.Errorf("without covers, %s: %s", at, verdict)
		}
	}
	mounts, err := hostpath.Mounts(req, workspaceDir)
	if err != nil {
		t.Fatal(err)
	}
	var walked []string // as the walk through writable mounts does
	if err := filepath.WalkDir(ws, func(at string, d os.DirEntry, err error) error {
		if err == nil && d.Type() == os.ModeSocket {
			walked = append(walked, at)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	found, lost, err := hostpath.Sockets(t.Context(), req, mounts, walked, nil)
	if err != nil || len(lost) > 0 {
		t.Fatal(lost, err)
	}
	req.Sockets = found
	box := launchBox(t, req)
	for at, verdict := range connects(t, box, append(inside, "/workspace/stale")...) {
		if verdict != "nobody" {
			t.Errorf("%s: %s", at, verdict)
		}
	}
	if at := filepath.Join(named, "named"); connects(t, box, at)[at] != "connected" {
		t.Error("the socket that the spec names cannot be connected to")
	}
	iso := box.Isolation()
	if len(iso.CoveredSockets) != len(inside) || slices.Contains(iso.CoveredSockets, ws+"/stale") || !slices.Equal(iso.HostSockets, []string{filepath.Join(named, "named")}) {
		t.Errorf("isolation has covered %q, open %q", iso.CoveredSockets, iso.HostSockets)
	}
	if out, status := sh(t, box, "rm /workspace/stale && mv /workspace/sub /workspace/moved && mv /workspace/moved/deep /workspace/deep"); status != 0 {
		t.Errorf("a stale socket and directories with covered ones stay in place: %s", out)
	}
	for at, verdict := range connects(t, box, "/workspace/moved/renamed", "/workspace/moved/link", "/workspace/deep/below") {
		if verdict != "nobody" {
			t.Errorf("moved: %s: %s", at, verdict)
		}
	}
}

// What another mount shows of the workspace has no socket of the host either, whatever commands move
// there.
func TestSocketsStayOutOfOtherMounts(t *testing.T) {
	req := request(t)
	ws := req.Spec.Workspace.Source
	if err := errors.Join(os.MkdirAll(ws+"/part", 0o755), os.MkdirAll(ws+"/run/deep", 0o755)); err != nil {
		t.Fatal(err)
	}
	listenAt(t, ws+"/run/deep/s", unix.SOCK_STREAM)
	req.Spec.Mounts = []policy.Mount{{Source: ws + "/part", Target: "/mnt/part"}, {Source: newClient(t), Target: clientAt}}
	mounts, err := hostpath.Mounts(req, workspaceDir)
	if err != nil {
		t.Fatal(err)
	}
	found, _, err := hostpath.Sockets(t.Context(), req, mounts, nil, nil)
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	for _, covered := range []bool{false, true} { // the first is the control
		want := "connected"
		if req.Sockets = nil; covered {
			req.Sockets, want = found, "nobody"
		}
		box := launchBox(t, req)
		sh(t, box, "mv -n /workspace/run/deep /workspace/part/; mv -n /workspace/run /workspace/part/")
		got := connects(t, box, "/mnt/part/deep/s", "/mnt/part/run/deep/s")
		if got["/mnt/part/deep/s"] != want {
			t.Errorf("covered %v: %q, want %s", covered, got, want)
		}
		if !covered {
			if err := errors.Join(os.Rename(ws+"/part/run", ws+"/run"), os.Rename(ws+"/part/deep", ws+"/run/deep")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// listenElsewhere listens in another network namespace, as a container does.
func listenElsewhere(t *testing.T, at string) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			listenAt(t, at, unix.SOCK_STREAM)
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A socket that has gone since it was found is left out, and one that is still in use is not.
func TestSocketsThatCannotBeCovered(t *testing.T) {
	req := request(t)
	ws := req.Spec.Workspace.Source
	req.Sockets = []backend.Socket{{Path: ws + "/gone"}}
	box := launchBox(t, req)
	if iso := box.Isolation(); len(iso.CoveredSockets) > 0 {
		t.Errorf("covered: %q", iso.CoveredSockets)
	}
	listenAt(t, ws+"/there", unix.SOCK_STREAM)
	b := &builder{plan: &confine.Plan{}, sockets: map[string]backend.Socket{"/workspace/there": {Path: ws + "/there"}}}
	err := b.uncovered(&confine.Error{Op: string(confine.OpSelf), Object: "/workspace/there", Errno: int(unix.EIO)})
	if e := (*backend.StartError)(nil); !errors.As(err, &e) || e.Op != "cover" || e.Object != ws+"/there" {
		t.Errorf("still in use: %v", err)
	}
}

// Where the kernel's Landlock can, it closes all sockets of the host but those that are named.
func TestLandlockClosesSockets(t *testing.T) {
	for abi, want := range map[int]bool{confine.LandlockSocketsABI - 1: false, confine.LandlockSocketsABI: true} {
		b := &builder{abi: abi, plan: &confine.Plan{}, tmp: []string{"/tmp"}, mounts: []hostpath.Mount{{Target: "/workspace", Dir: true}, {Target: "/run/db", Socket: true}}}
		if err := b.landlock(); err != nil {
			t.Fatal(err)
		}
		s := b.plan.Spawn[0]
		var open []string
		for _, r := range s.Rules {
			if r.Access == confine.AccessConnect {
				open = append(open, r.Path)
			}
		}
		if got := slices.Contains(s.Flags, confine.FlagSockets); got != want || want && !slices.Equal(open, []string{"/dev/shm", "/run", "/tmp", "/run/db"}) || !want && open != nil {
			t.Errorf("ABI %d: flags %q, open %q", abi, s.Flags, open)
		}
	}
}
