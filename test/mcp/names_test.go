//go:build linux

package mcp

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// refusal is what a command of the program says first.
func (s setup) refusal(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "paddock"), args...)
	cmd.Dir, cmd.Env = s.workspace, append(s.env(), "PADDOCK_TEST_NONE=") // standard input is empty
	out, err := cmd.CombinedOutput()
	if err == nil && args[0] != "mcp" { // which tells its client
		t.Errorf("%v is no error: %s", args, out)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return first
}

// TestErrorsNameWhatWasWritten: the flag at each command that describes a sandbox, and
// the key, with its line, in a spec file.
func TestErrorsNameWhatWasWritten(t *testing.T) {
	s := plain(t)
	for flags, want := range map[string]string{
		"--memory x":                            `cannot use --memory "x": `,
		"--memory 1":                            `cannot use --memory "1B": it is less than`,
		"--memory-high 2GiB --memory 1GiB":      `cannot use --memory-high "2GiB": it is more than --memory, 1GiB`,
		"--swap x":                              `cannot use --swap "x": `,
		"--cpus 0":                              `cannot use --cpus "0": `,
		"--cpus x":                              `cannot use --cpus "x": `,
		"--processes 0":                         `cannot use --processes "0": `,
		"--open-files 1":                        `cannot use --open-files "1": `,
		"--tmp 1":                               `cannot use --tmp "1B": `,
		"--timeout x":                           `cannot use --timeout "x": `,
		"--cpu-time 1x":                         `cannot use --cpu-time "1x": `,
		"--max-output x":                        `cannot use --max-output "x": `,
		"--network foo":                         `cannot use --network "foo": `,
		"--level foo":                           `cannot use --level "foo": `,
		"--seccomp foo":                         `cannot use --seccomp "foo": `,
		"--ro /nonexistent":                     `cannot use --ro "/nonexistent": `,
		"--rw /nonexistent:/x":                  `cannot use --rw "/nonexistent": `,
		"--ro /usr:relative":                    `cannot use --ro "/usr:relative": `,
		"--ro /usr:/proc/x":                     `cannot use --ro "/proc/x": `,
		"--unprotect foo":                       `cannot use --unprotect "foo": `,
		"--env FOO":                             `cannot use --env number 1: it is not NAME=VALUE`,
		"--env =x":                              `cannot use --env "": `,
		"--env A[0]=x":                          `cannot use --env "A[0]": `,
		"--env-pass PADDOCK_TEST_MISSING":       `cannot use --env-pass "PADDOCK_TEST_MISSING": `,
		"--workspace-mode foo":                  `cannot use --workspace-mode "foo": `,
		"--hostname a/b":                        `cannot use --hostname "a/b": `,
		"--redact foo":                          `cannot use --redact "foo": `,
		"--rootfs /nonexistent":                 `cannot use --rootfs "/nonexistent": `,
		"--allow-degraded foo":                  `cannot use --allow-degraded "foo": `,
		"--backend foo":                         `cannot use --backend "foo": `,
		"--image x":                             `cannot use --image: it is for backend docker`,
		"--codex-config n":                      `cannot use --codex-config "n": it is not KEY=JSON`,
		"--codex-config n=null --backend codex": `cannot use --codex-config n: it is null`,
		"--wrapper 'x":                          `cannot use --wrapper "'x": `,
		"--wrapper-agent foo --wrapper cat":     `cannot use --wrapper-agent "foo": `,
		"--workspace /nonexistent":              `cannot use --workspace "/nonexistent": `,
	} {
		for _, door := range []string{"run", "plan", "session", "mcp"} {
			args := append([]string{door}, strings.Fields(flags)...)
			if door == "run" {
				args = append(args, "--", "true")
			}
			if got := s.refusal(t, args...); !strings.HasPrefix(got, "paddock: "+want) {
				t.Errorf("%v: %s, want %s", args, got, want)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "s.yaml")
	for text, want := range map[string]string{
		"network: foo\n":                                                               `:1: cannot use network "foo": `,
		"limits:\n  memory: 1\n":                                                       `:2: cannot use limits.memory "1B": `,
		"limits:\n  memory: 5ZiB\n":                                                    `:2: cannot use limits.memory "5ZiB": `,
		"limits:\n  memory_high: 2GiB\n  memory: 1GiB\n":                               `:2: cannot use limits.memory_high "2GiB": it is more than limits.memory, 1GiB`,
		"backend: codex\ncodex:\n  config_overrides:\n    n: null\n":                   `:4: cannot use codex.config_overrides.n: it is null`,
		"backend: codex\ncodex:\n  config_overrides:\n    'a b': 1\n":                  `: cannot use codex.config_overrides."a b": `,
		"mounts:\n  - {source: /etc/passwd, target: /a}\n  - {source: /nonexistent}\n": `:3: cannot use mounts[1].source "/nonexistent": `,
		"mounts:\n  - {source: /usr, target: rel}\n":                                   `:2: cannot use mounts[0].target "rel": `,
		"env:\n  'A B': c\n":                                                           `:2: cannot use env."A B": `,
		"workspace:\n  unprotected: [foo]\n":                                           `:2: cannot use workspace.unprotected[0] "foo": `,
		"redaction:\n  - {type: foo}\n":                                                `:2: cannot use redaction[0].type "foo": `,
		"hostname: a/b\n":                                                              `:1: cannot use hostname "a/b": `,
		"rootfs: /nonexistent\n":                                                       `:1: cannot use rootfs "/nonexistent": `,
		"docker: {image: x}\n":                                                         `:1: cannot use docker: it is for backend docker`,
		"nosuch: 1\n":                                                                  `:1: cannot use nosuch: unknown key`,
		"commands: {allow: ['rm -rf']}\n":                                              `:1: cannot use commands.allow[0] "rm -rf": `,
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"run", "--spec", file, "--", "true"}, {"plan", "--spec", file}, {"execute", "--spec", file, "--", "ls"}, {"mcp", "--spec", file}} {
			if args[0] == "execute" && strings.HasPrefix(text, "backend: codex") {
				continue // it has rules, which that backend does not keep
			}
			if got := s.refusal(t, args...); !strings.HasPrefix(got, "paddock: "+file) || !strings.Contains(got, want) {
				t.Errorf("%s: %v: %s, want %s", text, args, got, want)
			}
		}
	}
}

