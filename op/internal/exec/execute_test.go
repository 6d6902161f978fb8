package exec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

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

func TestWorkingDir(t *testing.T) {
	const outside, invalid = "Working directory outside workspace is not allowed", "Failed to validate working directory"
	ws := workspaces(t)
	for written, want := range map[string]string{
		"": ".", "/": ".", ".": ".", "sub": "sub", "/sub": "sub", "/sub/": "sub", "sub/deeper": "sub/deeper", "sub/..": ".", "./sub": "sub", "in": "in", "in/deeper": "in/deeper",
		"missing": "! Working directory does not exist: /missing", "/sub/no": "! Working directory does not exist: /sub/no", "gone": "! Working directory does not exist: /gone",
		"..": "! " + outside, "../user10": "! " + outside, "/../user10": "! " + outside, "sub/../../user10": "! " + outside, "out": "! " + outside, "abs": "! " + outside,
		"//etc": "! " + outside, "../nowhere": "! " + outside,
		"file": "! Execution failed: the working directory is not a directory: /file", "file/x": "! " + invalid, "loop": "! " + invalid, "a\x00b": "! " + invalid,
		strings.Repeat("x", 5000): "! " + invalid,
	} {
		rel, refusal := workingDir(ws, written)
		if refusal != "" {
			rel = "! " + refusal
		}
		if rel != want {
			t.Errorf("workingDir(%q) = %q, want %q", written, rel, want)
		}
	}
	if _, refusal := workingDir(ws+"/missing", "sub"); refusal != invalid {
		t.Errorf("without a workspace: %q", refusal)
	}
}

// Variables that decide what programs load or execute are the sandbox's.
func TestExecuteEnvironment(t *testing.T) {
	for _, name := range []string{
		"PATH", "LD_PRELOAD", "LD_ANYTHING", "BASH_ENV", "BASH_FUNC_ls", "ENV", "IFS", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "NODE_OPTIONS", "HOME", "PWD",
		"GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "PAGER", "PERL5OPT", "GOFLAGS", "npm_config_script_shell", "npm_config_ignore_scripts", "PIP_NO_INPUT",
	} {
		_, err := ExecuteInput{Env: op.Variables{name + "=x"}}.environment(policy.Spec{})
		if e := policy.FieldErrors(err); len(e) != 1 || e[0].Field != "env."+name || e[0].Value != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	got, err := ExecuteInput{Env: op.Variables{"A=1", "PYTHONHASHSEED=0", "A=2=3"}}.environment(policy.Spec{
		Env: map[string]string{"A": "spec", "B": "spec", "MPLBACKEND": "spec"}, Limits: policy.Limits{Memory: 512 * policy.MiB},
	})
	want := []string{
		"A=2=3", "B=spec", "MPLBACKEND=spec", "NODE_OPTIONS=--max-old-space-size=384", "PIP_NO_INPUT=1", "PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0",
		"PYTHONUNBUFFERED=1", "npm_config_ignore_scripts=true",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}
