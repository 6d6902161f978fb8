package paddock

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What programs of the host listen at is covered; what appears later, or takes the place of one that
// they connect to, is told at the end.
func TestHostSocketsAreTold(t *testing.T) {
	requireWalls(t)
	ws := t.TempDir()
	listen := func(name string) *net.UnixListener {
		t.Helper()
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(ws, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	stale := func(name string) {
		t.Helper()
		if err := listen(name).Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(ws, ".git"), 0o755), os.Mkdir(filepath.Join(ws, "run"), 0o755)); err != nil {
		t.Fatal(err)
	}
	agent := listen("run/agent")
	listen("stays")
	stale("old")
	s, err := Open(t.Context(), Spec{Workspace: Workspace{Source: ws}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(ws, "run/agent"), filepath.Join(ws, "stays")}
	if got := s.Isolation().CoveredSockets; !slices.Equal(got, want) {
		t.Errorf("covered: %q, want %q", got, want)
	}
	// As commands could do it, who move the directory away.
	if err := errors.Join(os.Rename(filepath.Join(ws, "run"), filepath.Join(ws, "moved")), os.Mkdir(filepath.Join(ws, "run"), 0o755)); err != nil {
		t.Fatal(err)
	}
	_ = agent.Close()
	stale("run/agent")
	stale(".git/fsmonitor--daemon.ipc")
	stale("own") // a server that commands started, which ended with the sandbox
	listen("late")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c := s.Changes()
	if !slices.Equal(c.Sockets, []string{"late"}) {
		t.Errorf("new sockets: %q", c.Sockets)
	}
	planted := s.Planted()
	slices.Sort(planted)
	if !slices.Equal(planted, []string{".git/fsmonitor--daemon.ipc", "run/agent"}) {
		t.Errorf("planted: %q", planted)
	}
}
