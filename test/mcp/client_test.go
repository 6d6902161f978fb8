//go:build linux

package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// agent is a client with an agent's loop, whose model is scripted: its machine has a
// home, a workspace that it is started in, and paddock in PATH.
type agent struct {
	name      string // with its version; empty where what is paid is not noted
	model     *model
	tasks     *tasks
	mark      string // of the command that is aborted
	workspace string
	home      string
	env       []string
}

// hangs is how long a client may take before it is ended.
const hangs = 5 * time.Minute

// newAgent prepares what a client of this package of npm's needs.
func newAgent(t *testing.T, pkg string) *agent {
	t.Helper()
	boxtest.RequireWalls(t)
	requireSuites(t)
	requireTime(t)
	t.Parallel()
	a := &agent{tasks: readTasks(t), mark: newMark(), workspace: publicDir(t), home: publicDir(t)}
	a.name = pkg + " " + version(t, pkg)
	a.tasks.write(t, a.workspace)
	a.model = startModel(t, map[string][]scripted{
		"tasks": a.tasks.script(),
		"long":  {{"exec", map[string]any{"command": "setsid sleep " + a.mark + " & sleep " + a.mark}}},
		// The brackets keep the command from finding itself.
		"after": {{"exec", map[string]any{"command": "while grep -qs '[" + a.mark[:1] + "]" + a.mark[1:] + "' /proc/[0-9]*/cmdline; do sleep 0.1; done; echo all gone"}}},
	})
	modules, err := filepath.Abs(filepath.Dir(suites))
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(a.home, "bin")
	for _, err := range []error{os.Mkdir(bin, 0o755), os.Symlink(modules, filepath.Join(a.home, "node_modules"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	a.provide(t, filepath.Join(binDir, "paddock"))
	a.env = []string{
		"HOME=" + a.home, "PATH=" + bin + ":" + filepath.Join(modules, ".bin") + ":" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8",
		"HTTPS_PROXY=http://127.0.0.1:9", "HTTP_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1", // nothing else is reached
		"OPENAI_BASE_URL=" + a.model.url, "OPENAI_API_KEY=none",
		"NODE_COMPILE_CACHE=" + filepath.Join(binDir, "compiled"),
	}
	return a
}

// provide makes a program what paddock is in PATH. What clients start gets little of
// their environment, so that it is said here where the server keeps its state.
func (a *agent) provide(t *testing.T, program string) {
	t.Helper()
	text := fmt.Sprintf("#!/bin/sh\nPADDOCK_STATE_DIR='%s' exec '%s' \"$@\"\n", filepath.Join(a.home, "state"), program)
	writeProgram(t, filepath.Join(a.home, "bin", "paddock"), []byte(text))
}

// writeProgram writes a file that clients execute: a child of another test that had it open for writing
// would keep it from running.
func writeProgram(t *testing.T, path string, data []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
}

// version is that of an installed package.
func version(t *testing.T, pkg string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(filepath.Dir(suites), pkg, "package.json"))
	var told struct{ Version string }
	if err == nil {
		err = json.Unmarshal(data, &told)
	}
	if err != nil {
		t.Fatal(err)
	}
	return told.Version
}

// running is a client that has been started.
type running struct {
	cmd  *exec.Cmd
	said *notes
	done chan error
}

// start starts a client in the workspace. One that hangs is killed with its process
// group.
func (a *agent) start(t *testing.T, program string, args ...string) *running {
	t.Helper()
	r := &running{exec.Command(program, args...), &notes{}, make(chan error, 1)}
	r.cmd.Dir, r.cmd.Env = a.workspace, a.env
	r.cmd.Stdout, r.cmd.Stderr = r.said, r.said
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.WaitDelay = patience
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) }
	late := time.AfterFunc(hangs, kill)
	ended := make(chan struct{})
	go func() {
		err := r.cmd.Wait()
		if !late.Stop() {
			err = fmt.Errorf("it did not end within %v: %w", hangs, err)
		}
		r.done <- err
		close(ended)
	}()
	t.Cleanup(func() { kill(); <-ended })
	return r
}

// abort sends a client the signal that aborts its run, as soon as the long command
// runs.
func (a *agent) abort(t *testing.T, r *running, sig syscall.Signal) {
	t.Helper()
	for end := time.Now().Add(hangs); len(marked(a.mark)) < 2; time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-r.done:
			t.Fatalf("it ended before it was interrupted: %v\n%s", err, r.said)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("the long command is not started:\n%s", r.said)
		}
	}
	if err := r.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// check compares what the model was given with the tasks, and notes what it paid.
