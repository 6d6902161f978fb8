//go:build linux

package mcp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// full is a server with all tools over an empty workspace, and with these flags.
func full(t *testing.T, flags ...string) setup {
	t.Helper()
	boxtest.RequireWalls(t)
	s := plain(t)
	s.profile, s.flags = "full", flags
	return s
}

// startMortal starts a server that the test ends, by a signal or by closing its input.
func startMortal(t *testing.T, s setup) (c *client, kill func()) {
	t.Helper()
	cmd := s.command()
	log := &notes{}
	cmd.Stderr = log
	session, err := newClient(clientOptions).Connect(t.Context(), &sdk.CommandTransport{Command: cmd, TerminateDuration: patience}, nil)
	if err != nil {
		t.Fatalf("cannot connect: %v\n%s", err, log)
	}
	kill = func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // it may have ended
		_ = session.Close()
	}
	t.Cleanup(kill)
	return &client{session: session, pid: cmd.Process.Pid, log: log}, kill
}

// sandboxes are those that sandbox_list has, by name.
func (c *client) sandboxes(t *testing.T) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, one := range c.call(t, "sandbox_list", nil)["sandboxes"].([]any) {
		s := one.(map[string]any)
		all[fmt.Sprint(s["name"])] = s
	}
	return all
}

// TestServerKilled: the next server of the same principal finds a sandbox with all that runs
// in it, however the first one has ended.
func TestServerKilled(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *client, func()){
		"killed": func(_ *testing.T, _ *client, kill func()) { kill() },
		"closed": func(t *testing.T, c *client, _ func()) { c.end(t) },
	} {
		t.Run(name, func(t *testing.T) {
			s := full(t)
			c, kill := startMortal(t, s)
			made := c.call(t, "sandbox_create", map[string]any{"name": "box"})
			if made["lasting"] != true || made["idle"] != "1h0m0s" {
				t.Errorf("it is made as %v", made)
			}
			box := func(more map[string]any) map[string]any { more["sandbox"] = "box"; return more }
			c.call(t, "exec", box(map[string]any{"command": "echo kept >/tmp/inside"}))
			job := c.call(t, "exec", box(map[string]any{"command": "echo begun; mkfifo /tmp/wait; read x </tmp/wait; echo got $x; sleep 1000", "background": true}))["exec"]
			begun := c.call(t, "output_read", map[string]any{"output": job, "wait": "1m"})
			c.call(t, "shell_open", box(map[string]any{"shell_id": "sh", "command": "x=of-the-shell"}))
			c.call(t, "session_open", box(map[string]any{"session_id": "se", "command_timeout": "77s"}))
			c.call(t, "session_run", map[string]any{"session_id": "se", "command": "y=of-the-session"})
			c.call(t, "service_start", box(map[string]any{"name": "web", "command": "echo served; exec sleep 1000"}))
			end(t, c, kill)

			c = startStdio(t, s)
			if got := c.sandboxes(t)["box"]; got["state"] != "running" || got["id"] != made["id"] {
				t.Errorf("it is listed as %v", got)
			}
			if got := c.call(t, "exec", box(map[string]any{"command": "cat /tmp/inside"})); got["stdout"] != "kept\n" {
				t.Errorf("its files: %v", got)
			}
			if got := fmt.Sprint(c.call(t, "shell_list", box(map[string]any{}))); !strings.Contains(got, "shell_id:sh") {
				t.Errorf("its shells: %v", got)
			}
			got := c.call(t, "shell_write", box(map[string]any{"shell_id": "sh", "text": "echo \"<$x>\"", "enter": true, "wait_for": "<of-the-shell>"}))
			if got["found"] != true {
				t.Errorf("its shell: %v", got)
			}
			if got := fmt.Sprint(c.call(t, "session_list", nil)); !strings.Contains(got, "session_id:se") || !strings.Contains(got, "sandbox:box") {
				t.Errorf("its sessions: %v", got)
			}
			if got := c.call(t, "session_run", map[string]any{"session_id": "se", "command": "echo $y"}); got["stdout"] != "of-the-session\n" {
				t.Errorf("its session: %v", got)
			}
			if got := c.call(t, "service_status", box(map[string]any{"name": "web"})); got["state"] != "running" {
				t.Errorf("its service: %v", got)
			}
			if got := c.call(t, "sandbox_status", box(map[string]any{})); got["shells"] != 1.0 || got["services"] != 1.0 || got["sessions"] != 1.0 {
				t.Errorf("its status: %v", got)
			}
			c.call(t, "exec", box(map[string]any{"command": "echo more >/tmp/wait"}))
			if got := c.call(t, "output_read", map[string]any{"output": job, "cursor": begun["next_cursor"], "wait": "1m"}); got["text"] != "got more\n" {
				t.Errorf("what its command printed: %v", got)
			}
			if got := fmt.Sprint(c.call(t, "sandbox_status", box(map[string]any{}))["execs"]); !strings.Contains(got, fmt.Sprint(job)) {
				t.Errorf("its commands: %v", got)
			}
			if got := c.call(t, "exec_kill", map[string]any{"exec": job}); got["killed"] != true || got["death_proved"] != true {
				t.Errorf("the end of its command: %v", got)
			}
			if got := c.call(t, "sandbox_delete", box(map[string]any{})); got["death_proved"] != true {
				t.Errorf("its end: %v", got)
			}
			if got := c.sandboxes(t); len(got) != 0 {
				t.Errorf("after its end there are %v", got)
			}
			if said := c.refused(t, "exec", box(map[string]any{"command": "true"})); !strings.Contains(said, `cannot find sandbox "box"`) {
				t.Errorf("it is used after its end: %s", said)
			}
		})
	}
}

