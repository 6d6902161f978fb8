package script

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// cached is what paddock cache list --json says.
type cached struct {
	Caches []struct {
		Tool, Workspace, Dir string
		InUse                bool `json:"in_use"`
	}
}

// withCaches returns a function that makes paddock commands in a workspace, with caches of
// their own.
func withCaches(t *testing.T, ws string) func(args ...string) *exec.Cmd {
	t.Helper()
	boxtest.RequireWalls(t)
	store := filepath.Join(t.TempDir(), "caches")
	return func(args ...string) *exec.Cmd {
		cmd := paddockCommand(t, args...)
		cmd.Dir, cmd.Env = ws, append(cmd.Env, "PADDOCK_CACHE_DIR="+store)
		return cmd
	}
}

// writeFiles writes files below a directory.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// goModule makes a module that needs another one, which the go of a home has downloaded.
func goModule(t *testing.T, ws, home string) {
	t.Helper()
	const dep = "example.com/dep@v1.0.0"
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range map[string]string{"go.mod": "module example.com/dep\n\ngo 1.21\n", "dep.go": "package dep\n\nconst Text = \"from the dependency\"\n"} {
		w, err := z.Create(dep + "/" + name)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	proxy := t.TempDir()
	writeFiles(t, proxy, map[string]string{
		"example.com/dep/@v/list":        "v1.0.0\n",
		"example.com/dep/@v/v1.0.0.info": `{"Version":"v1.0.0","Time":"2024-01-01T00:00:00Z"}`,
		"example.com/dep/@v/v1.0.0.mod":  "module example.com/dep\n\ngo 1.21\n",
		"example.com/dep/@v/v1.0.0.zip":  b.String(),
	})
	writeFiles(t, ws, map[string]string{
		"go.mod":  "module example.com/app\n\ngo 1.21\n\nrequire example.com/dep v1.0.0\n",
		"main.go": "package main\n\nimport \"example.com/dep\"\n\nfunc main() { println(dep.Text) }\n",
	})
	tidy := exec.Command("go", "mod", "tidy")
	tidy.Dir = ws
	tidy.Env = append(os.Environ(), "GOMODCACHE="+filepath.Join(home, "go", "pkg", "mod"), "GOPROXY=file://"+proxy, "GOSUMDB=off", "GOFLAGS=-modcacherw", "GOWORK=off", "GOTOOLCHAIN=local")
	if out, err := tidy.CombinedOutput(); err != nil {
		t.Fatalf("go mod tidy: %v\n%s", err, out)
	}
}

// TestGoCache: a module whose dependencies the caller has downloaded builds without a
// network, and the second time without compiling anything.
func TestGoCache(t *testing.T) {
	ws, home := t.TempDir(), t.TempDir()
	paddock := withCaches(t, ws)
	if err := paddock("run", "--", "sh", "-c", "command -v go").Run(); err != nil {
		t.Skip("no go is visible inside: ", err)
	}
	goModule(t, ws, home)
	build := func(args ...string) (compiled bool, all string) {
		t.Helper()
		cmd := paddock(append(args, "--", "sh", "-c", "go build -x -o /tmp/app . 2>&1 && /tmp/app 2>&1; find / -name 'credentials*' -o -name vcs -path '*cache*' 2>/dev/null")...)
		cmd.Env = append(cmd.Env, "HOME="+home, "GOMODCACHE=", "GOPATH=")
		out, _ := cmd.CombinedOutput()
		return strings.Contains(string(out), "/compile "), string(out)
	}
	// What must not come inside.
	writeFiles(t, home, map[string]string{"go/pkg/mod/cache/vcs/secret": "x", "go/bin/tool": "x", ".netrc": "x"})
	if compiled, out := build("run"); !compiled || !strings.Contains(out, "from the dependency") {
		t.Fatalf("the first time: %s", out)
	}
	compiled, out := build("run")
	if compiled || !strings.Contains(out, "from the dependency") {
		t.Errorf("the second time: %s", out)
	}
	if strings.Contains(out, "vcs") {
		t.Errorf("inside there is %s", out)
	}
	if _, out := build("run", "--cache", "none"); strings.Contains(out, "from the dependency") {
		t.Errorf("without caches the dependency comes from somewhere: %s", out)
	}
	if _, err := os.Stat(filepath.Join(home, "go", "pkg", "mod", "cache", "download", "example.com", "dep", "@v", "v1.0.0.zip")); err != nil {
		t.Error(err)
	}
	if text := outputOf(t, paddock("cache", "rm", "--tool", "go")); !strings.Contains(text, "removed go of "+ws) {
		t.Errorf("cache rm says %q", text)
	}
	if compiled, out := build("run"); !compiled {
		t.Errorf("after its removal: %s", out)
	}
}

// TestCacheOfKilled: a run that is killed while it writes leaves a cache that later runs use,
// and that can be removed.
func TestCacheOfKilled(t *testing.T) {
	ws := t.TempDir()
	writeFiles(t, ws, map[string]string{"package.json": "{}"})
	paddock := withCaches(t, ws)
	list := func() (all cached) {
		t.Helper()
		if err := json.Unmarshal([]byte(outputOf(t, paddock("cache", "list", "--json"))), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	cmd := paddock("run", "-q", "--", "sh", "-c", `cd $npm_config_cache; mkdir closed; i=0; while :; do i=$((i+1)); echo half > closed/$i; test $i = 5 && chmod 0 closed && touch /workspace/ready; done 2>/dev/null`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the command has written", func() bool { _, err := os.Stat(filepath.Join(ws, "ready")); return err == nil })
	if all := list(); len(all.Caches) != 1 || !all.Caches[0].InUse {
		t.Errorf("while it runs: %+v", all)
	}
	out, err := paddock("cache", "rm").CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), "a sandbox uses it") || !strings.Contains(string(out), "hint: it can be removed once that has ended") {
		t.Errorf("cache rm: %v\n%s", err, out)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := outputOf(t, paddock("run", "-q", "--", "sh", "-c", "ls -d $npm_config_cache/closed | wc -l")); strings.TrimSpace(got) != "1" {
		t.Errorf("the next run sees %q", got)
	}
	testkit.Eventually(t, "nothing uses it", func() bool { return !list().Caches[0].InUse })
	if text := outputOf(t, paddock("cache", "rm", "--all")); !strings.Contains(text, "removed npm") {
		t.Errorf("cache rm says %q", text)
	}
	if all := list(); len(all.Caches) > 0 {
		t.Errorf("then: %+v", all)
	}
}
