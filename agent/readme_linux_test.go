package agent_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The README's client, of Python's standard library alone, does what it says.
func TestReadmeClient(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## The agent on its own\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, code, found := strings.Cut(section, "\n```python\n")
	code, _, ended := strings.Cut(code, "\n```\n")
	if !ok || !found || !ended || !strings.Contains(code, "/tmp/x.sock") || !strings.Contains(section, "bin/paddock-agent --listen unix:///tmp/x.sock --workspace DIR\n") {
		t.Fatal("the README has no client")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("SKIPPED ALOUD: there is no python3 to run the README's client with")
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
