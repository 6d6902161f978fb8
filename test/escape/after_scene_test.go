//go:build linux

package escape

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// scene is a user's home with a repository in it, and Paddock's state; each
// side of a row has its own.
type scene struct {
	dir    string // holds everything
	ws     string // the workspace: a repository with one commit
	canary string // what harm makes

	program string // Paddock's, where it is not the one that was built
}

// template is the repository that workspaces are copies of, made once.
var template struct {
	once sync.Once
	dir  string
}

const templateScript = `
git init -q -b main .
mkdir src && echo 'one' >src/a.txt && echo '# app' >README.md
git add . && git commit -q -m first
rm -f .git/hooks/*.sample
`

func newScene(t *testing.T) *scene {
	t.Helper()
	dir := hostDir(t)
	s := &scene{dir: dir, ws: filepath.Join(dir, "app"), canary: filepath.Join(dir, "canary")}
	mkdir(t, filepath.Join(dir, "home"), 0o755)
	template.once.Do(func() {
		var err error
		if template.dir, err = os.MkdirTemp("", "paddock-escape-template-"); err != nil { //nolint:usetesting // it is for all tests
			t.Fatal(err)
		}
		(&scene{dir: dir, ws: template.dir, canary: s.canary}).must(t, templateScript)
	})
	copied := exec.Command("cp", "-a", template.dir, s.ws)
	if out, err := copied.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return s
}

// variables are what scripts find: DIR holds all, WS is the workspace on the
// host, CANARY what harm makes, HOME the user's, BIN where Paddock is.
func (s *scene) variables() []string {
	return []string{
		"DIR=" + s.dir, "WS=" + filepath.Join(s.dir, "app"), "CANARY=" + s.canary, "BIN=" + binDir,
		"HOME=" + filepath.Join(s.dir, "home"), "PADDOCK_STATE_DIR=" + filepath.Join(s.dir, "state"), "PADDOCK_CACHE_DIR=" + filepath.Join(s.dir, "caches"),
		"PATH=" + binDir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@localhost", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@localhost",
		"GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=true", "LANG=C.UTF-8", "USER=agent", "SHELL=/bin/sh",
	}
}

