//go:build linux

package mcp

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// TestPlanted: what a model plants for the host to run is told on the server's
// standard error when the server ends, by the end of its input or by a signal, and
// it is on record.
func TestPlanted(t *testing.T) {
	boxtest.RequireWalls(t)
	for name, end := range map[string]func(in io.Closer, server *os.Process) error{
		"the end of the input": func(in io.Closer, _ *os.Process) error { return in.Close() },
		"a signal":             func(_ io.Closer, server *os.Process) error { return server.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			s := plain(t)
			cmd := s.command()
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			log := &notes{}
			cmd.Stdout, cmd.Stderr = io.Discard, log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			requests := []string{
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"planter","version":"1"}}}`,
				`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
				toolCall(2, "exec", `{"command":"mkdir -p .git/hooks .codex; echo x >.git/hooks/pre-commit; echo x >.mcp.json; echo x >.codex/config.toml; echo x >.envrc; touch done"}`),
			}
			if _, err := fmt.Fprintln(in, strings.Join(requests, "\n")); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "it is planted", func() bool {
				_, err := os.Stat(filepath.Join(s.workspace, "done"))
				return err == nil
			})
			if err := end(in, cmd.Process); err != nil {
				t.Error(err)
			}
			awaitEnd(t, cmd, log)
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			record := s.paddock(t, "audit", "--raw")
			for _, path := range []string{".git/hooks", ".mcp.json", ".codex", ".envrc"} {
				if len(lines) != 1 || !strings.Contains(lines[0], path) || !strings.Contains(lines[0], s.workspace) {
					t.Errorf("the operator is not told of %s: %q", path, lines)
				}
				if !strings.Contains(record, `"kind":"planted"`) || !strings.Contains(record, `"`+path) {
					t.Errorf("%s is not on record: %s", path, record)
				}
			}
		})
	}
}

// TestGitAdded: what a model adds to its copy of git's configuration is told on the
// server's log, and the operator's to take over.
func TestGitAdded(t *testing.T) {
	boxtest.RequireWalls(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not there to work with")
	}
	s := plain(t)
	if out, err := exec.Command("git", "init", "-q", s.workspace).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := s.command()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	log := &notes{}
	cmd.Stdout, cmd.Stderr = io.Discard, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	requests := []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"model","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		toolCall(2, "exec", `{"command":"git remote add o https://example.com/x; git config core.fsmonitor x; touch done"}`),
	}
	if _, err := fmt.Fprintln(in, strings.Join(requests, "\n")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "it is done", func() bool {
		_, err := os.Stat(filepath.Join(s.workspace, "done"))
		return err == nil
	})
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	awaitEnd(t, cmd, log)
	if said := log.String(); !strings.Contains(said, "paddock git accept") || !strings.Contains(said, "remote.o.url=https://example.com/x") {
		t.Errorf("the operator is not told: %q", said)
	}
	if out := s.paddock(t, "git", "accept", "-w", s.workspace, "--yes"); !strings.Contains(out, "added remote.o.url=https://example.com/x") || strings.Contains(out, "fsmonitor") {
		t.Errorf("%s", out)
	}
}

// plantBy starts a server, and has a model make what the host obeys and what it
// runs by name.
func plantBy(t *testing.T, s setup, log io.Writer) (cmd *exec.Cmd, in io.WriteCloser) {
	t.Helper()
	cmd = s.command()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = io.Discard, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	requests := []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"planter","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		toolCall(2, "exec", `{"command":"mkdir -p deep/x/.git/hooks; echo x >deep/x/.git/hooks/pre-commit; echo x >Makefile; touch done"}`),
	}
	if _, err := fmt.Fprintln(in, strings.Join(requests, "\n")); err != nil {
		t.Fatal(err)
	}
	done := filepath.Join(s.workspace, "done")
	testkit.Eventually(t, "it is planted", func() bool {
		_, err := os.Stat(done)
		return err == nil
	})
	if err := os.Remove(done); err != nil {
		t.Fatal(err)
	}
	return cmd, in
}

// TestPlantedByAKilledServer: the operator of the next server is told, once, and
// the model that speaks to it is not.
func TestPlantedByAKilledServer(t *testing.T) {
	boxtest.RequireWalls(t)
	s := plain(t)
	cmd, _ := plantBy(t, s, io.Discard)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	told := 0
	testkit.Eventually(t, "the operator is told", func() bool {
		next := s.command()
		log, answers := &notes{}, &notes{}
		next.Stdout, next.Stderr = answers, log
		in, err := next.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Start(); err != nil {
			t.Fatal(err)
		}
		requests := []string{
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"next","version":"1"}}}`,
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			toolCall(2, "exec", `{"command":"true"}`),
		}
		if _, err := fmt.Fprintln(in, strings.Join(requests, "\n")); err != nil {
			t.Error(err)
		}
		testkit.Eventually(t, "an answer comes", func() bool { return strings.Contains(answers.String(), `"id":2`) })
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		awaitEnd(t, next, log)
		if strings.Contains(answers.String(), "deep/x") {
			t.Errorf("the model is told: %s", answers)
		}
		if strings.Contains(log.String(), "deep/x/.git/hooks") {
			told++
			if text := log.String(); !strings.Contains(text, "was killed") || !strings.Contains(text, "Makefile") || !strings.Contains(text, s.workspace) {
				t.Errorf("the operator is told %s", text)
			}
		}
		return told > 0
	})
	if record := s.paddock(t, "audit", "--raw"); strings.Count(record, `"planted":["deep/x/.git/hooks"]`) != 1 {
		t.Errorf("on record is %s", record)
	}
}

// TestChangedPrograms: what runs by name is told to the operator, too, and on record.
func TestChangedPrograms(t *testing.T) {
	boxtest.RequireWalls(t)
	s := plain(t)
	log := &notes{}
	cmd, in := plantBy(t, s, log)
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	awaitEnd(t, cmd, log)
	if text := log.String(); !strings.Contains(text, "deep/x/.git/hooks") || !strings.Contains(text, "programs=Makefile") {
		t.Errorf("the operator is told %s", text)
	}
	if record := s.paddock(t, "audit", "--raw"); !strings.Contains(record, `"planted":["deep/x/.git/hooks"],"programs":["Makefile"]`) {
		t.Errorf("on record is %s", record)
	}
}
