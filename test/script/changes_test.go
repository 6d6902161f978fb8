package script

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// changesSite is a workspace, and a state directory of its own.
type changesSite struct{ ws, state string }

func newChangesSite(t *testing.T, script string) changesSite {
	t.Helper()
	boxtest.RequireWalls(t)
	s := changesSite{filepath.Join(t.TempDir(), "ws"), filepath.Join(t.TempDir(), "state")}
	if err := os.Mkdir(s.ws, 0o755); err != nil {
		t.Fatal(err)
	}
	s.host(t, script)
	return s
}

// host runs a script outside, where nothing forbids it anything.
func (s changesSite) host(t *testing.T, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir = s.ws
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

func (s changesSite) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), filepath.Join(binDir, "paddock"), args...)
	cmd.Dir = s.ws
	cmd.Env = append(os.Environ(), "PADDOCK_STATE_DIR="+s.state)
	return cmd
}

// paddock runs the program to its end.
func (s changesSite) paddock(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := s.command(args...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil && args[0] != "doctor" {
		t.Fatalf("%q: %v\n%s%s", args, err, out.String(), log.String())
	}
	return out.String(), log.String()
}

// left is what `run --json` tells of.
type left struct {
	Planted  []string `json:"planted"`
	Programs []string `json:"changed_programs"`
	Unseen   []string `json:"not_compared"`
}

func (s changesSite) run(t *testing.T, script string, flags ...string) left {
	t.Helper()
	out, _ := s.paddock(t, append(append([]string{"run", "--json"}, flags...), "--", "sh", "-c", script)...)
	var l left
	if err := json.Unmarshal([]byte(out), &l); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return l
}

// What commands leave for programs of the host is told, and what daily work
// does is not. The control is the host's own git, where Debian's is there: what
// is told of does run.
func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	const evil = `#!/bin/sh\ntouch ran\n`
	for _, tt := range []struct {
		name, before, commands string
		planted, programs      string
		obeyed                 string // makes a program of the host run it, which makes a file "ran"
	}{
		{"daily work", "git init -q; echo a > a; git add a; git commit -qm a; mkdir node_modules",
			"echo b > b; mkdir -p node_modules/x/.bin; echo x > node_modules/x/Makefile; echo '{}' > node_modules/x/package.json; git add b; git -c user.name=a -c user.email=a@b commit -qm b", "", "", ""},
		{"a nested hook", "git init -q; git init -q sub", "printf '" + evil + "' > sub/.git/hooks/pre-commit; chmod +x sub/.git/hooks/pre-commit",
			"sub/.git/hooks/pre-commit", "", "cd sub; git commit -q --allow-empty -m x; mv ran .."},
		{"nested configuration", "git init -q; git init -q sub", "printf '[core]\nfsmonitor = touch ran\n' >> sub/.git/config",
			"sub/.git/config", "", "cd sub; git status > /dev/null 2>&1; mv ran .."},
		{"a new repository", "git init -q", "git init -q deep; printf '" + evil + "' > deep/.git/hooks/pre-commit; chmod +x deep/.git/hooks/pre-commit",
			"deep/.git/config deep/.git/hooks", "", "cd deep; git commit -q --allow-empty -m x; mv ran .."},
		{"a bare repository", "git init -q", "mkdir -p b/objects b/refs/heads; echo ref: refs/heads/x > b/HEAD; printf '[core]\nrepositoryformatversion = 0\nbare = false\nworktree = ..\nfsmonitor = touch ran\n' > b/config",
			"b/HEAD", "", "cd b; git status > /dev/null 2>&1; [ -e ran ] && mv ran .. || [ -e ../ran ]"},
		{"a replaced repository", "git init -q; git init -q sub; git init -q other", "rm -r sub/.git; echo gitdir: ../other/.git > sub/.git", "sub/.git", "", ""},
		{"a submodule's hook", "git init -q; git init -q lib; git -C lib commit -q --allow-empty -m x; git -c protocol.file.allow=always submodule --quiet add ./lib sub; mv .git/modules store; git init -q nest; mv store nest/.git/modules",
			"printf '" + evil + "' > nest/.git/modules/sub/hooks/pre-commit; chmod +x nest/.git/modules/sub/hooks/pre-commit", "nest/.git/modules/sub/hooks/pre-commit", "", ""},
		{"direnv", "git init -q", "mkdir -p a/b; echo touch ran > a/b/.envrc", "a/b/.envrc", "", ""},
		{"in an installation", "mkdir node_modules", "mkdir -p node_modules/x; echo x > node_modules/x/.envrc; git init -q node_modules/x", "node_modules/x/.envrc node_modules/x/.git/config node_modules/x/.git/hooks", "", ""},
		{"a Makefile", "git init -q; echo 'all:' > Makefile", "printf 'all:\n\ttouch ran\n' > Makefile", "", "Makefile", "make > /dev/null"},
		{"scripts of a package", `echo '{"scripts":{"test":"true"},"version":"1"}' > package.json; mkdir p; cp package.json p`,
			`echo '{"scripts":{"test":"evil"},"version":"1"}' > package.json; echo '{"scripts":{"test":"true"},"version":"2"}' > p/package.json`, "", "package.json", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newChangesSite(t, tt.before)
			// Protection is open: what it leaves open elsewhere is compared alike.
			l := s.run(t, tt.commands, "--unprotect", "*")
			if got := strings.Join(l.Planted, " "); got != tt.planted {
				t.Errorf("planted %q, want %q", got, tt.planted)
			}
			if got := strings.Join(l.Programs, " "); got != tt.programs || len(l.Unseen) > 0 {
				t.Errorf("programs %q, want %q; unseen %q", got, tt.programs, l.Unseen)
			}
			if _, err := exec.LookPath("make"); tt.obeyed != "" && (err == nil || !strings.HasPrefix(tt.obeyed, "make")) {
				s.host(t, tt.obeyed)
				if _, err := os.Stat(filepath.Join(s.ws, "ran")); err != nil {
					t.Errorf("the control did not run it: %v", err)
				}
			}
			if again := s.run(t, "true"); len(again.Planted)+len(again.Programs) > 0 {
				t.Errorf("it is told twice: %+v", again)
			}
		})
	}
}