func (a *agent) check(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, "the processes of the aborted command are gone", func() bool { return len(marked(a.mark)) == 0 })
	had := a.model.had("tasks")
	a.tasks.check(t, had, a.workspace)
	a.model.mu.Lock()
	tools, odd := utf8.RuneCountInString(a.model.tools), a.model.odd
	a.model.mu.Unlock()
	if tools == 0 || tools > 14000 {
		t.Errorf("the tools take %d characters of each request", tools)
	}
	for _, what := range odd {
		t.Error(what)
	}
	if t.Failed() {
		return
	}
	if had[0].chars > 200 {
		t.Errorf("a trivial exec takes %d characters", had[0].chars)
	}
	all := 0
	for _, one := range had {
		all += one.chars
	}
	if a.name == "" {
		return
	}
	paid.mu.Lock()
	defer paid.mu.Unlock()
	paid.lines = append(paid.lines, fmt.Sprintf("%-40s %6d of tools in each request, %5d for a trivial exec, %6d for %d calls", a.name, tools, had[0].chars, all, len(had)))
}

// paid are the characters that models were given, a line for each client.
var paid struct {
	mu    sync.Mutex
	lines []string
}

// install runs "paddock mcp install", and gives what it printed.
func (a *agent) install(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(a.home, "bin", "paddock"), append([]string{"mcp", "install", "--command", "paddock"}, args...)...)
	cmd.Dir, cmd.Env = a.workspace, a.env
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("%v\n%s", err, exit.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// library lets the agent of an SDK work, over both transports, by a program in testdata:
// the tasks, then a long command that is aborted, then, where the client tells the server
// of that, a command that waits until nothing of it is left.
func library(t *testing.T, pkg, driver string, tells bool) {
	for _, transport := range []string{"stdio", "http"} {
		t.Run(transport, func(t *testing.T) {
			a := newAgent(t, pkg)
			var printed struct {
				McpServers struct{ Paddock map[string]any }
			}
			if err := json.Unmarshal([]byte(a.install(t, "--print")), &printed); err != nil {
				t.Fatal(err)
			}
			server := printed.McpServers.Paddock
			if transport == "http" {
				a.name = "" // as over stdio
				s := setup{workspace: a.workspace, state: t.TempDir(), profile: "workspace", text: true}
				token := s.token(t, "ann", a.workspace)
				server = map[string]any{"url": startHTTP(t, s).url, "headers": map[string]string{"Authorization": "Bearer " + token}}
			}
			text, err := json.Marshal(server)
			if err != nil {
				t.Fatal(err)
			}
			a.env = append(a.env, "SERVER="+string(text))
			for _, name := range []string{driver, "client.mjs"} {
				data, err := os.ReadFile(filepath.Join("testdata", name))
				if err == nil {
					err = os.WriteFile(filepath.Join(a.home, name), data, 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			args := []string{filepath.Join(a.home, driver), "Run the script tasks.", "Run the script long."}
			if tells {
				args = append(args, "Run the script after.")
			}
			r := a.start(t, filepath.Join(a.home, "node_modules", ".bin", "node"), args...)
			a.abort(t, r, syscall.SIGUSR2)
			if err := <-r.done; err != nil {
				t.Errorf("%v\n%s", err, r.said)
			}
			a.check(t)
			if after := a.model.had("after"); tells && (len(after) != 1 || !strings.Contains(after[0].text, "all gone")) {
				t.Errorf("after the abort the model was given %v\n%s", after, r.said)
			}
		})
	}
}

func TestClientTypescript(t *testing.T) {
	library(t, "@modelcontextprotocol/sdk", "typescript.mjs", true)
}

func TestClientAgents(t *testing.T) { library(t, "@openai/agents", "agents.mjs", true) }

func TestClientLangchain(t *testing.T) { library(t, "@langchain/mcp-adapters", "langchain.mjs", true) }

// TestClientVercel is a client that forgets what it has aborted, and tells nobody: that
// ends with the client, or at its time limit.
func TestClientVercel(t *testing.T) { library(t, "@ai-sdk/mcp", "vercel.mjs", false) }