// expand puts the scene's variables into a text.
func (s *scene) expand(text string) string {
	return os.Expand(text, func(name string) string {
		for _, v := range s.variables() {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return "$" + name
	})
}

// vocabulary are words of the scripts: harm does the harm, a program from evil
// does it when it runs, hangs takes a command that does not end for harm, and me is the principal.
// plant writes a file that has the tool obeys do the harm, which runs what the file names, as
// editors, agents and npm do. A line "land" ends what one layer has, see [byLanding].
const vocabulary = `
umask 022
harm() { : >"$CANARY"; }
land() { :; }
evil() { mkdir -p "$(dirname "$1")"; printf '#!/bin/sh\n: >"%s"\nexit 0\n' "$CANARY" >"$1"; chmod +x "$1"; }
harmless() { mkdir -p "$(dirname "$1")"; printf '#!/bin/sh\nexit 0\n' >"$1"; chmod +x "$1"; }
plant() {
	mkdir -p "$(dirname "$1")"
	case $1 in *.npmrc) printf 'script-shell=touch %s\n' "$CANARY" >"$1";; *) printf '{"command": "touch %s"}\n' "$CANARY" >"$1";; esac
}
obeys() { sh -c "$(sed -n 's/.*"command": "\([^"]*\)".*/\1/p; s/^script-shell=//p' "$1")"; }
hangs() { timeout -k 1 "$@" </dev/null; case $? in 124|137) harm;; esac; }
me() { if id -un >/dev/null 2>&1; then echo "user:$(id -un)"; else echo "uid:$(id -u)"; fi; }
commit() { echo more >>src/a.txt; git commit -q -a -m more; }
`

// host is a script on the host's side.
func (s *scene) host(ctx context.Context, text string, more []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", vocabulary+text)
	cmd.Dir = s.ws
	cmd.Env = s.variables()
	for _, v := range more {
		cmd.Env = append(cmd.Env, s.expand(v))
	}
	cmd.WaitDelay = time.Second
	return cmd
}

// shell runs a script and gives what it printed; how it ends does not matter.
func (s *scene) shell(t *testing.T, text string, more []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	out, err := s.host(ctx, text, more).CombinedOutput()
	if ctx.Err() != nil {
		t.Errorf("a script of the host's does not end: %s\n%s", text, out)
	}
	return fmt.Sprintf("%s(%v)\n", out, err)
}

// must runs a script that makes the scene.
func (s *scene) must(t *testing.T, text string) {
	t.Helper()
	if text == "" {
		return
	}
	if out, err := s.host(t.Context(), "set -eu\n"+text, nil).CombinedOutput(); err != nil {
		t.Fatalf("cannot make the scene: %v\n%s", err, out)
	}
}

// door is a way for a script to get inside. It reports whether the script ran,
// and what Paddock printed for people, audit record included.
type door func(t *testing.T, s *scene, r later, script string) (ran bool, said string)

// ranMark is what a script prints at its end.
const ranMark = "the-attack-ran"

// enter runs the attack inside.
func (r later) enter(t *testing.T, s *scene) (ran bool, said string) {
	t.Helper()
	by := r.by
	if by == nil {
		by = byRun
	}
	ran, said = by(t, s, r, s.script(r.attack))
	return ran, said + s.planted(t, r)
}

// script is an attack as a shell inside takes it.
func (s *scene) script(attack string) string {
	var script strings.Builder
	for _, v := range s.variables() {
		if name, value, _ := strings.Cut(v, "="); name == "CANARY" || name == "WS" || name == "DIR" || strings.HasPrefix(name, "GIT_") {
			fmt.Fprintf(&script, "export %s='%s'\n", name, value)
		}
	}
	fmt.Fprintf(&script, "%s\n{ %s\n} >/dev/null 2>&1\necho %s\n", vocabulary, attack, ranMark)
	return script.String()
}

// planted are the names that the record of operations has as planted, or as
// changed, one a line.
func (s *scene) planted(t *testing.T, r later) string {
	t.Helper()
	var lines strings.Builder
	for line := range strings.Lines(s.shell(t, "paddock audit --raw 2>/dev/null", r.env)) {
		var record map[string]any
		if json.Unmarshal([]byte(line), &record) == nil && record["kind"] == "planted" {
			fmt.Fprintf(&lines, "paddock: on record: %s", line)
		}
	}
	return lines.String()
}

// paddock is the program as the scene's user starts it, in the workspace.
func (s *scene) paddock(ctx context.Context, env []string, args ...string) *exec.Cmd {
	program := s.program
	if program == "" {
		program = filepath.Join(binDir, "paddock")
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = s.ws
	cmd.Env = s.variables()
	for _, v := range env {
		cmd.Env = append(cmd.Env, s.expand(v))
	}
	return cmd
}

func (s *scene) flags(r later) []string {
	flags := make([]string, len(r.flags))
	for i, f := range r.flags {
		flags[i] = s.expand(f)
	}
	return flags
}

// byRun is "paddock run".
func byRun(t *testing.T, s *scene, r later, script string) (bool, string) {
	t.Helper()
	return s.start(t, r, script, "run")
}

// start starts a sandbox for one script.
func (s *scene) start(t *testing.T, r later, script string, words ...string) (bool, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	args := append(append(words, "-w", filepath.Join(s.ws, r.at)), s.flags(r)...)
	cmd := s.paddock(ctx, r.env, append(args, "--", "sh", "-c", script)...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	return strings.Contains(out.String(), ranMark), said.String()
}

// byOwn is the same with the program at a path of the workspace.
func byOwn(program string) door {
	return func(t *testing.T, s *scene, r later, script string) (bool, string) {
		t.Helper()
		own := *s
		own.program = filepath.Join(s.ws, program)
		return byRun(t, &own, r, script)
	}
}

// bySession is "paddock session".
func bySession(t *testing.T, s *scene, r later, script string) (bool, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	args := append([]string{"session", "--json", "-w", filepath.Join(s.ws, r.at)}, s.flags(r)...)
	cmd := s.paddock(ctx, r.env, args...)
	request, err := json.Marshal(map[string]string{"command": script})
	if err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(request, '\n')), &out, &said
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	return strings.Contains(out.String(), `"output":"`+ranMark), said.String()
}

// model is a client of "paddock mcp" over lines.
type model struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	said  bytes.Buffer
	calls int
	text  strings.Builder // of errors
}

func (s *scene) model(ctx context.Context, t *testing.T, r later) *model {
	t.Helper()
	if err := buildServer(); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"mcp", "--profile", "full", "--workspace", s.ws}, s.flags(r)...)
	m := &model{t: t, cmd: s.paddock(ctx, r.env, args...)}
	m.cmd.Stderr = &m.said
	var err error
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.lines = bufio.NewScanner(out)
	m.lines.Buffer(nil, 1<<24)
	m.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"model","version":"1"}}}`)
	m.answer(0)
	m.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return m
}

func (m *model) say(line string) {
	if _, err := io.WriteString(m.in, line+"\n"); err != nil {
		m.t.Fatalf("the server does not listen: %v: %s", err, &m.said)
	}
}

// answer is the result of a call, as text.
func (m *model) answer(id int) string {
	for m.lines.Scan() {
		var a struct {
			ID     *int
			Result json.RawMessage
			Error  json.RawMessage
		}
		if json.Unmarshal(m.lines.Bytes(), &a) == nil && a.ID != nil && *a.ID == id {
			return string(a.Result) + string(a.Error)
		}
	}
	m.t.Fatalf("the server ends without an answer: %v: %s", m.lines.Err(), &m.said)
	return ""
}

// call calls a tool. An error is kept as what Paddock said.
func (m *model) call(tool string, arguments map[string]any) string {
	m.calls++
	request, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": m.calls, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.say(string(request))
	answer := m.answer(m.calls)
	if strings.Contains(answer, `"isError":true`) {
		fmt.Fprintf(&m.text, "paddock refuses: %s\n", answer)
	}
	return answer
}

// end ends the server and gives all that it said to its operator.
func (m *model) end() string {
	_ = m.in.Close()
	if err := m.cmd.Wait(); err != nil {
		m.t.Errorf("the server ends with %v: %s", err, &m.said)
	}
	said := strings.TrimSpace(m.said.String())
	if said != "" {
		said = "paddock: " + strings.ReplaceAll(said, "\n", "\npaddock: ") + "\n"
	}
	return said + m.text.String()
}

// byTools has a model call tools one after the other. In their arguments
// {script} is the attack and {at} the workspace that is named.
func byTools(calls ...toolCall) door {
	return func(t *testing.T, s *scene, r later, script string) (ran bool, said string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		m := s.model(ctx, t, r)
		for _, c := range calls {
			arguments := map[string]any{}
			for name, value := range c.arguments {
				switch value {
				case "{script}":
					value = script
				case "{argv}":
					value = []string{"sh", "-c", script}
				case "{at}":
					value = filepath.Join(s.ws, r.at)
				}
				if list, ok := value.([]string); ok && len(list) == 1 {
					value = []string{s.expand(list[0])}
				}
				arguments[name] = value
			}
			answer := m.call(c.tool, arguments)
			ran = ran || strings.Contains(answer, ranMark+`\n`) || strings.Contains(answer, ranMark+`"`)
		}
		return ran, m.end()
	}
}

