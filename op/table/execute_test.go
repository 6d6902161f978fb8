package table

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/policy"
)

// unable is a backend that starts nothing, and keeps what it was asked for.
type unable struct {
	bare
	err   error
	asked *policy.Spec
}

func (u unable) Start(_ context.Context, req backend.Request) (backend.Sandbox, error) {
	*u.asked = req.Spec
	return nil, u.err
}

// attempt calls the operation with a backend that cannot start anything: what
// gets that far has passed every check.
func attempt(t *testing.T, workspace, input string) (exec.ExecuteOutput, policy.Spec, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var asked policy.Spec
	cause := &backend.StartError{Stage: "clone", Op: "clone", Object: workspace + "/deep/inside", Cause: "no room in /var/lib/secret/place"}
	env := &op.Env{Options: paddock.Options{Backend: unable{err: cause, asked: &asked}, Dir: workspace, Agent: self, StateDir: t.TempDir()}}
	out, err := op.Of[exec.ExecuteInput]().Call(t.Context(), env, []byte(input), nil)
	if err != nil {
		return exec.ExecuteOutput{}, asked, err
	}
	return out.(exec.ExecuteOutput), asked, nil
}

// The checks come in the contract's order, and each refusal is a result.
func TestExecuteRefusals(t *testing.T) {
	ws := workspaces(t)
	off := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(off, []byte(`{"command": {"enabled": false}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, input, want string
		status            int
	}{
		{"nothing", `{"command": []}`, "Empty command", 126},
		{"an empty text", `{"command": ""}`, "Empty command", 126},
		{"a program that is not allowed", `{"command": "curl x", "working_dir": "missing", "env": {"PATH": "/"}}`, "Command 'curl' is not allowed. Allowed commands: ", 126},
		{"a directory that is missing", `{"command": "cat ../../etc/passwd", "working_dir": "missing"}`, "Working directory does not exist: /missing", 125},
		{"a sibling", `{"command": "ls", "working_dir": "../user10"}`, "Working directory outside workspace is not allowed", 125},
		{"a path", `{"command": "cat ../../etc/passwd", "env": {"PATH": "/"}}`, "Path traversal attempt detected: ", 126},
		{"switched off", `{"command": "ls", "config": "` + off + `"}`, "Command execution is disabled", 126},
		{"a sandbox that cannot be made", `{"command": ["ls", "-la"]}`, "Execution failed: ", 125},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, _, err := attempt(t, ws, tt.input)
			if err != nil {
				t.Fatal(err)
			}
			if out.Error == nil || !strings.HasPrefix(*out.Error, tt.want) || out.ExitStatus() != tt.status || out.ExitCode != -1 || out.Success || out.ExecutionTime != 0 || out.TimedOut {
				t.Errorf("%+v (%v)", out, *out.Error)
			}
			if (tt.status == 126) != (len(out.Denials) == 1) {
				t.Errorf("denials are %v", out.Denials)
			}
		})
	}
}

// What the caller learns of a failure has none of the host's paths.
func TestExecuteFailureHidesPaths(t *testing.T) {
	ws := workspaces(t)
	out, _, err := attempt(t, ws, `{"command": "ls"}`)
	if err != nil || out.Error == nil {
		t.Fatalf("%+v, %v", out, err)
	}
	if got := *out.Error; strings.Contains(got, filepath.Dir(ws)) || strings.Contains(got, "/var/lib") || !strings.Contains(got, "no room in place") {
		t.Errorf("the error is %q", got)
	}
}

func TestExecuteBadInput(t *testing.T) {
	ws := workspaces(t)
	for input, want := range map[string]string{
		`{"command": 1}`: "cannot read the input of execute: cannot use command: it must be a text or a list of texts",

		`{"command": "ls", "timeout": 0}`:               `cannot read the input of execute: cannot use timeout "0": it is less than a millisecond`,
		`{"command": "ls", "timeout": -1}`:              `cannot read the input of execute: cannot use timeout "-1": it must not be negative`,
		`{"command": "ls", "timeout": "NaN"}`:           `cannot read the input of execute: cannot use timeout "NaN": it must be a number of seconds`,
		`{"command": "ls", "timeout": true}`:            "cannot read the input of execute: timeout must not be a JSON bool",
		`{"command": "ls", "timeout": 1e99}`:            `cannot read the input of execute: cannot use timeout "1e99": it is more than 604800 seconds`,
		`{"command": "ls", "env": {"LD_PRELOAD": "x"}}`: "cannot use env.LD_PRELOAD: it decides what programs load or execute, and the executor has rules for that",
		`{"command": "ls", "env": ["PATH=/tmp"]}`:       "cannot use env.PATH: it decides what programs load or execute, and the executor has rules for that",
		`{"command": "ls", "env": ["secret"]}`:          "cannot use env[0]: it is not NAME=VALUE",
		`{"command": "ls", "env": {"A B": "x"}}`:        `cannot use env."A B": a name is letters, digits and underscores, and does not start with a digit`,
		`{"command": "ls", "env": {"A": 1}}`:            "cannot read the input of execute: cannot use env: it must be an object of texts",
		`{"command": "ls", "format": "xml"}`:            `cannot use format "xml": it must be "text" or "json"`,
		`{"command": "ls", "config": "/nonexistent"}`:   "cannot read the configuration: open /nonexistent: no such file or directory",
		`{"command": "ls", "shell": true}`:              `cannot read the input of execute: unknown field "shell"`,
	} {
		_, _, err := attempt(t, ws, input)
		if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
			t.Errorf("%s: %v\nwant %s", input, err, want)
		}
	}
}

// The sandbox that is asked for has the contract's limits, and no network.
func TestExecuteSpec(t *testing.T) {
	ws := workspaces(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	defaults := policy.Limits{
		Memory: 512 * policy.MiB, CPUTime: policy.Duration(time.Minute), FileSize: 100 * policy.MiB, Processes: 32, OpenFiles: 256,
		Timeout: policy.Duration(2 * time.Minute), MaxTimeout: policy.Duration(5 * time.Minute), Output: policy.MiB, Tmp: policy.GiB,
	}
	config := write("config.json", `{"mcp": {}, "kb": {}, "command": {"network_isolated": false, "limits": {"max_memory_mb": 64, "timeout_seconds": 2.5}}}`)
	spec := write("spec.yaml", "network: none\nlimits: {memory: 32MiB, max_timeout: 10m}\ncommands: {allow: [ls]}\n")
	second := policy.Duration(time.Second)
	tests := []struct {
		name, input string
		want        func(*policy.Limits)
		network     string
		degraded    string
		notes       []string
	}{
		{"nothing written", `{}`, func(*policy.Limits) {}, "none", "memory processes", nil},
		{"a timeout", `{"timeout": 1.25}`, func(l *policy.Limits) { l.Timeout = second * 5 / 4 }, "none", "memory processes", nil},
		{"a timeout with a unit", `{"timeout": "2m30s"}`, func(l *policy.Limits) { l.Timeout = 150 * second }, "none", "memory processes", nil},
		{"too long a timeout", `{"timeout": "301"}`, func(l *policy.Limits) { l.Timeout = 300 * second }, "none", "memory processes",
			[]string{"the timeout is cut to 300 seconds, the most that can be asked for"}},
		{"a configuration", `{"config": "` + config + `"}`, func(l *policy.Limits) { l.Timeout, l.Memory = second*5/2, 64*policy.MiB }, "host", "processes",
			[]string{config + ": not about commands, ignored: mcp, kb"}},
		{"a spec", `{"spec_file": "` + spec + `", "timeout": 400}`, func(l *policy.Limits) { l.Timeout, l.MaxTimeout, l.Memory = 400*second, 600*second, 32*policy.MiB }, "none", "processes", nil},
		{"both", `{"spec_file": "` + spec + `", "config": "` + config + `"}`,
			func(l *policy.Limits) { l.Timeout, l.MaxTimeout, l.Memory = second*5/2, 600*second, 32*policy.MiB }, "none", "processes",
			[]string{config + ": not about commands, ignored: mcp, kb"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, asked, err := attempt(t, ws, strings.TrimSuffix(tt.input, "}")+map[bool]string{true: "", false: ","}[tt.input == "{}"]+`"command": "ls"}`)
			if err != nil {
				t.Fatal(err)
			}
			want := defaults
			tt.want(&want)
			if diff := cmp.Diff(want, asked.Limits); diff != "" {
				t.Error(diff)
			}
			if asked.Network.Mode != tt.network || strings.Join(asked.AllowDegraded, " ") != tt.degraded || asked.Commands == nil || !slices.Contains(asked.Commands.Allow, "ls") {
				t.Errorf("asked for %+v", asked)
			}
			if diff := cmp.Diff(tt.notes, out.Notes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// run keeps the same rules.
func TestRunKeepsTheRules(t *testing.T) {
	ws := workspaces(t)
	file := filepath.Join(t.TempDir(), "spec.yaml")
	if err := os.WriteFile(file, []byte("commands: {allow: [ls]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var asked policy.Spec
	env := &op.Env{Options: paddock.Options{Backend: unable{err: errors.New("cannot start"), asked: &asked}, Dir: ws, Agent: file, StateDir: t.TempDir()}}
	_, err := op.Of[exec.RunInput]().Call(t.Context(), env, []byte(`{"spec_file": "`+file+`", "argv": ["curl", "x"]}`), nil)
	if !errors.Is(err, paddock.ErrNotExecutable) || !strings.HasPrefix(err.Error(), "cannot run: Command 'curl' is not allowed. Allowed commands: ls") {
		t.Errorf("error is %v", err)
	}
}

// workspaces makes two, the name of one being the beginning of the other's.
func workspaces(t *testing.T) (workspace string) {
	t.Helper()
	dir := t.TempDir()
	workspace = filepath.Join(dir, "user1")
	for _, d := range []string{"user1/sub/deeper", "user10"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(workspace+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"in": "sub", "out": "../user10", "abs": "/etc", "loop": "loop", "gone": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(workspace, name)); err != nil {
			t.Fatal(err)
		}
	}
	return workspace
}