// TestSandboxOfTwoServers lets two servers use one sandbox, and one of them delete it.
func TestSandboxOfTwoServers(t *testing.T) {
	s := full(t)
	a, b := startStdio(t, s), startStdio(t, s)
	a.call(t, "sandbox_create", map[string]any{"name": "box"})
	if said := b.refused(t, "sandbox_create", map[string]any{"name": "box"}); !strings.Contains(said, "the name is taken") {
		t.Errorf("the name again: %s", said)
	}
	b.call(t, "exec", map[string]any{"sandbox": "box", "command": "echo of-b >/tmp/x"})
	if got := a.call(t, "exec", map[string]any{"sandbox": "box", "command": "cat /tmp/x"}); got["stdout"] != "of-b\n" {
		t.Errorf("%v", got)
	}
	b.call(t, "sandbox_delete", map[string]any{"sandbox": "box"})
	if said := a.refused(t, "exec", map[string]any{"sandbox": "box", "command": "true"}); !strings.Contains(said, "has ended") {
		t.Errorf("one that the other has deleted: %s", said)
	}
	if got := a.sandboxes(t); len(got) != 0 {
		t.Errorf("there are %v", got)
	}
	first := a.call(t, "sandbox_create", map[string]any{"name": "box"})
	if got := b.call(t, "sandbox_status", map[string]any{"sandbox": "box"}); got["id"] != first["id"] {
		t.Errorf("the next of that name: %v", got)
	}
}

// TestSandboxOfAnother: neither the command line's sandboxes nor another principal's are found,
// and both may have the same names.
func TestSandboxOfAnother(t *testing.T) {
	s := full(t)
	s.paddock(t, "create", "box", "-w", s.workspace)
	c := startStdio(t, s)
	mine := c.call(t, "sandbox_create", map[string]any{"name": "box"})
	id := strings.Fields(s.paddock(t, "list", "--quiet", "--filter", "name=box"))
	if len(id) != 2 {
		t.Fatalf("the command line lists %v", id)
	}
	for _, one := range id {
		if one != mine["id"] {
			if said := c.refused(t, "exec", map[string]any{"sandbox": one, "command": "true"}); !strings.Contains(said, "cannot find sandbox") {
				t.Errorf("one of the command line: %s", said)
			}
			if said := c.refused(t, "sandbox_delete", map[string]any{"sandbox": one}); !strings.Contains(said, "cannot find sandbox") {
				t.Errorf("one of the command line: %s", said)
			}
		}
	}
	if told := s.paddock(t, "list"); !strings.Contains(told, "box of "+localPrincipal(t)) {
		t.Errorf("the command line lists\n%s", told)
	}
	s.paddock(t, "stop", fmt.Sprint(mine["id"]))
	if got := c.sandboxes(t)["box"]; got["state"] != "stopped" {
		t.Errorf("a stopped one is listed as %v", got)
	}
	if said := c.refused(t, "exec", map[string]any{"sandbox": "box", "command": "true"}); !strings.Contains(said, "it is stopped: paddock stop ended it") || !strings.Contains(said, "sandbox_delete") {
		t.Errorf("a stopped one: %s", said)
	}
	c.call(t, "sandbox_delete", map[string]any{"sandbox": "box"})
	s.paddock(t, "exec", "box", "--", "true") // the command line's
}

