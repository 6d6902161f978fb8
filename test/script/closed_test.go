package script

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What commands close to its owner stops the next start, in words that say what to
// open; of a .git it is told at the end of the run that closed it.
func TestClosedRepositories(t *testing.T) {
	t.Parallel()
	for name, reported := range map[string]string{
		".git": ".git", "n/.git": "n/.git", ".git/modules": "", ".git/modules/a": "",
	} {
		for _, mode := range []string{"0", "444"} {
			t.Run(name+" "+mode, func(t *testing.T) {
				s := newChangesSite(t, "git init -q; git init -q n; mkdir .git/modules; cp -r n/.git .git/modules/a")
				// Commands own what they close, also where the caller is root.
				if got := strings.Join(s.run(t, "chmod "+mode+" "+name).Planted, " "); got != reported {
					t.Errorf("planted %q, want %q", got, reported)
				}
				closed := filepath.Join(s.ws, name)
				t.Cleanup(func() { _ = os.Chmod(closed, 0o755) })
				refused := func(door, text string) {
					t.Helper()
					if !strings.Contains(text, "chmod u+rwx "+closed) || !strings.Contains(text, closed+" cannot be entered") {
						t.Errorf("%s: %s", door, text)
					}
				}
				for _, args := range [][]string{{"run", "--", "true"}, {"plan"}, {"session", "-w", s.ws}} {
					cmd := s.command(args...)
					cmd.Stdin = strings.NewReader("true\n")
					out, _ := cmd.CombinedOutput()
					refused(args[0], string(out))
				}
				refused("mcp", s.model(t))
				s.host(t, "chmod u+rwx "+name)
				s.paddock(t, "run", "--", "true") // the control
			})
		}
	}
	t.Run("all", func(t *testing.T) {
		s := newChangesSite(t, "git init -q")
		s.run(t, "chmod 0 .")
		t.Cleanup(func() { _ = os.Chmod(s.ws, 0o755) })
		cmd := s.command("run", "-w", s.ws, "--", "true")
		cmd.Dir = "/"
		if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), "chmod u+rwx "+s.ws+"\n") {
			t.Errorf("%s", out)
		}
	})
}

// model has a server for models run a command, and gives its answer.
func (s changesSite) model(t *testing.T) string {
	t.Helper()
	cmd := s.command("mcp")
	in, out := startPiped(t, cmd)
	defer func() { _, _ = in.Close(), cmd.Wait() }()
	_, err := fmt.Fprintln(in, hello+`
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"command":"true"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"id":2`) {
			return lines.Text()
		}
	}
	t.Fatalf("there is no answer: %v", lines.Err())
	return ""
}
