package script

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// tour returns the commands of README's tour.
func tour(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```sh\npaddock create ")
	block, _, _ = strings.Cut("paddock create "+block, "\n```")
	comment := regexp.MustCompile(` +# .*`)
	var all []string
	for line := range strings.Lines(block) {
		all = append(all, strings.TrimSpace(comment.ReplaceAllString(line, "")))
	}
	if len(all) < 9 {
		t.Fatalf("README's tour is %q", all)
	}
	return all
}

// README's tour works as it is written, on a repository: what the sandbox has built is served,
// looked at, and lands in part.
func TestTour(t *testing.T) {
	boxtest.RequireWalls(t)
	for _, program := range []string{"git", "make", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not installed: the tour uses it")
		}
	}
	ws, state := t.TempDir(), t.TempDir()
	writeFiles(t, ws, map[string]string{"index.html": "old\n", "Makefile": "page.txt: index.html\n\tcp index.html page.txt\n"})
	shell := func(line string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = ws
		cmd.Env = append(os.Environ(), "PATH="+binDir+":"+os.Getenv("PATH"), "PADDOCK_STATE_DIR="+state)
		return cmd
	}
	t.Cleanup(func() { _ = shell("paddock rm --force web").Run() })
	outputOf(t, shell("git init -q . && git add . && git -c user.name=a -c user.email=a@example.com commit -q -m first"))

	said := map[string]string{}
	for _, line := range tour(t) {
		verb := strings.Fields(line)[1]
		if verb != "forward" {
			said[verb] = outputOf(t, shell(line))
			continue
		}
		if page := visit(t, shell("exec "+line)); page != "hello\n" {
			t.Errorf("the sandbox serves %q", page)
		}
		if text, err := os.ReadFile(filepath.Join(ws, "index.html")); err != nil || string(text) != "old\n" {
			t.Errorf("before the commit the directory has %q, %v", text, err)
		}
	}
	for verb, want := range map[string]string{"create": "sandbox web is ready", "diff": "-old\n+hello\n", "commit": "1 change landed", "discard": "1 change", "rm": "sandbox web is removed"} {
		if !strings.Contains(said[verb], want) {
			t.Errorf("%s says %q, not %q", verb, said[verb], want)
		}
	}
	if text := outputOf(t, shell("cat index.html; git status --short; paddock list --all --quiet; paddock layers")); text != "hello\n M index.html\nno layer is kept\n" {
		t.Errorf("at the end there is %q", text)
	}
}

// visit reads the page at the URL that a command prints, and ends the command as Ctrl-C does.
func visit(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	url := regexp.MustCompile(`http://\S+/`).FindString(line)
	if url == "" {
		t.Fatalf("%s prints %q, %v", cmd, line, err)
	}
	answer, err := http.Get(url + "index.html")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}
