package paddock

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

func executable(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAgentPath(t *testing.T) {
	dir := t.TempDir()
	good, other := executable(t, dir, "agent"), executable(t, dir, "other")
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, option, env string
		want, wantErr     string
	}{
		{name: "the option", option: good, env: other, want: good},
		{name: "the environment", env: other, want: other},
		{name: "a missing option is not replaced", option: dir + "/none", env: other,
			wantErr: "cannot find the agent: tried Options.Agent = " + dir + "/none (no such file or directory)"},
		{name: "a directory", env: dir, wantErr: "cannot find the agent: tried $PADDOCK_AGENT = " + dir + " (not an executable file)"},
		{name: "a plain file", env: plain, wantErr: "cannot find the agent: tried $PADDOCK_AGENT = " + plain + " (not an executable file)"},
		{name: "nothing", wantErr: "cannot find the agent: tried $PADDOCK_AGENT (not set), "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(AgentEnv, tt.env)
			got, err := Options{Agent: tt.option}.agentPath()
			if got != tt.want || (err != nil) != (tt.wantErr != "") {
				t.Fatalf("agentPath() = %q, %v", got, err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), tt.wantErr) {
				t.Errorf("error is %q, want %q", err, tt.wantErr)
			}
		})
	}
}

func TestStateDir(t *testing.T) {
	t.Setenv("HOME", "/home/x")
	user := func(dir string) string {
		if os.Geteuid() == 0 {
			return hostpath.RootState
		}
		return dir
	}
	tests := []struct{ name, option, env, xdg, want string }{
		{"the option", "/o", "/e", "/x", "/o"},
		{"the environment", "", "/e", "/x", "/e"},
		{"XDG", "", "", "/x", user("/x/paddock")},
		{"a relative XDG is ignored", "", "", "x", user("/home/x/.local/state/paddock")},
		{"home", "", "", "", user("/home/x/.local/state/paddock")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(StateDirEnv, tt.env)
			t.Setenv("XDG_STATE_HOME", tt.xdg)
			got, _, err := Options{StateDir: tt.option}.stateDir()
			if err != nil || got != tt.want {
				t.Errorf("stateDir() = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// Links of the user's own on the way to the state are followed from the first start
// on, in the place that was named and in the usual one.
func TestStateDirBehindLinks(t *testing.T) {
	root, usual := ownHome(t)
	for _, env := range []string{"", root + "/link/named"} {
		t.Setenv(StateDirEnv, env)
		want := usual
		if env != "" {
			want = root + "/real/named"
		}
		if got, err := DefaultStateDir(); err != nil || got != want {
			t.Errorf("%q leads to %q, %v, want %s", env, got, err, want)
		}
		req := requestIn(t, root+"/ws")
		if _, err := (Options{}).remember(req); err != nil {
			t.Fatal(err)
		}
		if list := hostpath.List(want); req.StateDir != want || list == nil || !strings.Contains(list.String(), root+"/ws") {
			t.Errorf("the list in %s is %v", req.StateDir, list)
		}
	}
}

// What sandboxes of one state directory could write is known in every other one.
func TestStateDirsShareTheList(t *testing.T) {
	root, usual := ownHome(t)
	t.Setenv(StateDirEnv, root+"/a")
	if _, err := (Options{}).remember(requestIn(t, root+"/ws")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(root+"/evil", 0o700), os.Symlink("../evil", root+"/ws/link")); err != nil {
		t.Fatal(err)
	}
	for _, env := range []string{"", root + "/b"} {
		t.Setenv(StateDirEnv, env)
		_, err := (Options{}).remember(requestIn(t, root+"/ws/link"))
		if err == nil || !strings.Contains(err.Error(), root+"/ws was writable for them") {
			t.Errorf("PADDOCK_STATE_DIR=%s: %v", env, err)
		}
	}
	// Whoever chooses the state by that link chooses no list with it.
	t.Setenv(StateDirEnv, root+"/ws/link")
	if _, err := DefaultStateDir(); err == nil || !strings.Contains(err.Error(), root+"/ws was writable for them") {
		t.Errorf("a state behind a link of commands: %v", err)
	}
	// The control: without the list of the usual place nothing is known of that.
	if err := os.RemoveAll(usual); err != nil {
		t.Fatal(err)
	}
	if got, err := DefaultStateDir(); err != nil || got != root+"/evil" {
		t.Errorf("the control: %q, %v", got, err)
	}
}

// A start in which commands could replace a link on the way to the state is refused;
// so is one that names another place, because later starts might use the usual one.
func TestStateDirLinkInWorkspace(t *testing.T) {
	root, _ := ownHome(t)
	for _, env := range []string{"", root + "/named", root + "/link/named"} {
		t.Setenv(StateDirEnv, env)
		_, err := (Options{}).remember(requestIn(t, root))
		if err == nil || !strings.Contains(err.Error(), "link is a symbolic link to real, and commands can make such links: "+root+" is writable for them") {
			t.Errorf("PADDOCK_STATE_DIR=%s: %v", env, err)
		}
		e := (*policy.FieldError)(nil)
		if want := "choose a workspace (-w) in which that link does not lie"; !strings.HasPrefix(env, root+"/link") && (!errors.As(err, &e) || e.Hint != want) {
			t.Errorf("PADDOCK_STATE_DIR=%s: the hint is %+v", env, e)
		}
		if _, err := (Options{}).remember(requestIn(t, root+"/ws")); err != nil {
			t.Errorf("PADDOCK_STATE_DIR=%s: the hint leads to %v", env, err)
		}
	}
}

// Where the usual place cannot be used, a place that is named can be, by its real
// path: nobody knows what sandboxes with another one could write.
func TestStateDirWithoutUsual(t *testing.T) {
	root, _ := ownHome(t)
	if err := os.WriteFile(root+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	usualIn(t, root+"/file/x")
	t.Setenv(StateDirEnv, root+"/link/named")
	_, err := DefaultStateDir()
	var e *policy.FieldError
	if !errors.As(err, &e) {
		t.Fatalf("%v", err)
	}
	name, value, _ := strings.Cut(e.Hint[strings.LastIndex(e.Hint, " ")+1:], "=")
	if name != StateDirEnv || value != root+"/real/named" {
		t.Fatalf("the hint is %q", e.Hint)
	}
	t.Setenv(name, value)
	if _, err := (Options{}).remember(requestIn(t, root+"/ws")); err != nil {
		t.Errorf("the hint leads to %v", err)
	}
	if f := (Options{}).probeState(); !f.OK || !strings.Contains(f.Detail, "it alone lists what sandboxes could write") {
		t.Errorf("doctor says %+v", f)
	}
	if _, err := (Options{}).remember(requestIn(t, root)); err == nil || !strings.Contains(err.Error(), "commands could make "+root+"/file/x/paddock") {
		t.Errorf("a workspace that holds the usual place: %v", err)
	}
}

// ownHome makes a directory with a workspace, ws, and link, which leads to real; the
// usual place of state is behind that.
func ownHome(t *testing.T) (root, usual string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = errors.Join(os.Mkdir(root+"/real", 0o700), os.Symlink("real", root+"/link"), os.Mkdir(root+"/ws", 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	usualIn(t, root+"/link")
	return root, root + "/real/paddock"
}

// usualIn has the usual place of state be in a directory.
func usualIn(t *testing.T, dir string) {
	was := hostpath.RootState
	hostpath.RootState = dir + "/paddock"
	t.Setenv("XDG_STATE_HOME", dir)
	t.Cleanup(func() { hostpath.RootState = was })
}

// requestIn is what a start over a workspace asks a backend for.
func requestIn(t *testing.T, workspace string) backend.Request {
	t.Helper()
	_, req, err := Options{}.request(Spec{Workspace: Workspace{Source: workspace}})
	if err != nil {
		t.Fatal(err)
	}
	return req
}
