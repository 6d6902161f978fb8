package paddock

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		{name: "nothing", wantErr: "cannot find the agent: tried Options.Agent (not set), $PADDOCK_AGENT (not set), "},
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
			return "/var/lib/paddock"
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

// A state that is not there yet and lies behind a link of the user's own is refused at
// the first start, in words that can be taken as they are.
func TestStateDirBehindLink(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = errors.Join(os.Mkdir(root+"/real", 0o700), os.Symlink("real", root+"/link"))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(StateDirEnv, root+"/link/paddock")
	_, err = DefaultStateDir()
	var e *policy.FieldError
	if !errors.As(err, &e) {
		t.Fatalf("%v", err)
	}
	name, value, _ := strings.Cut(e.Hint[strings.LastIndex(e.Hint, " ")+1:], "=")
	if name != StateDirEnv || value != root+"/real/paddock" {
		t.Fatalf("the hint is %q", e.Hint)
	}
	t.Setenv(name, value)
	if got, err := DefaultStateDir(); err != nil || got != value {
		t.Errorf("the hint leads to %q, %v", got, err)
	}
}