// TestErrorsNameOptionsOfTheServer: those that say how it serves are flags, too.
func TestErrorsNameOptionsOfTheServer(t *testing.T) {
	s := plain(t)
	for flags, want := range map[string]string{
		"--budget 1":                                 `cannot use --budget: `,
		"--profile x":                                `cannot use --profile "x": `,
		"--log-level x":                              `cannot use --log-level "x": `,
		"--http x":                                   `cannot use --http "x": `,
		"--http 127.0.0.1:0 --tls-cert x":            `cannot use --tls-cert "x": `,
		"--http 127.0.0.1:0 --allow-host a/b":        `cannot use --allow-host "a/b": `,
		"--http 127.0.0.1:0 --allow-origin a":        `cannot use --allow-origin "a": `,
		"--tls-cert x":                               `cannot use --tls-cert: it is for a server that listens`,
		"--project /nonexistent":                     `cannot use --project "/nonexistent": `,
		"--spec /nonexistent":                        `cannot use --spec "/nonexistent": `,
		"--http 127.0.0.1:0 --no-auth --memory 1":    `cannot use --memory "1B": `,
		"--http 127.0.0.1:0 --no-auth --ro /nowhere": `cannot use --ro "/nowhere": `,
	} {
		if got := s.refusal(t, append([]string{"mcp"}, strings.Fields(flags)...)...); !strings.HasPrefix(got, "paddock: "+want) {
			t.Errorf("%s: %s, want %s", flags, got, want)
		}
	}
}

// TestErrorsNameFieldsOfTools: a model reads of the fields that it gave.
func TestErrorsNameFieldsOfTools(t *testing.T) {
	boxtest.RequireWalls(t)
	s := plain(t)
	s.profile = "full"
	c := startStdio(t, s)
	for _, tt := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"sandbox_create", map[string]any{"memory": "x"}, `cannot use memory "x": `},
		{"sandbox_create", map[string]any{"memory": "1"}, `cannot use memory "1B": `},
		{"sandbox_create", map[string]any{"memory_high": "2GiB", "memory": "1GiB"}, `cannot use memory_high "2GiB": it is more than memory, 1GiB`},
		{"sandbox_create", map[string]any{"cpus": "0"}, `cannot use cpus "0": `},
		{"sandbox_create", map[string]any{"network": "host"}, `cannot use network "host": `},
		{"sandbox_create", map[string]any{"ro": []string{"/etc"}}, `cannot use ro "/etc": `},
		{"sandbox_create", map[string]any{"unprotect": []string{".git/hooks"}}, `cannot use unprotect ".git/hooks": `},
		{"sandbox_create", map[string]any{"env": []string{"A B=c"}}, `cannot use env."A B": `},
		{"sandbox_create", map[string]any{"env": []string{"A"}}, `cannot use env[0]: it is not NAME=VALUE`},
		{"sandbox_create", map[string]any{"workspace": "/etc"}, `cannot use workspace "/etc": `},
		{"sandbox_create", map[string]any{"workspace_mode": "x"}, `cannot use workspace_mode "x": `},
		{"sandbox_create", map[string]any{"redact": []string{"x"}}, `cannot use redact "x": `},
		{"sandbox_create", map[string]any{"codex_config": []string{"n=null"}}, `cannot use codex_config.n: `},
		{"sandbox_create", map[string]any{"image": "x"}, `cannot use image "x": `},
		{"run", map[string]any{"argv": []string{"true"}, "tmp": "1"}, `cannot use tmp "1B": `},
		{"session_open", map[string]any{"hostname": "a b"}, `cannot use hostname "a b": `},
		{"exec", map[string]any{}, `cannot use command: no command was given`},
		{"exec", map[string]any{"cmd": "ls"}, `did you mean "command"?`},
		{"exec", map[string]any{"command": "true", "timeout": "x"}, `cannot use timeout "x": `},
	} {
		got := c.refused(t, tt.tool, tt.args)
		if !strings.Contains(got, tt.want) || strings.Contains(got, "--") || strings.Contains(got, "env_pass") {
			t.Errorf("%s %v: %s, want %s", tt.tool, tt.args, got, tt.want)
		}
	}
}
