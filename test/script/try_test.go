package script

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// At a terminal what was changed is shown, and the person says what becomes of it.
func TestTryAsks(t *testing.T) {
	boxtest.RequireWalls(t)
	for _, tt := range []struct {
		answer, says string
		landed, kept bool
	}{
		{"commit\r", `held back: \.envrc: .*the layer is kept, with 1 change: paddock diff (pd-[a-z0-9]+)`, true, true},
		{"x\rd\r", `\[commit/discard/keep; Enter: keep\] .*the changes are discarded`, false, false},
		{"\r", `the changes are kept: paddock diff (pd-[a-z0-9]+)`, false, true},
		{"\x04", `the changes are kept: paddock diff (pd-[a-z0-9]+)`, false, true}, // the end of the input
	} {
		t.Run(strings.TrimSpace(tt.answer), func(t *testing.T) {
			ws := t.TempDir()
			s := startTerminal(t, "try", "-w", ws, "--", "sh", "-c", "echo new > made; echo x > .envrc")
			s.expect(`(?s)made +\| 1 \+.*held back: \.envrc: .*What becomes of the changes\? \[commit/discard/keep; Enter: keep\] $`)
			s.send(tt.answer)
			s.expect("(?s)" + tt.says)
			s.exit(0)
			if _, err := os.Lstat(filepath.Join(ws, "made")); (err == nil) != tt.landed {
				t.Errorf("made: %v", err)
			}
			if _, err := os.Lstat(filepath.Join(ws, ".envrc")); err == nil {
				t.Error(".envrc has landed")
			}
			id := layerOf(t, ws)
			if (id != "") != tt.kept {
				t.Errorf("layer %q", id)
			}
			if id != "" {
				if out, err := paddockCommand(t, "discard", id).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			}
		})
	}
}

// A signal that asks the program to end while it waits for an answer ends it, and keeps the changes.
func TestTryInterrupted(t *testing.T) {
	boxtest.RequireWalls(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			ws := t.TempDir()
			s := startTerminal(t, "try", "-w", ws, "--", "sh", "-c", "echo new > made")
			s.expect(`\[commit/discard/keep; Enter: keep\] $`)
			if err := s.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			s.expect(`the changes are kept in layer pd-[a-z0-9]+`)
			s.exit(128 + int(sig))
			id := layerOf(t, ws)
			if out, err := paddockCommand(t, "discard", id).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// At a terminal prune shows what it would remove, and asks.
func TestPruneAsks(t *testing.T) {
	boxtest.RequireWalls(t)
	for _, name := range []string{"prune1", "prune2"} {
		outputOf(t, paddockCommand(t, "create", name, "--label", "prune=asks", "--cache", "none"))
		outputOf(t, paddockCommand(t, "stop", name))
	}
	for _, tt := range []struct {
		answer, says string
		status       int
	}{{"n\r", "would remove prune1.*would remove prune2", 1}, {"y\r", "sandbox prune1 is removed.*sandbox prune2 is removed", 0}} {
		s := startTerminal(t, "prune", "--filter", "label=prune=asks")
		s.expect(`(?s)pd-[a-z0-9]+  prune1.*pd-[a-z0-9]+  prune2.*Remove 2 sandboxes\? \[y/N\] $`)
		s.send(tt.answer)
		s.expect("(?s)" + tt.says)
		s.exit(tt.status)
	}
}

// layerOf returns the id of the layer over a workspace, or "".
func layerOf(t *testing.T, ws string) string {
	t.Helper()
	out, err := paddockCommand(t, "layers").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, ws+" ") {
			return strings.Fields(line)[0]
		}
	}
	return ""
}

// What a command had changed when its paddock was killed is not lost, unless it was to end with
// its sandbox: then the next start removes it.
func TestTryKilled(t *testing.T) {
	boxtest.RequireWalls(t)
	for verb, keeps := range map[string]bool{"try": true, "run": false} {
		t.Run(verb, func(t *testing.T) {
			ws := t.TempDir()
			cmd := paddockCommand(t, verb, "--workspace-mode", "overlay", "-w", ws, "--", "sh", "-c", "echo new > made; echo ready; sleep 1000")
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			ready := make([]byte, 6)
			if _, err := out.Read(ready); err != nil {
				t.Fatal(err)
			}
			id := layerOf(t, ws)
			if out, err := paddockCommand(t, "commit", id).CombinedOutput(); err == nil || !strings.Contains(string(out), "a sandbox has it mounted") {
				t.Errorf("while it runs: %v: %s", err, out)
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if keeps {
				out, err := paddockCommand(t, "diff", "--name-status", id).Output()
				if err != nil || string(out) != "A\tmade\n" {
					t.Fatalf("%v: %s", err, out)
				}
				if out, err := paddockCommand(t, "commit", id).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				if text, err := os.ReadFile(filepath.Join(ws, "made")); err != nil || string(text) != "new\n" {
					t.Errorf("%v: %q", err, text)
				}
				return
			}
			for until := time.Now().Add(30 * time.Second); layerOf(t, ws) == id; time.Sleep(100 * time.Millisecond) {
				if time.Now().After(until) {
					t.Fatal("the layer is left for ever")
				}
				if out, err := paddockCommand(t, "run", "--workspace-mode", "overlay", "-w", ws, "--", "true").CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
		})
	}
}

// A layer directory that was removed by hand, in part or as a whole, is told, and can be removed.
func TestLayerRemovedByHand(t *testing.T) {
	boxtest.RequireWalls(t)
	for name, damage := range map[string]func(dir string) error{
		"the changes": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "0", "upper")) },
		"all of them": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "0")) },
		"the record":  func(dir string) error { return os.WriteFile(filepath.Join(dir, "record.json"), []byte("{"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			ws := t.TempDir()
			if out, err := paddockCommand(t, "try", "-q", "-w", ws, "--", "sh", "-c", "echo x > x; mkdir -m 0 closed").CombinedOutput(); err != nil && !strings.Contains(string(out), "permission denied") {
				t.Fatalf("%v: %s", err, out)
			}
			id := layerOf(t, ws)
			dir := filepath.Join(stateDir, "layers", id)
			_ = exec.Command("chmod", "-R", "u+rwx", dir).Run()
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			out, err := paddockCommand(t, "diff", id).CombinedOutput()
			if said := regexp.MustCompile(`removed by hand|cannot read the record`); err == nil || !said.Match(out) {
				t.Errorf("%v: %s", err, out)
			}
			if name == "the record" {
				out, err := paddockCommand(t, "layers").CombinedOutput()
				if err != nil || !strings.Contains(string(out), id+"  damaged") {
					t.Errorf("%v: %s", err, out)
				}
				return
			}
			if out, err := paddockCommand(t, "discard", id).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
