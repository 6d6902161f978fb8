package script

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// At a terminal nothing is trusted before somebody has seen the file and said yes.
func TestTrustAsks(t *testing.T) {
	boxtest.RequireWalls(t)
	ws := t.TempDir()
	path := filepath.Join(ws, ".paddock.yaml")
	// It tries to look like the question, and hides a line behind what YAML alone takes for the
	// end of one.
	if err := os.WriteFile(path, []byte("# \u202eTrust this file? [y/N] y\u2028network: host\nhostname: pen\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const question = `\r\n  \| # \\u202eTrust this file\? \[y/N\] y\\u2028network: host\r\n  \| hostname: pen\r\nSandboxes over this directory, those of models too:\r\n` +
		`  network: commands can use this host's network[^\r]*\r\n  hostname: pen\r\nTrust this file, which gives commands this host's network\? \[y/N\] $`
	for _, tt := range []struct {
		answer, says, hostname string
	}{
		{"\r", "nothing was trusted; to trust it: paddock trust --yes ", "paddock"},
		{"n\r", "nothing was trusted", "paddock"},
		{"\x04", "nothing was trusted", "paddock"}, // the end of the input
		{"y\r", "trusted: ", "pen"},
	} {
		s := startTerminal(t, "trust", ws)
		s.expect(question)
		s.send(tt.answer)
		s.expect(tt.says)
		s.exit(map[bool]int{false: 1}[tt.hostname == "pen"])
		if out, err := paddockCommand(t, "run", "-q", "-w", ws, "--", "hostname").Output(); err != nil || string(out) != tt.hostname+"\n" {
			t.Errorf("%q: %s, %v", tt.answer, out, err)
		}
	}
}

// init, trust and run work one after the other for every kind of project, and a second init
// changes nothing.
func TestInitTrustRun(t *testing.T) {
	boxtest.RequireWalls(t)
	for _, names := range []string{"", "go.mod", "go.work", "package.json", "pyproject.toml", "requirements.txt", "setup.py", "Cargo.toml", "Makefile",
		"CMakeLists.txt", "compose.yaml", "docker-compose.yml", "go.mod package.json pyproject.toml Cargo.toml Makefile CMakeLists.txt compose.yml"} {
		t.Run(names, func(t *testing.T) {
			ws := t.TempDir()
			for _, name := range strings.Fields(names) {
				if err := os.WriteFile(filepath.Join(ws, name), []byte("\x00 nobody reads this: {"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			says := func(status int, want string, args ...string) {
				t.Helper()
				cmd := paddockCommand(t, args...)
				cmd.Dir = ws
				out, err := cmd.CombinedOutput()
				if cmd.ProcessState.ExitCode() != status || !strings.Contains(string(out), want) {
					t.Errorf("%q: %v, %s", args, err, out)
				}
			}
			printed := paddockCommand(t, "init", "--print", ws)
			text, err := printed.Output()
			if _, there := os.Lstat(ws + "/.paddock.yaml"); err != nil || there == nil {
				t.Fatalf("%v: %s", err, text)
			}
			for _, name := range strings.Fields(names) {
				if !strings.Contains(string(text), name) {
					t.Errorf("it says nothing of %s: %s", name, text)
				}
			}
			says(0, "look at it, then: paddock trust\n", "init")
			if written, err := os.ReadFile(ws + "/.paddock.yaml"); err != nil || string(written) != string(text) {
				t.Errorf("%v: %s", err, written)
			}
			says(125, ".paddock.yaml: it exists", "init")
			says(0, "not used: you have not trusted it", "run", "--", "true")
			says(0, "trusted: ", "trust", "--yes")
			says(0, "2.0G", "run", "--", "df", "-h", "/tmp")
			says(0, "trusted  "+ws, "trust", "--list")
			says(0, "no longer trusted", "trust", "--remove")
		})
	}
}

// init writes where it is told, and nowhere else, whatever has the file's name.
func TestInitFollowsNothing(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	for name, prepare := range map[string]string{
		"a link":              "ln -s " + outside + " .paddock.yaml",
		"a FIFO":              "mkfifo .paddock.yaml",
		"a file":              "echo x >.paddock.yaml",
		"a link, forced":      "ln -s " + outside + " .paddock.yaml; ln -s " + outside + " .paddock.yaml.new",
		"a FIFO, forced":      "mkfifo .paddock.yaml .paddock.yaml.new",
		"a file, forced":      "echo x >.paddock.yaml; chmod 600 .paddock.yaml",
		"a directory, forced": "mkdir .paddock.yaml",
	} {
		t.Run(name, func(t *testing.T) {
			ws := t.TempDir()
			cmd := exec.Command("sh", "-c", prepare)
			cmd.Dir = ws
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			args, forced := []string{"init", ws}, strings.HasSuffix(name, "forced")
			if forced {
				args = append(args, "--force")
			}
			run := paddockCommand(t, args...)
			out, err := run.CombinedOutput()
			if done := err == nil; done != (forced && name != "a directory, forced") || !done && !strings.Contains(string(out), "cannot ") {
				t.Errorf("%v: %s", err, out)
			}
			if info, lerr := os.Lstat(ws + "/.paddock.yaml"); err == nil && (lerr != nil || info.Mode() != 0o644) {
				t.Errorf("%v, %v", info, lerr)
			}
			if _, err := os.Lstat(outside); err == nil {
				t.Error("it wrote outside")
			}
			if left, _ := filepath.Glob(ws + "/.paddock.yaml.new"); err == nil && len(left) > 0 {
				t.Errorf("%q is left", left)
			}
		})
	}
	if out, err := paddockCommand(t, "init", filepath.Join(outside, "nowhere")).CombinedOutput(); err == nil || !strings.Contains(string(out), "no such file") {
		t.Errorf("%v: %s", err, out)
	}
}
