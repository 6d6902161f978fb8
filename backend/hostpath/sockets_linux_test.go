package hostpath

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
)

// listenAt listens until the test ends.
func listenAt(t *testing.T, at string) {
	t.Helper()
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

// To look whether a socket is bound reaches no server.
func TestBound(t *testing.T) {
	dir := t.TempDir()
	stream, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "stream"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if !Bound(filepath.Join(dir, "stream")) {
		t.Error("a server is taken for stale")
	}
	if err := unix.SetNonblock(fdOf(t, stream), true); err != nil {
		t.Fatal(err)
	}
	if fd, _, err := unix.Accept(fdOf(t, stream)); err == nil {
		_ = unix.Close(fd)
		t.Error("a server was told")
	}
	stream.SetUnlinkOnClose(false)
	_ = stream.Close()
	datagram, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "datagram"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer datagram.Close()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"stream": false, "datagram": true, "file": false, "absent": false} {
		if Bound(filepath.Join(dir, name)) != want {
			t.Errorf("%s: bound is %v", name, !want)
		}
	}
}

// fdOf returns the number of a listener's own file.
func fdOf(t *testing.T, l *net.UnixListener) (fd int) {
	t.Helper()
	raw, err := l.SyscallConn()
	if err == nil {
		err = raw.Control(func(n uintptr) { fd = int(n) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// The kernel names what is bound, and where; without it there are the names alone.
func TestBoundSockets(t *testing.T) {
	at := filepath.Join(t.TempDir(), "s")
	listenAt(t, at)
	list, partial := boundSockets()
	i := slices.IndexFunc(list, func(s boundSocket) bool { return s.name == at })
	if i < 0 {
		t.Fatalf("it is not among %d", len(list))
	}
	var st unix.Stat_t
	if err := unix.Stat(at, &st); err != nil {
		t.Fatal(err)
	}
	if !partial && list[i].ino != uint32(st.Ino) { //nolint:gocritic // the kernel names 32 bits of it
		t.Errorf("inode %d, want %d", list[i].ino, st.Ino)
	}
}

// Where the kernel's list has columns, a small number has spaces before it, and a path may have some.
func TestListedSockets(t *testing.T) {
	const list = `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01   123 /run/early
0000000000000000: 00000002 00000000 00010000 0005 01 1234567 /run/late
0000000000000000: 00000002 00000000 00000000 0002 01    12 /run/data gram
0000000000000000: 00000003 00000000 00000000 0001 03    13 /run/accepted
0000000000000000: 00000002 00000000 00010000 0001 01    14 @abstract
0000000000000000: 00000002 00000000 00010000 0001 01 12345  relative
0000000000000000: 00000002 00000000 00000000 0002 01    15
`
	var names []string
	for _, s := range listedBound(list) {
		names = append(names, s.name)
	}
	if want := []string{"/run/early", "/run/late", "/run/data gram", " relative"}; !slices.Equal(names, want) {
		t.Errorf("listed are %q, want %q", names, want)
	}
}

// A directory that the walk has left out is searched.
func TestSocketsInPassedDirectories(t *testing.T) {
	ws := realTemp(t)
	passed := filepath.Join(ws, ".git", "objects")
	if err := os.MkdirAll(passed, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(passed)
	listenAt(t, "relative")
	req := backend.Request{Spec: policy.Spec{RootFS: policy.RootHost, Workspace: policy.Workspace{Source: ws}}, Seen: NewSeen(unlisted())}
	mounts, err := Mounts(req, "/workspace")
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]bool{"": false, passed: true} { // the first is the control
		var dirs []string
		if at != "" {
			dirs = []string{at}
		}
		found, lost, err := Sockets(t.Context(), req, mounts, nil, dirs)
		got := slices.ContainsFunc(found, func(s backend.Socket) bool { return s.Path == filepath.Join(passed, "relative") })
		if err != nil || len(lost) > 0 || got != want {
			t.Errorf("passed %q: found %v, %q, %v", dirs, found, lost, err)
		}
	}
}

// The kernel names no socket of another network namespace, so what the walk has left out is searched also
// where no name that it knows is in doubt; and what was not searched is told.
func TestSocketsOfOtherNetworks(t *testing.T) {
	if !inMounts(t) {
		return
	}
	ws := realTemp(t)
	if os.Geteuid() == 0 { // a device on which no other name is in doubt; other users could make no directory there
		if err := unix.Mount("tmpfs", ws, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(ws, unix.MNT_DETACH) })
	}
	passed := filepath.Join(ws, "passed")
	if err := os.Mkdir(passed, 0o755); err != nil {
		t.Fatal(err)
	}
	bound := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with this
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			_, err = net.Listen("unix", filepath.Join(passed, "s"))
		}
		bound <- err
	}()
	if err := <-bound; err != nil {
		t.Fatal(err)
	}
	req := requestOver("", ws)
	req.Seen = NewSeen(unlisted())
	mounts, err := Mounts(req, "/workspace")
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for ctx, inTime := range map[context.Context]bool{t.Context(): true, ended: false} {
		found, lost, err := Sockets(ctx, req, mounts, nil, []string{passed})
		if err != nil || inTime && (len(found) != 1 || found[0].Path != filepath.Join(passed, "s") || len(lost) > 0) ||
			!inTime && (len(lost) != 1 || !strings.Contains(lost[0], "not all of "+passed+" was searched")) {
			t.Errorf("in time %v: found %v, %q, %v", inTime, found, lost, err)
		}
	}
}

// Of sockets that are too many to cover the message does not say whose they are: another sandbox over the
// same directory can have made them.
func TestTooManySockets(t *testing.T) {
	ws := realTemp(t)
	t.Chdir(ws)
	var walked []string
	for i := range MaxSockets + 1 {
		name := strconv.Itoa(i)
		listenAt(t, name)
		walked = append(walked, filepath.Join(ws, name))
	}
	req := requestOver("", ws)
	req.Seen = NewSeen(unlisted())
	mounts, err := Mounts(req, "/workspace")
	if err != nil {
		t.Fatal(err)
	}
	if list, _, err := Sockets(t.Context(), req, mounts, walked[1:], nil); err != nil || len(list) != MaxSockets {
		t.Errorf("%d are covered, %v", len(list), err)
	}
	_, _, err = Sockets(t.Context(), req, mounts, walked, nil)
	if e := (*policy.FieldError)(nil); !errors.As(err, &e) || !strings.Contains(e.Reason, "programs outside of this sandbox listen at 257 sockets") || !strings.Contains(e.Hint, "another sandbox with this directory") {
		t.Errorf("one more: %v", err)
	}
}

// A directory that cannot be searched, though commands can get into it, is told if a socket may be there.
func TestSocketsInClosedDirectories(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	ws := realTemp(t)
	closed := filepath.Join(ws, "closed")
	if err := os.Mkdir(closed, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(closed)
	listenAt(t, "relative")
	req := backend.Request{Spec: policy.Spec{RootFS: policy.RootHost, Workspace: policy.Workspace{Source: ws}}, Seen: NewSeen(unlisted())}
	mounts, err := Mounts(req, "/workspace")
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o755, 0o311, 0} { // the first is the control
		if err := os.Chmod(closed, mode); err != nil {
			t.Fatal(err)
		}
		found, lost, err := Sockets(t.Context(), req, mounts, nil, []string{ws})
		if err != nil || len(found)+len(lost) != 1 || mode == 0o755 != (len(found) == 1) || len(lost) == 1 && !strings.Contains(lost[0], "not all of "+closed+" was searched") {
			t.Errorf("mode %04o: found %v, %q, %v", mode, found, lost, err)
		}
	}
	if err := os.Chmod(closed, 0o755); err != nil {
		t.Fatal(err)
	}
}

// A socket that commands could have put there is not opened by its name.
func TestTrustSockets(t *testing.T) {
	ws, apart := realTemp(t), realTemp(t)
	for _, dir := range []string{ws, apart} {
		listenAt(t, filepath.Join(dir, "s"))
	}
	request := func(socket string) backend.Request {
		return backend.Request{Spec: policy.Spec{RootFS: policy.RootHost, Workspace: policy.Workspace{Source: ws}, HostSockets: []string{socket}}, Seen: NewSeen(unlisted())}
	}
	mounts, err := Mounts(request(filepath.Join(apart, "s")), "/workspace")
	if err != nil || len(mounts) != 2 || !mounts[1].Socket || mounts[1].Writable {
		t.Errorf("apart: %+v, %v", mounts, err)
	}
	for socket, says := range map[string]string{filepath.Join(ws, "s"): "commands could put another in its place", ws: "it is not a socket"} {
		if _, err := Mounts(request(socket), "/workspace"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", socket, err)
		}
	}
}

// No mount shows a server of Paddock's that asks for no token, unless it is covered, and none is one.
func TestRefuseServer(t *testing.T) {
	ws, apart := realTemp(t), realTemp(t)
	shown, hidden := filepath.Join(ws, "s"), filepath.Join(apart, "s")
	listenAt(t, shown)
	listenAt(t, hidden)
	id, _ := socketAt(shown)
	covered := []backend.Socket{{Path: shown, ID: id}}
	for _, tt := range []struct {
		at, mode string
		open     bool
		named    []string
		covered  []backend.Socket
		says     string
	}{
		{at: shown, open: true, says: "a server of Paddock that asks for no token listens at " + shown},
		{at: shown, open: true, covered: covered},
		{at: shown, open: true, mode: policy.ModeOverlay},
		{at: shown},
		{at: hidden, open: true},
		{at: hidden, named: []string{hidden}, says: "a server of Paddock listens there"},
		{at: filepath.Join(ws, "gone"), open: true},
	} {
		req := requestOver("", ws)
		req.Spec.Workspace.Mode, req.Spec.HostSockets, req.Sockets, req.Seen = tt.mode, tt.named, tt.covered, NewSeen(unlisted())
		mounts, err := Mounts(req, "/workspace")
		if err != nil {
			t.Fatal(err)
		}
		err = RefuseServer(req, mounts, tt.at, tt.open)
		if refused := tt.says != ""; (err != nil) != refused || refused && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// A directory that the host shows at two places is one: a socket in it is in what commands can
// write, and another mount shows a part of it, whatever the paths.
func TestOtherPathsOfSockets(t *testing.T) {
	if !inMounts(t) {
		return
	}
	root := dirIn(t, "ws/sub/deep", "whole", "part", "apart")
	bind(t, root, [][2]string{{"ws", "whole"}, {"ws/sub/deep", "part"}}...)
	for _, dir := range []string{"ws", "part", "apart"} {
		listenAt(t, filepath.Join(root, dir, "s"))
	}
	for socket, refused := range map[string]bool{"whole/s": true, "part/s": true, "ws/sub/deep/s": true, "apart/s": false} {
		req := requestOver("", root+"/ws")
		req.Spec.HostSockets, req.Seen = []string{filepath.Join(root, socket)}, NewSeen(unlisted())
		_, err := Mounts(req, "/workspace")
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "commands could put another in its place") {
			t.Errorf("%s: %v", socket, err)
		}
	}
	for dir, overlaps := range map[string]bool{"whole/sub": true, "part": true, "ws/sub": true, "apart": false} {
		req := requestOver("", root+"/ws", filepath.Join(root, dir))
		req.Seen = NewSeen(unlisted())
		mounts, err := Mounts(req, "/workspace")
		if err != nil {
			t.Fatal(err)
		}
		if Overlaps(mounts[0], mounts) != overlaps {
			t.Errorf("%s: whether it overlaps is %v", dir, !overlaps)
		}
	}
}

// realTemp returns a temporary directory by a path without links.
func realTemp(t *testing.T) string {
	t.Helper()
	return Real(t.TempDir())
}
