package agent_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The client in docs/guest-agent.md uses Python's standard library only, and does
// what the page says.
func TestReadmeClient(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/guest-agent.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, found := strings.Cut(string(page), "\n```python\n")
	code, _, ended := strings.Cut(code, "\n```\n")
	if !found || !ended || !strings.Contains(code, "/tmp/x.sock") || !strings.Contains(string(page), "bin/paddock-agent --listen unix:///tmp/x.sock --workspace DIR\n") {
		t.Fatal("docs/guest-agent.md has no client")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("SKIPPED ALOUD: there is no python3 to run the client of docs/guest-agent.md with")
	}
	b := bare(t)
	out, err := exec.Command(python, "-c", strings.ReplaceAll(code, "/tmp/x.sock", b.socket)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"'stdout': 'Linux\\n', 'stderr': 'oops\\n'", "'exit_code': 3", "b'hello\\n'\n", "'destination': '/workspace/new', 'entry_count': 1, 'bytes_written': 0",
		"\n['/workspace/new', '/workspace/new/empty.txt', '/workspace/notes', '/workspace/notes/a.txt']\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is not in\n%s", want, out)
		}
	}
	holds(t, "hello\n", b.workspace, "notes", "a.txt")
	holds(t, "", b.workspace, "new", "empty.txt")
}
