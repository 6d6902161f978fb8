package table

import (
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/op/internal/session"
	"github.com/paddock-dev/paddock/op/internal/shell"
)

// doors are the operations that run commands, each with what it says of one that failed.
func doors(t *testing.T, env *op.Env) map[string]func(command string) []paddock.Denial {
	t.Helper()
	env.Sessions = &registry.Sessions{}
	t.Cleanup(func() {
		if err := env.Sessions.Close(); err != nil {
			t.Error(err)
		}
	})
	well[session.SessionOpenOutput](t, env, "session_open", fields{"session_id": "s"})
	well[shell.ShellOutput](t, env, "shell_open", fields{"shell_id": "h"})
	return map[string]func(string) []paddock.Denial{
		"exec": func(c string) []paddock.Denial {
			return well[exec.ExecAnswer](t, env, "exec", fields{"command": c}).Denials
		},
		"run": func(c string) []paddock.Denial {
			return well[exec.RunOutput](t, env, "run", fields{"argv": []string{"sh", "-c", c}}).Denials
		},
		"session_run": func(c string) []paddock.Denial {
			return well[session.SessionRunOutput](t, env, "session_run", fields{"session_id": "s", "command": "(" + c + ")"}).Denials
		},
		"output_read": func(c string) []paddock.Denial {
			x := well[exec.ExecAnswer](t, env, "exec", fields{"command": c, "background": true})
			for {
				out := well[output.OutputReadOutput](t, env, "output_read", fields{"output": x.Exec, "wait": "1m"})
				if out.EOF {
					return out.Denials
				}
			}
		},
		"shell_write": func(c string) []paddock.Denial {
			return well[shell.ShellOutput](t, env, "shell_write", fields{"shell_id": "h", "text": "(" + c + "); echo en''d", "wait_for": "end"}).Denials
		},
	}
}

// Where a program of the host lies is told at every door, but not to who is below a
// ceiling.
func TestMissingProgramIsLookedFor(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "own-tool"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, bounded := range map[string]bool{"the host's user": false, "a model": true} {
		t.Run(name, func(t *testing.T) {
			env := lasting(t)
			env.Options.Path = dir
			want, at := "it is at "+dir+"/own-tool on this host, which the sandbox does not show: `mounts.ro` "+dir, "`mounts.ro` "+dir
			if bounded {
				ceiling, err := env.Default.Ceiling()
				if err != nil {
					t.Fatal(err)
				}
				env.Ceiling = ceiling
				want, at = "this host has it, in a directory that the sandbox does not show: `mounts.ro` makes one visible", ""
			}
			for door, does := range doors(t, env) {
				list := does("own-tool")
				if len(list) != 1 || list[0].Layer != "path" || list[0].Object != "own-tool" || !list[0].Guess || !strings.HasPrefix(list[0].Hint, want) {
					t.Errorf("%s: %+v, want %q", door, list, want)
				}
			}
			for _, name := range []string{"exec", "run"} {
				for _, program := range []string{"own-tool", filepath.Join(dir, "own-tool")} {
					want := want
					if bounded && program != "own-tool" {
						want = "the file, or the interpreter that its first line names, is not visible" // it could ask for any file
					}
					_, err := operationTried(t, env, name, fields{"argv": []string{program}})
					if hint := op.HintOf(err); !strings.HasPrefix(hint, want) || !strings.Contains(hint, at) {
						t.Errorf("%s of %s: %q, want %q", name, program, hint, want)
					}
				}
			}
		})
	}
}

// What is missing everywhere is told so, and a status of another program says nothing.
func TestProgramThatIsNowhere(t *testing.T) {
	env := lasting(t)
	env.Options.Path = t.TempDir()
	if text := well[exec.ExecAnswer](t, env, "exec", fields{"command": "echo ls: not found >&2; exit 126"}); len(text.Denials) > 0 {
		t.Errorf("another status: %+v", text.Denials)
	}
	for program, want := range map[string]string{"paddock-no-such": "this host has no program of that name in PATH either", "/usr/bin/paddock-no-such": "the file, or the interpreter that its first line names, is not visible in the sandbox"} {
		if _, err := operationTried(t, env, "exec", fields{"argv": []string{program}}); op.HintOf(err) != want {
			t.Errorf("%v, %q, want %q", err, op.HintOf(err), want)
		}
		out, err := operationTried(t, env, "run", fields{"argv": []string{program}})
		told := &strings.Builder{}
		if tellErr := out.(op.Teller).Tell(told); op.HintOf(err) != want || tellErr != nil || told.String() != "" {
			t.Errorf("%v, %q, want %q; beside that it says %q", err, op.HintOf(err), want, told)
		}
	}
}

