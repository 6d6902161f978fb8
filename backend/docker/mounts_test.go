package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
)

// places makes a directory with a workspace and files, and a request for it.
func places(t *testing.T, files ...string) (ws string, req backend.Request) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws = filepath.Join(dir, "ws")
	for _, f := range append(files, ".") {
		name := filepath.Join(ws, f)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f, "/") || f == "." {
			err = os.MkdirAll(name, 0o700)
		} else {
			err = os.WriteFile(name, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return ws, backend.Request{StateDir: filepath.Join(dir, "state"), Spec: policy.Spec{Backend: "docker", Workspace: policy.Workspace{Source: ws, Mode: policy.ModeBind, Access: "rw"}}}
}

// lines are the mounts, as "ro|rw kind target" below the workspace.
func lines(ws string, b *binds) []string {
	var all []string
	for _, m := range b.list {
		access := "rw"
		if m.readOnly {
			access = "ro"
		}
		at := strings.TrimPrefix(m.target, filepath.Dir(ws))
		all = append(all, fmt.Sprintf("%s %s %s", access, m.kind, at))
	}
	return all
}

func bindsOf(t *testing.T, req backend.Request, sockets ...string) (*binds, error) {
	t.Helper()
	shown, err := lookAt(req)
	if err != nil {
		return nil, err
	}
	return newBinds(req, shown, sockets)
}

// What is guarded is read-only, and its parents cannot be renamed away.
func TestGuards(t *testing.T) {
	ws, req := places(t, ".git/hooks/", ".git/config", ".envrc", "src/main.c")
	for _, name := range []string{".git/hooks", ".git/config", ".envrc"} {
		req.Guards = append(req.Guards, backend.Guard{File: filepath.Join(ws, name), Why: "a test"})
	}
	b, err := bindsOf(t, req)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"rw bind /ws", "rw bind /ws/.git", "ro bind /ws/.git/hooks", "ro bind /ws/.git/config", "ro bind /ws/.envrc"}
	if got := lines(ws, b); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	req.Spec.Workspace = policy.Workspace{Source: ws, Mode: policy.ModeBind, Access: "ro"}
	if b, err = bindsOf(t, req); err != nil || !slices.Equal(lines(ws, b), []string{"ro bind /ws"}) {
		t.Errorf("%q, %v", lines(ws, b), err)
	}
}

// Paddock's own state and programs are out of reach, also below a mount.
func TestOwnPlaces(t *testing.T) {
	ws, req := places(t, "deep/state/", "bin/paddock-agent")
	req.StateDir, req.Agent = ws+"/deep/state", ws+"/bin/paddock-agent"
	b, err := bindsOf(t, req)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"rw bind /ws", "rw bind /ws/deep", "ro tmpfs /ws/deep/state", "rw bind /ws/bin", "ro bind /ws/bin/paddock-agent"}
	if got := lines(ws, b); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// What programs of the host listen at is covered in each bind that shows it, as long as no other
// mount lies over it, and in read-only ones, too.
func TestCoveredSockets(t *testing.T) {
	ws, req := places(t, "run/agent", "data/db", "copied/x")
	req.Spec.Mounts = []policy.Mount{
		{Source: ws + "/data", Target: "/srv/data", Mode: "ro"},
		{Source: ws + "/copied", Target: ws + "/run", Mode: "ro"},
	}
	for _, at := range []string{"run/agent", "data/db"} {
		req.Sockets = append(req.Sockets, backend.Socket{Path: filepath.Join(ws, at)})
	}
	b, err := bindsOf(t, req)
	if err != nil {
		t.Fatal(err)
	}
	// /ws/data is pinned: commands could move a covered socket's directory to where /srv/data shows it.
	want := []string{"rw bind /ws", "ro bind /srv/data", "ro bind /ws/run", "rw bind /ws/data", "ro bind /ws/data/db", "ro bind /srv/data/db"}
	if got := lines(ws, b); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	for _, m := range b.list[len(b.list)-2:] {
		if text := m.String(); !strings.Contains(text, "src="+os.DevNull+",") || !strings.HasSuffix(text, ",ro") {
			t.Errorf("the engine is told %q", text)
		}
	}
	if !slices.Equal(b.covered, []string{filepath.Join(ws, "data", "db")}) {
		t.Errorf("covered: %q", b.covered)
	}
}

func TestRefusedPlaces(t *testing.T) {
	ws, _ := places(t, "state/sub/", "run/docker.sock", "git/", "caf\xe9/")
	for _, tt := range []struct {
		name string
		req  func(*backend.Request)
		want string
	}{
		{"the state itself", func(r *backend.Request) { r.Spec.Workspace.Source = ws + "/state/sub" }, "Paddock's own state"},
		{"a copy of the state", func(r *backend.Request) { r.Spec.Workspace.Mode = policy.ModeCopy }, "must not be copied"},
		{"the engine's socket", func(r *backend.Request) {
			r.StateDir = "/nowhere"
			r.Spec.Mounts = []policy.Mount{{Source: ws + "/run", Target: "/run/x", Mode: "ro"}}
		}, "whoever controls the engine controls the whole host"},
		{"twice", func(r *backend.Request) {
			r.Spec.Mounts = []policy.Mount{{Source: ws + "/git", Target: ws, Mode: "ro"}}
		}, "workspace.source has this target too"},
		{"the agent's place", func(r *backend.Request) {
			r.Spec.Mounts = []policy.Mount{{Source: ws + "/git", Target: agentFile, Mode: "ro"}}
		}, "the agent has this target too"},
		{"a name that JSON cannot carry", func(r *backend.Request) {
			r.StateDir = "/nowhere"
			r.Spec.Mounts = []policy.Mount{{Source: ws + "/caf\xe9", Target: "/mnt", Mode: "ro"}}
		}, "it is not valid UTF-8, which the engine needs"},
		{"the root", func(r *backend.Request) { r.Spec.Workspace.Source = "/" }, "root of the host"},
		{"nothing", func(r *backend.Request) { r.Spec.Workspace.Source = ws + "/absent" }, "no such file"},
	} {
		req := backend.Request{StateDir: ws + "/state", Spec: policy.Spec{Workspace: policy.Workspace{Source: ws, Mode: policy.ModeBind, Access: "rw"}}}
		tt.req(&req)
		_, err := bindsOf(t, req, ws+"/run/docker.sock")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// What is mounted below a read-only source is named, because engines differ.
func TestReadOnlyBelow(t *testing.T) {
	ws, req := places(t)
	req.Spec.Workspace.Access = "ro"
	shown, err := lookAt(req)
	if err != nil {
		t.Fatal(err)
	}
	b := &binds{shown: shown, at: map[string]int{}, below: func(string) []string { return []string{ws + "/data", ws + "/data/deep"} }}
	b.readOnlyBelow(shown[0])
	if want := []string{"ro bind /ws/data", "ro bind /ws/data/deep"}; !slices.Equal(lines(ws, b), want) {
		t.Errorf("%q", lines(ws, b))
	}
}
