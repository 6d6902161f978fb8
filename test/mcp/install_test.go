//go:build linux

package mcp

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// install runs paddock mcp install in a directory, and returns what it said. The
// home is beside the directory ([homeOf]).
func install(t *testing.T, dir string, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	return setUp(t, dir, status, append([]string{"install"}, args...)...)
}

func homeOf(dir string) string { return dir + "-home" }

// setUp runs a subcommand of paddock mcp likewise.
func setUp(t *testing.T, dir string, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "paddock"), append([]string{"mcp"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+homeOf(dir), "CODEX_HOME=", "CLAUDE_CONFIG_DIR=", "PADDOCK_STATE_DIR="+filepath.Join(filepath.Dir(t.TempDir()), "state")) // one for the test
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	got, exit := 0, (*exec.ExitError)(nil)
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if got != status {
		t.Fatalf("%v: status %d, want %d\n%s%s", args, got, status, &out, &errs)
	}
	return out.String(), errs.String()
}

// TestInstalled starts the server as the file that was written says.
func TestInstalled(t *testing.T) {
	boxtest.RequireWalls(t)
	dir := publicDir(t)
	for _, want := range []string{"wrote the server paddock into ", "has the server paddock already"} {
		if out, _ := install(t, dir, 0, "--client", "claude-code", "--scope", "project", "--workspace", dir, "--profile", "run"); !strings.Contains(out, want) {
			t.Errorf("it says %s, want %s", out, want)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, ".mcp.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(file.Servers["paddock"].Command, file.Servers["paddock"].Args...)
	cmd.Dir, cmd.Env = dir, setup{state: t.TempDir()}.env()
	session, err := newClient(clientOptions).Connect(t.Context(), &sdk.CommandTransport{Command: cmd, TerminateDuration: patience}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{session: session, log: &notes{}}
	got := c.call(t, "run", map[string]any{"argv": []string{"ls", "-A"}})
	if !strings.Contains(textOf(c.try(t, "run", map[string]any{"argv": []string{"ls", "-A"}})), ".mcp.json") {
		t.Errorf("another workspace: %v", got)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

// TestInstallSays is what it prints, and what it refuses.
func TestInstallSays(t *testing.T) {
	dir := t.TempDir()
	paddock := filepath.Join(binDir, "paddock")
	if err := os.WriteFile(filepath.Join(dir, "odd.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args           []string
		status         int
		stdout, stderr string
	}{
		"claude-code":     {[]string{"--client", "claude-code", "--scope", "project", "--print"}, 0, `{"mcpServers":{"paddock":{"command":"` + paddock + `","args":["mcp"]}}}`, "this belongs into " + dir + "/.mcp.json"},
		"its user's":      {[]string{"--client", "claude-code", "--scope", "user"}, 0, "claudemcpadd--scopeuserpaddock--" + paddock + "mcp", "run this"},
		"codex":           {[]string{"--client", "codex", "--print", "--scope", "user", "--workspace", dir}, 0, `[mcp_servers.paddock]command="` + paddock + `"args=["mcp","--workspace","` + dir + `"]`, homeOf(dir) + "/.codex/config.toml"},
		"cursor":          {[]string{"--client", "cursor", "--print"}, 0, `{"mcpServers":{"paddock":{"command":"` + paddock + `","args":["mcp","--workspace","${workspaceFolder}"]}}}`, dir + "/.cursor/mcp.json"},
		"gemini":          {[]string{"--client", "gemini", "--scope", "project", "--print", "--workspace", dir}, 0, `{"mcpServers":{"paddock":{"command":"` + paddock + `","args":["mcp"]}}}`, dir + "/.gemini/settings.json"},
		"vscode":          {[]string{"--client", "vscode", "--print", "--name", "box"}, 0, `{"servers":{"box":{"type":"stdio","command":"` + paddock + `","args":["mcp","--workspace","${workspaceFolder}"]}}}`, ".vscode/mcp.json"},
		"another program": {[]string{"--client", "codex", "--scope", "project", "--print", "--command", "paddock", "--profile", "full"}, 0, `[mcp_servers.paddock]command="paddock"args=["mcp","--profile","full"]`, ""},
		"any other":       {[]string{"--print"}, 0, `{"mcpServers":{"paddock":{"command":"` + paddock + `","args":["mcp"]}}}`, paddock + " mcp"},
		"one by its name": {[]string{"--client", "zed", "--print"}, 0, `{"mcpServers":{"paddock":{"command":"` + paddock + `","args":["mcp"]}}}`, paddock + " mcp"},
		"no client":       {nil, 125, "", "it is missing"},
		"another client":  {[]string{"--client", "vi"}, 125, "", "claude-code, codex, cursor, gemini or vscode"},
		"another scope":   {[]string{"--client", "codex", "--scope", "all"}, 125, "", "local or project or user"},
		"no profile":      {[]string{"--client", "codex", "--profile", "all"}, 125, "", "unknown profile"},
		"no directory":    {[]string{"--client", "codex", "--workspace", "odd.json"}, 125, "", "it is not a directory"},
		"no name":         {[]string{"--client", "codex", "--name", "a.b"}, 125, "", "--name"},
		"a chosen name":   {[]string{"--client", "codex", "--name", "box"}, 125, "", "clients approve by the name of a server"},
		"no file for it":  {[]string{"--client", "cursor", "--exclusive", "--print"}, 125, "", "cursor has no file for that"},
		"an argument":     {[]string{"codex"}, 125, "", "there is no such command"},
	} {
		t.Run(name, func(t *testing.T) {
			out, said := install(t, dir, tt.status, tt.args...)
			if strings.Join(strings.Fields(out), "") != strings.ReplaceAll(tt.stdout, " ", "") || !strings.Contains(said, tt.stderr) {
				t.Errorf("%s\n%s\nwant %s\n%s", out, said, tt.stdout, tt.stderr)
			}
		})
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("something was written: %v", entries)
	}
}

// TestInstallLeavesAlone: what is another's, or cannot be read, stays, and what to
// add is printed.
func TestInstallLeavesAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ".mcp.json")
	for name, tt := range map[string]struct {
		text, stdout, stderr string
	}{
		"another server": {`{"mcpServers": {"paddock": {"command": "other"}}}`, "", "another server has this name"},
		"no JSON":        {`{"mcpServers": {`, `"mcpServers"`, "cannot edit " + path + " safely: line 1"},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, said := install(t, dir, 125, "--client", "claude-code", "--scope", "project")
		if !strings.Contains(out, tt.stdout) || !strings.Contains(said, tt.stderr) || !strings.Contains(said, "paddock: hint: ") {
			t.Errorf("%s: %s\n%s", name, out, said)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != tt.text {
			t.Errorf("%s: %s, %v", name, data, err)
		}
	}
}

// TestInstallOverLinkedWorkspace: a workspace behind a link that commands of a sandbox
// made is not approved under the name to which the link leads.
func TestInstallOverLinkedWorkspace(t *testing.T) {
	boxtest.RequireWalls(t)
	for _, planted := range []bool{true, false} {
		dir, elsewhere, home := publicDir(t), publicDir(t), t.TempDir()
		link := exec.CommandContext(t.Context(), "ln", "-s", elsewhere, "sub")
		if planted {
			link = exec.CommandContext(t.Context(), filepath.Join(binDir, "paddock"), "run", "--", "ln", "-s", elsewhere, "sub")
		}
		env := append(os.Environ(), "PADDOCK_STATE_DIR="+filepath.Join(t.TempDir(), "state"), "HOME="+home, "CODEX_HOME=")
		link.Dir, link.Env = dir, env
		if out, err := link.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "paddock"), "mcp", "install", "--client", "codex", "--workspace", "sub")
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		written := tree(t, home)[".codex/config.toml"]
		switch {
		case planted && (err == nil || written != "" || !strings.Contains(string(out), "commands of a sandbox could have made it")):
			t.Errorf("over a link of commands: %v\n%s\n%s", err, out, written)
		case !planted && (err != nil || !strings.Contains(written, `"`+elsewhere+`"`)):
			t.Errorf("over the user's own link: %v\n%s\n%s", err, out, written)
		}
	}
}

// tree are the files below a directory, with what they hold.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir+"/")] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestInstallApproves: the approval is written into files of the user's, for a name
// that nobody can know, not where the server may do more, and all of it can be
// taken back.
func TestInstallApproves(t *testing.T) {
	was := map[string]string{
		"project-home/.codex/config.toml":    "# mine\nmodel = \"x\"\n",
		"project-home/.claude.json":          "{\n  \"numStartups\": 7,\n  \"projects\": {\n    \"/elsewhere\": {}\n  }\n}\n",
		"project-home/.gemini/settings.json": "{\n  // mine\n  \"mcpServers\": {\n    \"git\": {\"command\": \"uvx\", \"trust\": false}\n  }\n}\n",
		"project-home/.claude/settings.json": "{\n  \"permissions\": {\n    \"allow\": [\"WebSearch\"]\n  }\n}\n",
	}
	for client, tt := range map[string]struct{ server, approval, mark string }{
		"codex":       {"project-home/.codex/config.toml", "project-home/.codex/config.toml", `default_tools_approval_mode = "approve"`},
		"gemini":      {"project-home/.gemini/settings.json", "project-home/.gemini/settings.json", `"trust": true`},
		"claude-code": {"project-home/.claude.json", "project-home/.claude/settings.json", `"mcp__paddock_`},
	} {
		t.Run(client, func(t *testing.T) {
			base, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			project := filepath.Join(base, "project")
			for name, text := range was {
				path := filepath.Join(base, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(project, 0o755); err != nil {
				t.Fatal(err)
			}
			names, last := map[string]bool{}, ""
			for i, more := range [][]string{nil, {"--exclusive"}, {"--ask"}, nil, {"--profile", "full"}, nil, {"--profile", "run"}} {
				out, _ := install(t, project, 0, append([]string{"--client", client}, more...)...)
				files := tree(t, base)
				approved := strings.Contains(files[tt.approval], tt.mark)
				if want := i < 2 || i == 3 || i == 5; approved != want || strings.Contains(out, "DELETE any file") != want || strings.Contains(out, "not approved: ") == want {
					t.Errorf("%v: approved %v\n%s\n%s", more, approved, out, files[tt.approval])
				}
				name := regexp.MustCompile(`paddock_[a-z2-7]{10}`).FindString(files[tt.server])
				// A server that may do more has another name: the client has rules for the old one.
				if renamed := i != 1 && i != 3 && i != 5; name == "" || (name != last) != renamed || renamed && names[name] || strings.Count(files[tt.server], `"--project"`) != 1 {
					t.Errorf("%v: %s after %s, of %v\n%s", more, name, last, names, files[tt.server])
				}
				last, names[name] = name, true
			}
			if _, there := tree(t, base)["project/.mcp.json"]; there {
				t.Error("something is for everybody")
			}
			setUp(t, project, 0, "uninstall", "--client", client)
			if diff := cmp.Diff(was, tree(t, base)); diff != "" {
				t.Errorf("what is left (-want +got)\n%s", diff)
			}
			if out, _ := setUp(t, project, 0, "uninstall", "--client", client); !strings.Contains(out, "nothing of paddock's is in ") {
				t.Errorf("once more: %s", out)
			}
		})
	}
}

// TestApprovedHasNoNetwork: tools are approved for a sandbox without a network, and a project's file
// that the user trusts before or after does not change that. Where the client asks, it counts.
func TestApprovedHasNoNetwork(t *testing.T) {
	boxtest.RequireWalls(t)
	dir := publicDir(t)
	s := setup{workspace: dir, state: t.TempDir()}
	if err := os.WriteFile(filepath.Join(dir, ".paddock.yaml"), []byte("network: host\nhostname: pen\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.paddock(t, "trust", "--yes", dir)
	for _, tt := range []struct {
		flags []string
		want  string
	}{
		{nil, "none"},
		{[]string{"--network", "none"}, "none"},
		{[]string{"--ask"}, "host"},
		{[]string{"--network", "host"}, "host"},
	} {
		install(t, dir, 0, append([]string{"--client", "claude-code"}, tt.flags...)...)
		data, err := os.ReadFile(filepath.Join(homeOf(dir), ".claude.json"))
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Projects map[string]struct {
				Servers map[string]struct{ Args []string } `json:"mcpServers"`
			}
		}
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatal(err)
		}
		for _, server := range file.Projects[dir].Servers {
			s.workspace, s.flags = "", append(server.Args[1:], "--structured")
			cmd := exec.Command(filepath.Join(binDir, "paddock"), append([]string{"mcp"}, s.flags...)...)
			cmd.Dir, cmd.Env = dir, s.env()
			session, err := newClient(clientOptions).Connect(t.Context(), &sdk.CommandTransport{Command: cmd, TerminateDuration: patience}, nil)
			if err != nil {
				t.Fatal(err)
			}
			c := &client{session: session, log: &notes{}}
			got := textOf(c.try(t, "exec", map[string]any{"command": "hostname"}))
			if !strings.Contains(got, "network "+tt.want) || !strings.Contains(got, "pen") {
				t.Errorf("%v: %q", tt.flags, got)
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
		}
		if len(file.Projects[dir].Servers) != 1 {
			t.Errorf("%v: %s", tt.flags, data)
		}
	}
}

// TestInstallForTeams: a file that a team commits has no path of this machine where
// the program is in PATH.
func TestInstallForTeams(t *testing.T) {
	t.Setenv("PATH", binDir+":"+os.Getenv("PATH"))
	for client, file := range map[string]string{"claude-code": ".mcp.json", "codex": ".codex/config.toml", "cursor": ".cursor/mcp.json", "gemini": ".gemini/settings.json", "vscode": ".vscode/mcp.json"} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		install(t, dir, 0, "--client", client, "--scope", "project", "--workspace", filepath.Join(dir, "sub"))
		if text := tree(t, dir)[file]; !strings.Contains(text, `"paddock"`) || strings.Contains(text, `"/`) {
			t.Errorf("%s: %s", client, text)
		}
		setUp(t, dir, 0, "uninstall", "--client", client)
		if left := tree(t, dir); len(left) > 0 {
			t.Errorf("%s left %v", client, left)
		}
	}
	// Through a link of the project commands could put another program there.
	dir := t.TempDir()
	if err := os.Symlink(binDir, filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	install(t, dir, 0, "--client", "claude-code", "--scope", "project")
	if text := tree(t, dir)[".mcp.json"]; !strings.Contains(text, `"`+filepath.Join(binDir, "paddock")+`"`) {
		t.Errorf("PATH leads into the project: %s", text)
	}
}

// TestInstallHandsOn: flags of the sandbox become the server's, and those with which
// models may do more than work in the workspace are not approved.
func TestInstallHandsOn(t *testing.T) {
	for name, tt := range map[string]struct {
		args     []string
		written  string
		approved bool
	}{
		"limits":    {[]string{"--memory", "1GiB", "--env", "A=b c"}, `"--memory=1GiB", "--env=A=b c", "--network=none"]`, true},
		"to read":   {[]string{"--ro", "data:/data", "--ro", "~/x"}, `data:/data", "--ro=~/x", "--network=none"]`, true},
		"none":      {[]string{"--network", "none"}, `"--network=none"]`, true},
		"a network": {[]string{"--network", "host"}, `"--network=host"]`, false},
		"to write":  {[]string{"--rw", "/tmp"}, `"--rw=/tmp"]`, false},
		"a hook":    {[]string{"--unprotect", ".git/hooks"}, `"--unprotect=.git/hooks"]`, false},
		"a home":    {[]string{"--workspace", ".."}, `"]`, false},
		"a program": {[]string{"--command", "./bin/paddock"}, `"mcp", "--project"`, false},
		"no walls":  {[]string{"--backend", "host"}, `"--backend=host"]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			out, _ := install(t, dir, 0, append([]string{"--client", "codex"}, tt.args...)...)
			text := tree(t, homeOf(dir))[".codex/config.toml"]
			reads := strings.Contains(out, "may also read this unasked, and what they read goes to their provider: --ro "+dir+"/data:/data\n")
			if !strings.Contains(text, tt.written) || strings.Contains(text, "approve") != tt.approved || strings.Contains(out, "not approved: ") == tt.approved || reads != (name == "to read") {
				t.Errorf("%s\n%s", text, out)
			}
		})
	}
}

// TestSandboxFlags: the flags of run say what the sandbox of models is, over a spec,
// and a hint names one of these for what is refused.
func TestSandboxFlags(t *testing.T) {
	boxtest.RequireWalls(t)
	dir, data := publicDir(t), publicDir(t)
	spec := filepath.Join(t.TempDir(), "spec.yaml")
	if err := errors.Join(os.WriteFile(filepath.Join(data, "x"), []byte("here\n"), 0o644), os.WriteFile(spec, []byte("env: {B: spec, A: spec}\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(binDir, "paddock"), "mcp", "--workspace", dir, "--spec", spec, "--ro", data+":/data", "--env", "A=flag", "--env-pass", "PASSED")
	cmd.Dir, cmd.Env = dir, append(setup{state: t.TempDir()}.env(), "PASSED=on")
	session, err := newClient(clientOptions).Connect(t.Context(), &sdk.CommandTransport{Command: cmd, TerminateDuration: patience}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{session: session, log: &notes{}}
	said := textOf(c.try(t, "exec", map[string]any{"command": "cat /data/x; echo $A $B $PASSED; touch /data/y"}))
	for _, want := range []string{"here\nflag spec on\n", "the operator's paddock mcp --rw"} {
		if !strings.Contains(said, want) {
			t.Errorf("want %q in\n%s", want, said)
		}
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

// TestProjectAlone: a client that was started outside of the project is offered nothing.
func TestProjectAlone(t *testing.T) {
	boxtest.RequireWalls(t)
	dir := publicDir(t)
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]bool{dir: true, filepath.Join(dir, "sub"): true, t.TempDir(): false} {
		cmd := exec.Command(filepath.Join(binDir, "paddock"), "mcp", "--project", dir)
		cmd.Dir, cmd.Env = from, setup{state: t.TempDir()}.env()
		session, err := newClient(clientOptions).Connect(t.Context(), &sdk.CommandTransport{Command: cmd, TerminateDuration: patience}, nil)
		if err != nil {
			t.Fatal(err)
		}
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) > 0 != want {
			t.Errorf("from %s: %d tools, %v", from, len(tools.Tools), err)
		}
		if said := session.InitializeResult().Instructions; strings.Contains(said, "alone, and offers no tools here") == want {
			t.Errorf("from %s it says: %s", from, said)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestInstallOverLinks: a link that commands of a sandbox made leads the installation
// nowhere; one of the user's own does.
func TestInstallOverLinks(t *testing.T) {
	boxtest.RequireWalls(t)
	for name, tt := range map[string]struct {
		client, scope string
		plant         string // by whoever makes the link
		kept          string // where it leads
	}{
		"a directory of the project":    {"vscode", "project", "ln -s notes .vscode", "notes/mcp.json"},
		"a file of the project":         {"claude-code", "project", "ln -s notes/x.json .mcp.json", "notes/x.json"},
		"this project's, in a home":     {"claude-code", "local", "ln -s notes/x.json .claude.json", "notes/x.json"},
		"the user's, kept in a project": {"codex", "user", "mkdir -p home; ln -s ../notes home/.codex", "notes/config.toml"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, planted := range []bool{true, false} {
				dir := publicDir(t)
				if err := os.Mkdir(filepath.Join(dir, "notes"), 0o755); err != nil {
					t.Fatal(err)
				}
				link := exec.CommandContext(t.Context(), "sh", "-c", tt.plant)
				if planted {
					link = exec.CommandContext(t.Context(), filepath.Join(binDir, "paddock"), "run", "--", "sh", "-c", tt.plant)
				}
				env := append(os.Environ(), "PADDOCK_STATE_DIR="+filepath.Join(t.TempDir(), "state"))
				link.Dir, link.Env = dir, env
				if out, err := link.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "paddock"), "mcp", "install", "--client", tt.client, "--scope", tt.scope)
				cmd.Dir, cmd.Env = dir, append(env, "HOME="+filepath.Join(dir, "home"), "CODEX_HOME=", "CLAUDE_CONFIG_DIR=")
				if tt.scope == "local" { // the configuration is kept in what is a workspace now and then
					cmd.Env = append(cmd.Env, "HOME="+t.TempDir(), "CLAUDE_CONFIG_DIR="+dir)
				}
				out, err := cmd.CombinedOutput()
				_, missing := os.Stat(filepath.Join(dir, tt.kept))
				switch {
				case planted && (err == nil || missing == nil || !strings.Contains(string(out), "commands of a sandbox could have made it") || !strings.Contains(string(out), "hint: remove the link")):
					t.Errorf("over a link of commands: %v, %v\n%s", err, missing, out)
				case !planted && tt.scope == "project" && tt.client == "claude-code": // a file that is a link is left alone in projects
				case !planted && (err != nil || missing != nil):
					t.Errorf("over the user's own link: %v, %v\n%s", err, missing, out)
				}
			}
		})
	}
}