// Every wall tells the same, and so does a mount that is writable.
func TestChangesBehindEveryWall(t *testing.T) {
	const want = `"planted":[".mcp.json","a/b/.envrc"]`
	walls := map[string][]string{"full": nil, "wrapper": {"--wrapper", "env"}}
	if confine.LandlockABI() >= confine.LandlockScopesABI {
		walls["landlock"] = []string{"--level", "landlock", "--allow-degraded", "identity"}
	}
	if os.Geteuid() == 0 {
		walls["host"] = []string{"--backend", "host"}
	}
	for name, flags := range walls {
		t.Run(name, func(t *testing.T) {
			s := newChangesSite(t, "true")
			if name == "host" {
				s.paddock(t, "privilege", "grant", "user:root", "UNSANDBOXED_EXEC")
			}
			cmd := s.command(append(append([]string{"run", "--json"}, flags...), "--", "sh", "-c", "mkdir -p a/b; echo x > a/b/.envrc; echo x > .mcp.json")...)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), want) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	t.Run("a mount", func(t *testing.T) {
		s := newChangesSite(t, "true")
		other := t.TempDir()
		if err := os.Chmod(other, 0o777); err != nil {
			t.Fatal(err)
		}
		if l := s.run(t, "mkdir /mnt/x/a; echo x > /mnt/x/a/.envrc", "--rw", other+":/mnt/x"); !slices.Equal(l.Planted, []string{filepath.Join(other, "a", ".envrc")}) {
			t.Errorf("%+v", l)
		}
	})
	t.Run("a copy", func(t *testing.T) {
		s := newChangesSite(t, "true")
		if l := s.run(t, "echo x > .envrc", "--workspace-mode", "copy"); len(l.Planted) > 0 {
			t.Errorf("%+v", l)
		}
	})
}

func TestChangesOfASession(t *testing.T) {
	s := newChangesSite(t, "mkdir sub")
	cmd := s.command("session", "-w", s.ws)
	cmd.Stdin = strings.NewReader("echo x > sub/.envrc\necho x > Makefile\n")
	out, err := cmd.CombinedOutput()
	if text := string(out); err != nil || !strings.Contains(text, "sub/.envrc") || !strings.Contains(text, "Makefile") {
		t.Errorf("%v: %s", err, text)
	}
}

// A bound that was reached is told, and a tree beyond every bound holds nothing up.
func TestChangesBeyondBounds(t *testing.T) {
	s := newChangesSite(t, "true")
	l := s.run(t, "i=0; d=d; while [ $i -lt 200 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done; echo x > .envrc; cd /workspace; echo x > .envrc; mkfifo Makefile; truncate -s 10G justfile")
	if !slices.Contains(l.Planted, ".envrc") || len(l.Unseen) != 1 || !strings.Contains(l.Unseen[0], "more were not looked at") {
		t.Errorf("%+v", l)
	}
}

// kill starts a command, waits for a file that it makes, and kills paddock.
func (s changesSite) kill(t *testing.T, script string) {
	t.Helper()
	cmd := s.command("run", "-q", "--", "sh", "-c", script+"; touch done; exec sleep 1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := filepath.Join(s.ws, "done")
	testkit.AwaitFile(t, done)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	_ = os.Remove(done)
}

// tells waits until a call tells of a path: the kernel needs a moment to end a
// sandbox whose owner was killed.
func (s changesSite) tells(t *testing.T, path string, args ...string) (stderr string) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%q tells of %s", args, path), func() bool {
		_, stderr = s.paddock(t, args...)
		return strings.Contains(stderr, path)
	})
	return stderr
}

