package paddock

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/backend/host"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// What programs of the host listen at is covered; what appears later, or takes the place of one that
// they connect to, is told at the end, and what the host's program itself put there is not taken
// for the commands'.
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
	restarts := listen("restarts")
	stale("old")
	s, err := Open(t.Context(), Spec{Workspace: Workspace{Source: ws}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(ws, "restarts"), filepath.Join(ws, "run", "agent"), filepath.Join(ws, "stays")}
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
	if err := errors.Join(restarts.Close(), os.Remove(filepath.Join(ws, "restarts"))); err != nil {
		t.Fatal(err)
	}
	listen("restarts")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c := s.Changes()
	if !slices.Equal(c.Sockets, []string{"late", "restarts"}) {
		t.Errorf("new sockets: %q", c.Sockets)
	}
	planted := s.Planted()
	slices.Sort(planted)
	if !slices.Equal(planted, []string{".git/fsmonitor--daemon.ipc", "run/agent"}) {
		t.Errorf("planted: %q", planted)
	}
}

// Where commands have no Unix sockets, or no wall, what listens is no news, and what has taken the
// place of a socket of the host is.
func TestSocketsThatAreNotCovered(t *testing.T) {
	requireWalls(t)
	specs := []Spec{{}}
	if os.Geteuid() != 0 { // whose workspaces the level refuses
		specs = append(specs, Spec{Level: policy.LevelLandlock})
	}
	for i, spec := range specs {
		opts := Options{}
		if i == 0 {
			opts.Backend = host.New()
		}
		spec.Workspace.Source = t.TempDir()
		at := filepath.Join(spec.Workspace.Source, "agent")
		for _, socket := range []string{at, filepath.Join(spec.Workspace.Source, "stays")} {
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
		}
		s, err := Open(t.Context(), spec, opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Remove(at), os.Symlink("/run/another", at), s.Close()); err != nil {
			t.Fatal(err)
		}
		if c := s.Changes(); len(c.Sockets) > 0 || !slices.Equal(s.Planted(), []string{"agent"}) {
			t.Errorf("level %q: new sockets: %q, planted: %q", spec.Level, c.Sockets, s.Planted())
		}
	}
}

// Commands reach no server of Paddock's at a socket: one that asks for no token does not begin where they see
// it, and no spec names one.
func TestServersAtSockets(t *testing.T) {
	requireWalls(t)
	ws, apart := hostpath.Real(t.TempDir()), hostpath.Real(t.TempDir())
	open := func(spec Spec, opts Options) error {
		t.Helper()
		spec.Workspace.Source = ws
		s, err := Open(t.Context(), spec, opts)
		if err == nil {
			t.Cleanup(func() { _ = s.Close() })
		}
		return err
	}
	listen := func(dir string, open bool) (at net.Addr) {
		t.Helper()
		l, err := net.Listen("unix", filepath.Join(dir, "s"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		forget, err := RecordServer(Options{}, l.Addr(), open)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(forget)
		return l.Addr()
	}
	if err := open(Spec{}, Options{}); err != nil {
		t.Fatal(err)
	}
	shown, hidden := listen(ws, true), listen(apart, false)
	e := (*ReachedError)(nil)
	if err := RefuseReached(t.Context(), Options{}, shown); !errors.As(err, &e) || e.Dir != ws {
		t.Errorf("in the workspace of a sandbox: %v", err)
	}
	if err := RefuseReached(t.Context(), Options{}, hidden); err != nil {
		t.Errorf("apart: %v", err)
	}
	if err := open(Spec{}, Options{}); err != nil {
		t.Errorf("where it is covered: %v", err)
	}
	if err := open(Spec{HostSockets: []string{hidden.String()}}, Options{}); err == nil || !strings.Contains(err.Error(), "a server of Paddock listens there") {
		t.Errorf("as a socket of the spec: %v", err)
	}
	if err := open(Spec{Workspace: Workspace{Mode: policy.ModeOverlay}}, Options{}); err != nil {
		t.Errorf("an overlay: %v", err)
	}
	if err := RefuseReached(t.Context(), Options{}, listen(t.TempDir(), true)); err != nil {
		t.Errorf("another one apart: %v", err)
	}
}
