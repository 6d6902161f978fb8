package script

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
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
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", store).Run() }) // go closes what it downloads
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

// goProxy makes a module proxy with a version of a module, and returns its URL.
func goProxy(t *testing.T, module, version string, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range files {
		w, err := z.Create(module + "@" + version + "/" + name)
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
	writeFiles(t, filepath.Join(proxy, module, "@v"), map[string]string{
		"list":            version + "\n",
		version + ".info": `{"Version":"` + version + `","Time":"2024-01-01T00:00:00Z"}`,
		version + ".mod":  files["go.mod"],
		version + ".zip":  b.String(),
	})
	return "file://" + proxy
}

// goModule makes a module that needs another one, which the go of a home has downloaded.
func goModule(t *testing.T, ws, home string) {
	t.Helper()
	proxy := goProxy(t, "example.com/dep", "v1.0.0", map[string]string{
		"go.mod": "module example.com/dep\n\ngo 1.21\n", "dep.go": "package dep\n\nconst Text = \"from the dependency\"\n"})
	writeFiles(t, ws, map[string]string{
		"go.mod":  "module example.com/app\n\ngo 1.21\n\nrequire example.com/dep v1.0.0\n",
		"main.go": "package main\n\nimport \"example.com/dep\"\n\nfunc main() { println(dep.Text) }\n",
	})
	tidy := exec.Command("go", "mod", "tidy")
	tidy.Dir = ws
	tidy.Env = append(os.Environ(), "GOMODCACHE="+filepath.Join(home, "go", "pkg", "mod"), "GOPROXY="+proxy, "GOSUMDB=off", "GOFLAGS=-modcacherw", "GOWORK=off", "GOTOOLCHAIN=local")
	if out, err := tidy.CombinedOutput(); err != nil {
		t.Fatalf("go mod tidy: %v\n%s", err, out)
	}
}

// TestGoCache: a module whose dependencies the caller has downloaded builds without a
// network, and the second time without compiling anything.
func TestGoCache(t *testing.T) {
	t.Parallel()
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

// poisonGo builds, writes another package lib over the compiled one in GOCACHE, and builds again.
const poisonGo = `set -e
go build -x -o /tmp/first . 2>&1 | grep /compile && exit 1
kept=$(go list -export -f '{{.Export}}' ./lib)
cp -R /workspace /tmp/other && cd /tmp/other && sed -i s/plain/POISN/ lib/lib.go
other=$(go list -export -f '{{.Export}}' ./lib)
chmod u+w "$kept"; cat "$other" > "$kept"
cd /workspace && go build -o /tmp/second . && /tmp/second 2>&1`

// TestGoCachePoisoned: a command that changes a compiled package in the cache of go decides what
// later builds of an ordinary sandbox make, and so what the host runs, only if what it changes in
// the workspace stays there, too. Builds where it does not begin with what is kept.
func TestGoCachePoisoned(t *testing.T) {
	ws := t.TempDir()
	paddock := withCaches(t, ws)
	testkit.RequireOverlays(t)
	if err := paddock("run", "--", "sh", "-c", "command -v go").Run(); err != nil {
		t.Skip("no go is visible inside: ", err)
	}
	writeFiles(t, ws, map[string]string{
		"go.mod": "module example.com/app\n\ngo 1.21\n", "lib/lib.go": "package lib\n\nfunc Text() string { return \"plain\" }\n",
		"main.go": "package main\n\nimport \"example.com/app/lib\"\n\nfunc main() { println(lib.Text()) }\n",
		"ro.yaml": "workspace: {access: ro}\n",
	})
	build := func() string {
		t.Helper()
		outputOf(t, paddock("run", "-q", "--", "go", "build", "-o", "app", "."))
		out, err := exec.Command(filepath.Join(ws, "app")).CombinedOutput() // outside
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if out := build(); out != "plain\n" {
		t.Fatalf("the program says %q", out)
	}
	for _, tt := range []struct {
		args  []string
		lands bool
	}{
		{[]string{"try", "-q"}, false},
		{[]string{"run", "-q", "--workspace-mode", "copy"}, false},
		{[]string{"run", "-q", "--spec", filepath.Join(ws, "ro.yaml")}, false},
		{[]string{"run", "-q"}, true}, // or the others prove nothing
	} {
		cmd := paddock(append(tt.args, "--", "sh", "-c", poisonGo)...)
		if out, err := cmd.Output(); err != nil || string(out) != "POISN\n" {
			t.Errorf("%q: the attack: %v: %s", tt.args, err, out)
		}
		if out := build(); (out == "POISN\n") != tt.lands {
			t.Errorf("after %q the host's program says %q", tt.args, out)
		}
	}
}

// TestGoSwitch: a module that needs another Go than the host's is built with the one that the
// caller's go has downloaded for it, without a network, and with caches or without. The host's
// own go downloads it here, from a proxy in files; that Go is a script.
func TestGoSwitch(t *testing.T) {
	ws, home := t.TempDir(), t.TempDir()
	paddock := withCaches(t, ws)
	if err := paddock("run", "--", "sh", "-c", "command -v go").Run(); err != nil {
		t.Skip("no go is visible inside: ", err)
	}
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", home).Run() }) // go closes what it unpacks of itself
	const name = "go1.99.1"
	proxy := goProxy(t, "golang.org/toolchain", "v0.0.1-"+name+"."+runtime.GOOS+"-"+runtime.GOARCH, map[string]string{
		"go.mod": "module golang.org/toolchain\n", "VERSION": name, "src/runtime/x.go": "package runtime\n", "pkg/tool/x": "x", "lib/x": "x", "bin/gofmt": "x",
		"bin/go": "#!/bin/sh\necho \"$(cat \"$(dirname \"$(readlink -f \"$0\")\")/../VERSION\"): $*\"\n",
	})
	writeFiles(t, ws, map[string]string{"go.mod": "module example.com/app\n\ngo 1.21\n\ntoolchain " + name + "\n"})
	goTest := func(args ...string) string {
		t.Helper()
		cmd := paddock(append(append([]string{"run"}, args...), "--", "go", "test", "./...")...)
		cmd.Env = append(cmd.Env, "HOME="+home, "GOMODCACHE=", "GOPATH=", "GOTOOLCHAIN=auto")
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	if out := goTest("-e", "GOTOOLCHAIN=auto"); !strings.Contains(out, "download "+name) || !strings.Contains(out, "run go version here, outside of the sandbox") {
		t.Errorf("before it was downloaded: %s", out)
	}
	download := exec.Command("go", "version")
	download.Dir = ws
	download.Env = append(os.Environ(), "HOME="+home, "GOMODCACHE=", "GOPATH=", "GOPROXY="+proxy, "GOSUMDB=off", "GOWORK=off", "GOTOOLCHAIN=auto")
	if out, err := download.CombinedOutput(); err != nil || !strings.HasPrefix(string(out[bytes.LastIndex(out, []byte("go1")):]), name+": version") {
		t.Fatalf("go version: %v\n%s", err, out)
	}
	writeFiles(t, home, map[string]string{"go/pkg/mod/golang.org/x/secret": "x"})
	for _, args := range [][]string{nil, nil, {"--cache", "none"}} {
		if out := goTest(args...); out != name+": test ./...\n" {
			t.Errorf("%q: %s", args, out)
		}
	}
	if out := goTest("--no-toolchains"); strings.Contains(out, name+": test") {
		t.Errorf("without toolchains: %s", out)
	}
	cmd := paddock("run", "--", "sh", "-c", `cd "$0" && ls && cd toolchain*/bin && echo x > go`, home+"/go/pkg/mod/golang.org")
	cmd.Env = append(cmd.Env, "HOME="+home, "GOMODCACHE=", "GOPATH=", "GOTOOLCHAIN=auto")
	if out, _ := cmd.CombinedOutput(); !strings.HasPrefix(string(out), "toolchain@v0.0.1-"+name+".") || strings.Contains(string(out), "\nx\n") || !strings.Contains(string(out), "Read-only file system") {
		t.Errorf("inside there is %s", out)
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
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "a sandbox uses it") || !strings.Contains(string(out), "hint: it can be removed once that has ended") {
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

// crateServer serves a registry with one package, and writes a project that needs it.
func crateServer(t *testing.T, ws string) {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	tw := tar.NewWriter(zw)
	for name, text := range map[string]string{
		"mydep-1.0.0/Cargo.toml": "[package]\nname = \"mydep\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
		"mydep-1.0.0/src/lib.rs": "pub fn text() -> &'static str { \"from the package\" }\n",
	} {
		err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		if err == nil {
			_, err = tw.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(tw.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/config.json":
			_, _ = fmt.Fprintf(w, `{"dl":"http://%s/dl"}`, r.Host)
		case "/my/de/mydep":
			_, _ = fmt.Fprintf(w, `{"name":"mydep","vers":"1.0.0","deps":[],"cksum":"%x","features":{},"yanked":false}`+"\n", sha256.Sum256(b.Bytes()))
		case "/dl/mydep/1.0.0/download", "/dl":
			_, _ = w.Write(b.Bytes())
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	writeFiles(t, ws, map[string]string{
		"Cargo.toml":         "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nmydep = \"1\"\n",
		"src/main.rs":        "fn main() { println!(\"{}\", mydep::text()); }\n",
		".cargo/config.toml": "[source.crates-io]\nreplace-with = \"local\"\n[source.local]\nregistry = \"sparse+" + server.URL + "/\"\n",
	})
}

// TestCargoCache: a project whose packages the caller has downloaded builds without a network,
// and nothing else of the caller's cargo comes inside.
func TestCargoCache(t *testing.T) {
	t.Parallel()
	sysroot, err := exec.Command("rustc", "--print", "sysroot").Output()
	if err != nil {
		t.Skip("there is no rust here: ", err)
	}
	rust := strings.TrimSpace(string(sysroot))
	ws, home := t.TempDir(), t.TempDir()
	paddock := withCaches(t, ws)
	crateServer(t, ws)
	fetch := exec.Command(filepath.Join(rust, "bin", "cargo"), "fetch")
	fetch.Dir, fetch.Env = ws, append(os.Environ(), "CARGO_HOME="+filepath.Join(home, ".cargo"))
	switch out, err := fetch.CombinedOutput(); {
	case err != nil && strings.Contains(string(out), "usage of sparse registries requires"): // before cargo 1.68
		t.Skip("there is no rust here: cargo is too old for registries by HTTP")
	case err != nil:
		t.Fatalf("cargo fetch: %v\n%s", err, out)
	}
	writeFiles(t, home, map[string]string{".cargo/credentials.toml": "x", ".cargo/config.toml": "x", ".cargo/git/x": "x"})
	build := func(args ...string) string {
		t.Helper()
		args = append([]string{"run", "--ro", rust, "-e", "PATH=" + rust + "/bin:/usr/bin:/bin", "-e", "CARGO_TARGET_DIR=/tmp/target"}, args...)
		if rust == "/usr" {
			args = slices.Delete(args, 1, 3)
		}
		cmd := paddock(append(args, "--", "sh", "-c", "cargo run --locked 2>&1; find "+home+" 2>&1")...)
		cmd.Env = append(cmd.Env, "HOME="+home, "CARGO_HOME=")
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	for range 2 {
		out := build()
		if !strings.Contains(out, "from the package") {
			t.Fatalf("it does not build: %s", out)
		}
		for _, secret := range []string{"credentials.toml", ".cargo/config.toml", ".cargo/git"} {
			if strings.Contains(out, secret) {
				t.Errorf("inside there is %s: %s", secret, out)
			}
		}
	}
	if out := build("--cache", "none"); strings.Contains(out, "from the package") {
		t.Errorf("without caches the package comes from somewhere: %s", out)
	}
	// A hostile run leaves a link where the registry is mounted: later runs start all the same.
	if out, err := paddock("run", "--", "sh", "-c", "rm -rf $CARGO_HOME/registry; ln -s /etc $CARGO_HOME/registry").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out := build(); !strings.Contains(out, home) || strings.Contains(out, "cannot start") {
		t.Errorf("after a hostile run: %s", out)
	}
}

// TestCacheTrimmed: a start over one workspace removes the caches of others when all together
// are too large, and not its own.
func TestCacheTrimmed(t *testing.T) {
	big, small := t.TempDir(), t.TempDir()
	for _, ws := range []string{big, small} {
		writeFiles(t, ws, map[string]string{"package.json": "{}"})
	}
	paddock := withCaches(t, big)
	if out, err := paddock("run", "--", "sh", "-c", "head -c 3000000 /dev/zero > $npm_config_cache/f").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := paddock("run", "-w", small, "--", "sh", "-c", "head -c 3000000 /dev/zero > $npm_config_cache/f; cat; cd $npm_config_cache; ls f")
	cmd.Env = append(cmd.Env, "PADDOCK_CACHE_MAX=1MiB")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the other cache is gone", func() bool {
		text := outputOf(t, paddock("cache", "list"))
		return !strings.Contains(text, big) && strings.Contains(text, small)
	})
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || out.String() != "f\n" {
		t.Errorf("its own cache has %q (%v)", out.String(), err)
	}
}