// Where there is no shell to look with, what is missing is told at once, at every door, and the
// program that there is still runs.
func TestMissingProgramWithoutAShell(t *testing.T) {
	env := lasting(t)
	root := t.TempDir()
	program, err := os.ReadFile(env.Options.Agent)
	if err == nil {
		err = errors.Join(os.Chmod(filepath.Dir(root), 0o755), os.Mkdir(root+"/bin", 0o755), os.WriteFile(root+"/bin/one", program, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	env.Default.RootFS = root
	for _, name := range []string{"exec", "run"} {
		for program, want := range map[string]string{
			"nosuch": "cannot run nosuch: not found in the sandbox's PATH", "sh": "cannot run sh: not found in the sandbox's PATH",
			"/bin/sh": "cannot run /bin/sh: no such file or directory", "./nosuch": "cannot run ./nosuch: no such file or directory",
		} {
			_, err := operationTried(t, env, name, fields{"argv": []string{program}})
			if err == nil || err.Error() != want || op.HintOf(err) == "" || !errors.Is(err, paddock.ErrNotFound) {
				t.Errorf("%s %s: %v, hint %q; want %s", name, program, err, op.HintOf(err), want)
			}
		}
		if _, err := operationTried(t, env, name, fields{"argv": []string{"one", "--version"}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, in := range map[string]fields{
		"exec":         {"command": "nosuch"},
		"session_open": {},
		"shell_open":   {},
	} {
		if _, err := operationTried(t, env, name, in); err == nil || !strings.Contains(err.Error(), "no such file or directory") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A shell that itself says what it does not find is asked once, and its words are not explained.
func TestMissingProgramOfAnOddShell(t *testing.T) {
	env := lasting(t)
	root := t.TempDir()
	source := filepath.Join(t.TempDir(), "main.go")
	if err := errors.Join(os.Chmod(filepath.Dir(root), 0o755), os.WriteFile(source, []byte(`package main

import "os"

func main() {
	f, _ := os.OpenFile("/workspace/asked", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	f.WriteString(".")
	os.Stderr.WriteString("sh: 1: ls: not found\n")
	os.Exit(127)
}
`), 0o600)); err != nil {
		t.Fatal(err)
	}
	build := osexec.Command("go", "build", "-o", root+"/bin/sh", source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GO111MODULE=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	env.Default.RootFS = root
	out := well[exec.RunOutput](t, env, "run", fields{"argv": []string{"sh"}})
	asked, err := os.ReadFile(filepath.Join(env.Default.Workspace.Source, "asked"))
	if out.ExitCode != 127 || len(out.Denials) > 0 || err != nil || len(asked) != 2 {
		t.Errorf("%+v, after %d runs, %v", out, len(asked), err)
	}
}

// Where there is no network, each door says that of what looks for one: of what is
// printed on error output, or led into output, and of what was told to be silent.
func TestNoNetworkIsTold(t *testing.T) {
	env := lasting(t)
	does := doors(t, env)
	for command, silent := range map[string]bool{
		"echo 'curl: (6) Could not resolve host: example.com' >&2; exit 6":    false,
		"echo 'npm error code EAI_AGAIN' >&2; exit 1":                         false,
		"echo \"npm error code EAI_AGAIN\" 2>&1; exit 1":                      false,
		"echo '(from versions: none)' >&2; exit 1":                            false,
		"echo \"fatal: Could not resolve host: x\" 2>&1; exit 128":            false,
		"echo \"E: Temporary failure resolving 'deb.example'\" >&2; exit 100": false,
		"echo 'dial tcp: lookup example.com: no such host' >&2; exit 1":       false,
		"curl () { return 6; }; curl -s https://example.com":                  true,
		"wget () { return 4; }; wget -q https://example.com; (exit 4)":        true,
	} {
		for door, do := range does {
			if silent && door == "shell_write" {
				continue // nothing is printed, and no status is known
			}
			list := do(command)
			if !slices.ContainsFunc(list, func(d paddock.Denial) bool {
				return d.Layer == "network" && d.Guess && strings.Contains(d.Hint, "`network` host")
			}) {
				t.Errorf("%s: %s: %+v", door, command, list)
			}
		}
	}
	for _, command := range []string{"echo Could not resolve host >&2", "echo fine; exit 6", "echo 'Could not resolve host' >f; cat f; echo other >&2; exit 1"} {
		if list := does["exec"](command); len(list) > 0 {
			t.Errorf("%s: %+v", command, list)
		}
	}
}
