//go:build linux

package linux

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/policy"
)

// repository makes what git and its hooks need of a workspace.
func repository(t *testing.T, dir string) {
	t.Helper()
	testkit.Write(t, dir+"/.git/HEAD", "ref: refs/heads/main\n", 0o644)
	testkit.Write(t, dir+"/.git/config", "[core]\n", 0o644)
	testkit.Write(t, dir+"/.git/hooks/pre-commit", "#!/bin/sh\n", 0o644)
	testkit.Write(t, dir+"/.vscode/tasks.json", "{}\n", 0o644)
	testkit.Write(t, filepath.Join(dir, ".envrc"), "true\n", 0o644)
	testkit.Write(t, dir+"/src/a", "a\n", 0o644)
}

func TestProtectedPaths(t *testing.T) {
	req := request(t)
	ws := req.Spec.Workspace.Source
	repository(t, ws)
	box := launchBox(t, req)
	for _, tt := range []struct {
		command, says string // says is "" where it is to succeed
	}{
		{"echo x > src/b && mv src src2 && mv src2 src", ""},
		{"echo x > .git/index", ""},
		{"echo x > .git/hooks/post-merge", "Read-only"},
		{"echo x >> .git/hooks/pre-commit", "Read-only"},
		{"rm .git/hooks/pre-commit", "Read-only"},
		{"rmdir .git/hooks || rm -r .git/hooks", "Read-only"},
		{"mv .git gone", "busy"},
		{"mv .git/hooks .git/gone", "busy"},
		{"mv src .git/hooks/x", "Read-only"},
		{"echo x >> .git/config", ""}, // a copy
		{"rm -f .git/config", "busy"},
		{"mv src/a .git/config", "busy"},
		{"ln -f src/a .envrc", "busy"},
		{"ln .envrc other", "cross-device"},
		{"echo x > .vscode/settings.json", "Read-only"},
		{"mv .vscode gone", "busy"},
		{"chmod 777 .envrc", "Read-only"},
	} {
		out, status := sh(t, box, tt.command)
		if tt.says == "" && status != 0 || !strings.Contains(strings.ToLower(out), strings.ToLower(tt.says)) {
			t.Errorf("%s: status %d: %s", tt.command, status, out)
		}
	}
	if _, err := box.Stop(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(ws + "/.git/hooks/pre-commit"); err != nil {
		t.Error(err)
	}
	sameConfig(t, ws)
}

// sameConfig checks that git's configuration on the host is what repository wrote.
func sameConfig(t *testing.T, ws string) {
	t.Helper()
	info, err := os.Lstat(ws + "/.git/config")
	if err != nil || !info.Mode().IsRegular() {
		t.Fatalf("%v, %v", info, err)
	}
	if text, err := os.ReadFile(ws + "/.git/config"); err != nil || string(text) != "[core]\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// Whatever shows the workspace shows its protected paths read-only.
func TestOverlappingMounts(t *testing.T) {
	for _, tt := range []struct {
		name, source, target, access string // source is relative to the workspace
		at                           string // of .git, through the mount
	}{
		{"the workspace again", ".", "/mnt/x", "rw", "/mnt/x/.git"},
		{"its parent", "..", "/mnt/x", "rw", "/mnt/x/ws/.git"},
		{"inside itself", ".", "/workspace/src", "rw", "/workspace/src/.git"},
		{"the repository alone", ".git", "/mnt/x", "rw", "/mnt/x"},
		{"of a read-only workspace", "..", "/mnt/x", "ro", "/mnt/x/ws/.git"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ws := filepath.Join(tempDir(t), "ws")
			repository(t, ws)
			box := launchBox(t, request(t, func(s *policy.Spec) {
				s.Workspace.Source, s.Workspace.Access = ws, tt.access
				s.Mounts = []policy.Mount{{Source: filepath.Join(ws, tt.source), Target: tt.target, Mode: "rw"}}
			}))
			for command, says := range map[string]string{
				"echo x > hooks/post-merge":               "read-only",
				"echo x >> config":                        "",
				"mv hooks gone":                           "busy",
				"echo x > index && mkdir a && rmdir a":    "",
				"rm config || mv config x || rm -r hooks": "busy",
			} {
				out, status := sh(t, box, "cd "+tt.at+" && "+command)
				if (status == 0) != (says == "") || !strings.Contains(strings.ToLower(out), says) {
					t.Errorf("%s: status %d: %s", command, status, out)
				}
			}
			if out, status := sh(t, box, "mv "+tt.at+" "+tt.at+".gone"); status == 0 {
				t.Errorf("moving the repository: %s", out)
			}
			sameConfig(t, ws)
		})
	}
}

// Who mounts a protected path by name has opened it, and it alone.
func TestMountOfProtectedPath(t *testing.T) {
	for _, target := range []string{"/mnt/x", "/workspace/.git/hooks"} {
		req := request(t)
		ws := req.Spec.Workspace.Source
		repository(t, ws)
		req.Spec.Mounts = []policy.Mount{{Source: ws + "/.git/hooks", Target: target, Mode: "rw"}}
		box := launchBox(t, req)
		if out, status := sh(t, box, "echo x > "+target+"/post-merge"); status != 0 {
			t.Errorf("%s: %s", target, out)
		}
		for _, command := range []string{"mv .git/config gone", "mv .git gone", "mv .git/hooks gone"} {
			if out, status := sh(t, box, command); status == 0 {
				t.Errorf("%s: %s: %s", target, command, out)
			}
		}
	}
}

func TestUnprotected(t *testing.T) {
	for _, open := range []string{".git/hooks", "*"} {
		req := request(t, func(s *policy.Spec) { s.Workspace.Unprotected = []string{open} })
		repository(t, req.Spec.Workspace.Source)
		box := launchBox(t, req)
		if out, status := sh(t, box, "echo x > .git/hooks/post-merge"); status != 0 {
			t.Errorf("%s: %s", open, out)
		}
		if out, status := sh(t, box, "echo x >> .envrc"); (status == 0) != (open == "*") {
			t.Errorf("%s: %s", open, out)
		}
	}
}

// A worktree's .git is a file that says where the repository is.
func TestGitFile(t *testing.T) {
	req := request(t)
	testkit.Write(t, filepath.Join(req.Spec.Workspace.Source, ".git"), "gitdir: /elsewhere\n", 0o644)
	box := launchBox(t, req)
	for _, command := range []string{"echo gitdir: /workspace/evil > .git", "rm -f .git", "touch x; mv x .git"} {
		if out, status := sh(t, box, command); status == 0 {
			t.Errorf("%s: %s", command, out)
		}
	}
}

// Paddock's state is out of sight in every mount, since its sockets could be
// connected to through a read-only one as well.
func TestStateIsCovered(t *testing.T) {
	for name, change := range map[string]func(*policy.Spec, string){
		"workspace":           func(s *policy.Spec, dir string) { s.Workspace.Source = dir },
		"read-only workspace": func(s *policy.Spec, dir string) { s.Workspace.Source, s.Workspace.Access = dir, "ro" },
		"read-only mount": func(s *policy.Spec, dir string) {
			s.Mounts = []policy.Mount{{Source: dir, Target: "/mnt/x", Mode: "ro"}}
		},
		"read-write mount": func(s *policy.Spec, dir string) {
			s.Mounts = []policy.Mount{{Source: dir, Target: "/mnt/x", Mode: "rw"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tempDir(t)
			req := request(t, func(s *policy.Spec) { change(s, dir) })
			req.StateDir = filepath.Join(dir, "a", "b", "state")
			box := launchBox(t, req)
			at := "/workspace"
			if len(req.Spec.Mounts) > 0 {
				at = "/mnt/x"
			}
			if out, status := sh(t, box, "ls -A "+at+"/a/b/state && ls -d "+at+"/a/b"); status != 0 || out != at+"/a/b" {
				t.Errorf("status %d: %s", status, out)
			}
			if out, status := sh(t, box, "mv "+at+"/a "+at+"/c"); status == 0 {
				t.Errorf("a parent was renamed: %s", out)
			}
		})
	}
}

// The state itself, and what is inside it, cannot be shown on purpose.
func TestStateIsNoSource(t *testing.T) {
	boxtest.RequireWalls(t)
	for _, below := range []string{"", "sandboxes"} {
		req := request(t)
		if err := os.MkdirAll(filepath.Join(req.StateDir, "sandboxes"), 0o700); err != nil {
			t.Fatal(err)
		}
		req.Spec.Mounts = []policy.Mount{{Source: filepath.Join(req.StateDir, below), Target: "/mnt/x", Mode: "ro"}}
		_, err := New().Start(t.Context(), req)
		var bad *policy.FieldError
		if !errors.As(err, &bad) || !strings.Contains(bad.Reason, "Paddock's own state") {
			t.Errorf("%q: %v", below, err)
		}
		if dirs := sandboxDirs(t, req.StateDir); len(dirs) != 0 {
			t.Errorf("%q: left %v", below, dirs)
		}
	}
}

// Programs of Paddock's in a workspace can be used, and not changed.
func TestProgramsAreReadOnly(t *testing.T) {
	req := request(t)
	bin := filepath.Join(req.Spec.Workspace.Source, "out", "bin", "paddock-agent")
	text, err := os.ReadFile(agentPath)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Write(t, bin, string(text), 0o644)
	if err := os.Chmod(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	req.Agent = bin
	box := launchBox(t, req)
	for _, command := range []string{"echo x > out/bin/paddock-agent", "rm -f out/bin/paddock-agent", "mv out/bin out/b", "mv out o",
		"touch y && mv y out/bin/paddock-agent", "chmod 644 out/bin/paddock-agent"} {
		if out, status := sh(t, box, command); status == 0 {
			t.Errorf("%s: %s", command, out)
		}
	}
	if out, status := sh(t, box, "out/bin/paddock-agent --version && touch out/bin/other"); status != 0 {
		t.Errorf("status %d: %s", status, out)
	}
}

func TestFuturePath(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o755), os.Symlink("real", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"": "", "/": "/", "/nonexistent/a/b": "/nonexistent/a/b",
		dir + "/link": dir + "/real", dir + "/link/a/b": dir + "/real/a/b",
	} {
		if got := hostpath.Future(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

var _ backend.Backend = New()