// What a sandbox has left whose paddock was killed is told by the next start, or
// by doctor, once, and is on record.
func TestChangesOfAKilledOwner(t *testing.T) {
	for name, args := range map[string][]string{
		"the next start": {"run", "--", "true"},
		"as JSON":        {"run", "--json", "--", "true"},
		"doctor":         {"doctor", "--backend", "linux"},
		"execute":        {"execute", "echo x"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newChangesSite(t, "mkdir sub; echo x > Makefile")
			s.kill(t, "echo x > sub/.envrc; echo y > Makefile")
			text := s.tells(t, "sub/.envrc", args...)
			if !strings.Contains(text, "killed") || !strings.Contains(text, s.ws) || !strings.Contains(text, "Makefile") {
				t.Errorf("it says %s", text)
			}
			if _, stderr := s.paddock(t, args...); strings.Contains(stderr, ".envrc") {
				t.Errorf("it is told twice: %s", stderr)
			}
			if record, _ := s.paddock(t, "audit", "--raw"); strings.Count(record, `"planted":["sub/.envrc"]`) != 1 || strings.Count(record, `"programs":["Makefile"]`) != 1 {
				t.Errorf("on record is %s", record)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		s := newChangesSite(t, "true")
		s.kill(t, "echo x > plain")
		for range 3 {
			if _, stderr := s.paddock(t, "run", "--", "true"); strings.Contains(stderr, "which ended unattended") {
				t.Errorf("it says %s", stderr)
			}
		}
	})
	t.Run("a damaged record", func(t *testing.T) {
		s := newChangesSite(t, "true")
		s.kill(t, "echo x > .envrc")
		kept, err := filepath.Glob(filepath.Join(s.state, "unreported", "pd-*"))
		if err != nil || len(kept) != 1 {
			t.Fatalf("%q, %v", kept, err)
		}
		if err := os.WriteFile(kept[0], []byte("paddock before 1\nroot"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.tells(t, "cannot be read: damaged", "run", "--", "true")
	})
	t.Run("many at once", func(t *testing.T) {
		s := newChangesSite(t, "true")
		s.kill(t, "echo x > .envrc")
		var mu sync.Mutex
		var all strings.Builder
		var wg sync.WaitGroup
		for end := time.Now().Add(time.Minute); time.Now().Before(end) && !strings.Contains(all.String(), ".envrc"); {
			for range 6 {
				wg.Go(func() {
					out, _ := s.command("run", "--", "true").CombinedOutput()
					mu.Lock()
					defer mu.Unlock()
					all.Write(out)
				})
			}
			wg.Wait()
		}
		if n := strings.Count(all.String(), "which ended unattended"); n != 1 {
			t.Errorf("it is told %d times: %s", n, all.String())
		}
	})
}

// Two sandboxes on one workspace: each tells of what was changed while it ran.
func TestChangesOfTwoSandboxes(t *testing.T) {
	s := newChangesSite(t, "true")
	first, second := make(chan left, 1), make(chan left, 1)
	await := func(file string) string { return "while [ ! -e " + file + " ]; do sleep 0.1; done; " }
	go func() { first <- s.run(t, "touch one; "+await("two")+"echo x > .envrc; touch made") }()
	go func() { second <- s.run(t, "touch two; "+await("one")+await("made")) }()
	for name, l := range map[string]left{"the one that made it": <-first, "the other": <-second} {
		if !slices.Equal(l.Planted, []string{".envrc"}) {
			t.Errorf("%s: %+v", name, l)
		}
	}
}