// TestSandboxUnderAnotherCeiling: what a sandbox was made with has to be allowed when the next
// server uses it; else it can only be deleted.
func TestSandboxUnderAnotherCeiling(t *testing.T) {
	extra := publicDir(t)
	spec := filepath.Join(t.TempDir(), "spec.yaml")
	rules := []byte("commands: {allow: [ls, cat]}\n")
	if err := os.WriteFile(spec, rules, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		before, after []string
		with          map[string]any
		want          string // empty: it can be used
	}{
		"the same":              {before: []string{"--allow", "*.example.com", "--redact", "email"}, after: []string{"--allow", "*.example.com", "--redact", "email"}, with: map[string]any{"allow": []string{"a.example.com"}}},
		"a wider one":           {before: []string{"--open-files", "512"}, after: []string{"--open-files", "512", "--ro", extra}},
		"fewer files":           {before: []string{"--open-files", "512"}, after: []string{"--open-files", "256"}, want: "limits.open_files"},
		"a mount less":          {before: []string{"--ro", extra}, want: "mounts"},
		"no network":            {before: []string{"--allow", "*.example.com"}, with: map[string]any{"allow": []string{"a.example.com"}}, want: "network"},
		"a time limit":          {after: []string{"--timeout", "5s"}, want: "limits"},
		"something to redact":   {after: []string{"--redact", "email"}, want: "redaction"},
		"rules for commands":    {after: []string{"--spec", spec}, want: "rules for commands"},
		"no rules for commands": {before: []string{"--spec", spec}, want: "rules for commands"},
	} {
		t.Run(name, func(t *testing.T) {
			s := full(t, tt.before...)
			c, kill := startMortal(t, s)
			with := map[string]any{"name": "box"}
			for key, value := range tt.with {
				with[key] = value
			}
			c.call(t, "sandbox_create", with)
			kill()
			s.flags = tt.after
			c = startStdio(t, s)
			if got := c.sandboxes(t)["box"]; got["state"] != "running" {
				t.Errorf("it is listed as %v", got)
			}
			if tt.want == "" {
				c.call(t, "exec", map[string]any{"sandbox": "box", "command": "true"})
			} else if said := c.refused(t, "file_list", map[string]any{"sandbox": "box", "path": "."}); !strings.Contains(said, tt.want) || !strings.Contains(said, "sandbox_delete removes it") {
				t.Errorf("it is refused with: %s", said)
			}
			if got := c.call(t, "sandbox_delete", map[string]any{"sandbox": "box"}); got["death_proved"] != true {
				t.Errorf("its end: %v", got)
			}
		})
	}
}

// TestRulesAddedBefore: rules of the network that a sandbox got while it ran count too.
func TestRulesAddedBefore(t *testing.T) {
	s := full(t, "--allow", "example.com:80,443")
	c, kill := startMortal(t, s)
	c.call(t, "sandbox_create", map[string]any{"name": "box", "allow": []string{"example.com:443"}})
	c.call(t, "network_add", map[string]any{"sandbox": "box", "allow": []string{"example.com:80"}})
	kill()
	s.flags = []string{"--allow", "example.com:443"}
	c = startStdio(t, s)
	if said := c.refused(t, "exec", map[string]any{"sandbox": "box", "command": "true"}); !strings.Contains(said, "example.com:80") {
		t.Errorf("it is refused with: %s", said)
	}
}

// TestSandboxesBounded: a principal has no more than 16, however many servers it uses.
func TestSandboxesBounded(t *testing.T) {
	s := full(t)
	for i := range 4 {
		c, kill := startMortal(t, s)
		for j := range 4 {
			c.call(t, "sandbox_create", map[string]any{"name": fmt.Sprintf("box%d", 4*i+j)})
		}
		kill()
	}
	c := startStdio(t, s)
	if said := c.refused(t, "sandbox_create", nil); !strings.Contains(said, "too many are open") {
		t.Errorf("the 17th: %s", said)
	}
	if got := c.sandboxes(t); len(got) != 16 {
		t.Errorf("%d are listed", len(got))
	}
	c.call(t, "sandbox_delete", map[string]any{"sandbox": "box0"})
	c.call(t, "sandbox_create", nil)
}