type toolCall struct {
	tool      string
	arguments map[string]any
}

// Ways of a model to name a workspace.
var (
	byModelRun     = byTools(toolCall{"run", map[string]any{"argv": "{argv}", "workspace": "{at}"}})
	byModelExec    = byTools(toolCall{"exec", map[string]any{"command": "{script}"}})
	byModelSession = byTools(toolCall{"session_open", map[string]any{"session_id": "s", "workspace": "{at}"}},
		toolCall{"session_run", map[string]any{"session_id": "s", "command": "{script}"}})
	byModelSandbox = byTools(toolCall{"sandbox_create", map[string]any{"name": "other", "workspace": "{at}"}},
		toolCall{"exec", map[string]any{"sandbox": "other", "command": "{script}"}},
		toolCall{"sandbox_delete", map[string]any{"sandbox": "other"}}) // it outlives the server
)

// byModelMount has a model ask for a writable mount.
func byModelMount(mount string) door {
	return byTools(toolCall{"run", map[string]any{"argv": "{argv}", "rw": []string{mount}}})
}

// byKilled is "paddock run", killed when the attack is done.
func byKilled(t *testing.T, s *scene, r later, script string) (bool, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := s.paddock(ctx, r.env, "run", "-w", s.ws, "--", "sh", "-c", script+"sleep 1000")
	return killedAfter(t, cmd, nil)
}

// byKilledSession is the same for a session.
func byKilledSession(t *testing.T, s *scene, r later, script string) (bool, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := json.Marshal(map[string]string{"command": script})
	if err != nil {
		t.Fatal(err)
	}
	return killedAfter(t, s.paddock(ctx, r.env, "session", "--json", "-w", s.ws), append(request, '\n'))
}

// byKilledModel is the same for a server.
func byKilledModel(t *testing.T, s *scene, r later, script string) (bool, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m := s.model(ctx, t, r)
	ran := strings.Contains(m.call("exec", map[string]any{"command": script}), ranMark)
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
	return ran, m.said.String()
}

// killedAfter kills a program when it has printed the mark.
func killedAfter(t *testing.T, cmd *exec.Cmd, input []byte) (bool, string) {
	t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write(input); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	ran := false
	for !ran && lines.Scan() {
		ran = strings.Contains(lines.Text(), ranMark)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return ran, said.String()
}