// TestPlantedAtDelete: what commands have left is told, recorded and logged when a sandbox is
// deleted that another server has made.
func TestPlantedAtDelete(t *testing.T) {
	s := full(t)
	c, kill := startMortal(t, s)
	c.call(t, "sandbox_create", map[string]any{"name": "box"})
	c.call(t, "exec", map[string]any{"sandbox": "box", "command": "mkdir -p .git/hooks; echo x >.git/hooks/post-checkout"})
	kill()
	c = startStdio(t, s)
	got := c.call(t, "sandbox_delete", map[string]any{"sandbox": "box"})
	if !strings.Contains(fmt.Sprint(got["planted"]), ".git/hooks") {
		t.Errorf("it is told %v", got)
	}
	testkit.Eventually(t, "the operator is told", func() bool { return strings.Contains(c.log.String(), ".git/hooks") })
	if log := s.paddock(t, "audit", "--json"); !strings.Contains(log, `"kind":"planted"`) || !strings.Contains(log, localPrincipal(t)) {
		t.Errorf("it is recorded as %s", log)
	}
}

// TestDiscardedAtDelete: changes of an overlay that end with its sandbox are counted, whether it still
// ran or its operator has stopped it.
func TestDiscardedAtDelete(t *testing.T) {
	s := full(t)
	c := startStdio(t, s)
	for _, stopped := range []bool{false, true} {
		made := c.call(t, "sandbox_create", map[string]any{"name": "box", "workspace_mode": "overlay"})
		c.call(t, "exec", map[string]any{"sandbox": "box", "command": "echo x >one; echo y >two"})
		if stopped {
			s.paddock(t, "stop", fmt.Sprint(made["id"]))
		}
		if got := c.call(t, "sandbox_delete", map[string]any{"sandbox": "box"}); got["discarded"] != 2.0 {
			t.Errorf("stopped before: %t; it is told %v", stopped, got)
		}
	}
}

// TestSandboxesOfTokens: over HTTP each principal finds its own after a restart, a workspace that
// was made for a sandbox ends with it, and a principal without a token has none any more.
func TestSandboxesOfTokens(t *testing.T) {
	s := full(t)
	dirs := []string{publicDir(t), publicDir(t)}
	tokens := []string{s.token(t, "agent:ann", dirs[0]), s.token(t, "agent:ben", dirs[1])}
	t.Run("before", func(t *testing.T) {
		h := startHTTP(t, s)
		for i, token := range tokens {
			c := h.connect(t, token)
			c.call(t, "sandbox_create", map[string]any{"name": "box"})
			c.call(t, "exec", map[string]any{"sandbox": "box", "command": fmt.Sprintf("echo of-%d >/tmp/mine", i)})
		}
	})
	h := startHTTP(t, s)
	var ids []string
	for i, token := range tokens {
		c := h.connect(t, token)
		if got := c.call(t, "exec", map[string]any{"sandbox": "box", "command": "cat /tmp/mine"}); got["stdout"] != fmt.Sprintf("of-%d\n", i) {
			t.Errorf("principal %d finds %v", i, got)
		}
		got := c.sandboxes(t)
		if len(got) != 1 {
			t.Errorf("principal %d lists %v", i, got)
		}
		ids = append(ids, fmt.Sprint(got["box"]["id"]))
	}
	ben := h.connect(t, tokens[1])
	for _, tool := range []string{"sandbox_delete", "sandbox_status"} {
		if said := ben.refused(t, tool, map[string]any{"sandbox": ids[0]}); !strings.Contains(said, "cannot find sandbox") {
			t.Errorf("%s of another's: %s", tool, said)
		}
	}
	s.paddock(t, "token", "revoke", "--principal", "agent:ann")
	testkit.Eventually(t, "ann has none", func() bool { return !strings.Contains(s.paddock(t, "list", "--all"), ids[0]) })
	ben.call(t, "exec", map[string]any{"sandbox": "box", "command": "true"})
}
