//go:build linux

package network

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// npmRegistry answers for the package dep, whose file it has itself.
func npmRegistry(t *testing.T, host string) http.Handler {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	tw := tar.NewWriter(zw)
	text := `{"name":"dep","version":"1.0.0"}`
	err := tw.WriteHeader(&tar.Header{Name: "package/package.json", Mode: 0o644, Size: int64(len(text))})
	if err == nil {
		_, err = tw.Write([]byte(text))
	}
	if err := errors.Join(err, tw.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(b.Bytes())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/dep":
			fmt.Fprintf(w, `{"name":"dep","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"dep","version":"1.0.0","dist":{"tarball":"https://%s/dep.tgz","integrity":"sha512-%s"}}}}`,
				host, base64.StdEncoding.EncodeToString(sum[:]))
		case "/dep.tgz":
			_, _ = w.Write(b.Bytes())
		default:
			http.NotFound(w, r)
		}
	})
}

// project is a workspace of the test's user, below a home of its own.
func project(t *testing.T, w *world) (home, dir string) {
	t.Helper()
	home = filepath.Join(t.TempDir(), "home")
	dir = filepath.Join(home, "project")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for at := home; at != os.TempDir() && at != "/"; at = filepath.Dir(at) { // commands are another user's
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Write(t, filepath.Join(dir, "ca.pem"), string(w.ca), 0o644)
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	return home, dir
}

// paddockRun runs the program over a workspace, and returns what it printed to both streams and its
// exit status.
func paddockRun(t *testing.T, home, dir string, args ...string) (out string, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "paddock"), args...)
	cmd.Dir = dir
	state := filepath.Join(home, "state")
	if slices.Contains(args, "--allow-from") {
		state = filepath.Join(testkit.Private(t), "state")
	}
	cmd.Env = append(os.Environ(), "HOME="+home, "PADDOCK_STATE_DIR="+state, "PADDOCK_CACHE_DIR="+filepath.Join(home, "caches"))
	text, err := cmd.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// TestAllowFromNPM: the real npm says where its user's registry is, and npm inside installs from
// there, and from nowhere else; any other host is refused at once, with the flag that opens it.
func TestAllowFromNPM(t *testing.T) {
	w := newWorld(t)
	w.https(t, "npm.test:443", npmRegistry(t, "npm.test"))
	w.https(t, "evil.test:443", hello)
	home, dir := project(t, w)
	if out, status := paddockRun(t, home, dir, "run", "-q", "--", "npm", "--version"); status != 0 {
		t.Skip("no npm is visible inside: " + out)
	}
	testkit.Write(t, filepath.Join(home, ".npmrc"), "registry=https://npm.test/\n", 0o600)
	testkit.Write(t, filepath.Join(dir, "uv.lock"), `url = "https://evil.test/x.whl"`, 0o644)
	flags := []string{"run", "--allow-from", "npm", "-e", "npm_config_cafile=/workspace/ca.pem", "--"}
	out, status := paddockRun(t, home, dir, append(flags, "npm", "install", "--no-audit", "--no-fund", "dep")...)
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "dep", "package.json")); status != 0 || err != nil {
		t.Errorf("npm install: status %d, %v: %s", status, err, out)
	}
	if !has(out, "uv.lock of the workspace names evil.test, which stays closed: --allow evil.test:443 opens it") {
		t.Errorf("what the workspace names is not told: %s", out)
	}
	out, status = paddockRun(t, home, dir, append(flags, "node", "-e", `require("dns").lookup("evil.test", e => console.log(e ? e.code : "found"))`)...)
	if !has(out, "ENOTFOUND", "denied: network: allow, evil.test (no rule opens it; --allow evil.test opens it; uv.lock of the workspace names it)") {
		t.Errorf("another host: status %d: %s", status, out)
	}
	for _, name := range w.seen() {
		if name != "npm.test:443" {
			t.Errorf("the operator's proxy was asked for %s", name)
		}
	}
}

// TestObserve: every public name can be reached, addresses and other ports cannot, and what was
// reached is printed as rules, the rarest first. A sandbox that observes can get rules, and then
// says so.
func TestObserve(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("there is no /usr/bin/python3")
	}
	w := newWorld(t)
	w.https(t, "often.test:443", hello)
	w.https(t, "rare.test:443", hello)
	plain := listen(t)
	serve(plain, func(c net.Conn) { _, _ = io.WriteString(c, "ready") })
	w.add("rare.test:7000", plain)
	w.add("rare.test:7001", plain)
	home, dir := project(t, w)
	get := `import ssl, sys, urllib.request
c = ssl.create_default_context(cafile="/workspace/ca.pem")
for url in sys.argv[1:]: print(urllib.request.urlopen(url, context=c).read())`
	testkit.Write(t, filepath.Join(dir, "get.py"), get, 0o644)
	testkit.Write(t, filepath.Join(dir, "dial.py"), dial, 0o644)
	script := "python3 get.py https://often.test/ https://often.test/ https://rare.test/; python3 dial.py rare.test 7000; python3 dial.py rare.test 7001; python3 dial.py 169.254.169.254 80 x; python3 dial.py 127.0.0.1 7000"
	out, status := paddockRun(t, home, dir, "run", "--network", "observe", "--observe-ports", "7000", "--", "sh", "-c", script)
	if status != 0 || !has(out, "hello from often.test", "hello from rare.test", "got b'ready'", "ECONNREFUSED") || strings.Count(out, "ready") != 1 {
		t.Errorf("status %d: %s", status, out)
	}
	_, rules, _ := strings.Cut(out, "paddock: what was reached, as rules of a spec:\n# network:\n#   allow:\n")
	lines := strings.Split(rules, "\n")
	if len(lines) < 3 || !has(lines[0], "#     - {host: rare.test, ports: [", "# 1 connection, ") || !has(lines[1], "rare.test") || !has(lines[2], "{host: often.test, ports: [443]}  # 2 connections, ", "received") {
		t.Errorf("the rules: %q", lines)
	}
	if out, status := paddockRun(t, home, dir, "run", "-q", "--network", "observe", "--", "python3", "get.py", "https://rare.test/"); status != 0 || strings.Contains(out, "rules of a spec") {
		t.Errorf("status %d: %s", status, out)
	}

	box := w.open(t, policy.Network{Mode: policy.NetworkObserve})
	if iso := box.Isolation(); iso.Network != policy.NetworkObserve {
		t.Errorf("isolation says %s", iso.Network)
	}
	if err := box.AddNetwork(t.Context(), allow(t, "often.test").Allow, nil); err == nil {
		t.Error("rules were added, and all is open")
	}
	if err := box.SetNetwork(t.Context(), allow(t, "often.test")); err != nil {
		t.Fatal(err)
	}
	if iso := box.Isolation(); iso.Network != policy.NetworkAllow {
		t.Errorf("with rules, isolation says %s", iso.Network)
	}
	if out := python(t, box, dial, "rare.test", "443"); !strings.Contains(out, "EAI -2") {
		t.Errorf("after it got rules: %s", out)
	}
	if err := box.SetNetwork(t.Context(), policy.Network{Mode: policy.NetworkObserve}); err == nil {
		t.Error("it observes again")
	}
}

// TestAllowFromOfAHostileWorkspace: of a workspace in which everything that tools could obey
// points to another host or executes something, nothing is obeyed, nothing executed, and nothing
// waited for.
func TestAllowFromOfAHostileWorkspace(t *testing.T) {
	w := newWorld(t)
	home, dir := project(t, w)
	bin := filepath.Join(home, "tools", "bin")
	ran := "touch " + filepath.Join(home, "ran") + "\n"
	for name, script := range map[string]string{
		"npm":     `[ ! -e .npmrc ] && echo '{"registry":"https://npm.test/"}'`,
		"go":      `[ ! -e go.mod ] && echo '{"GOPROXY":"https://go.test","GOSUMDB":"off"}'`,
		"pip":     `case "$*" in *--help) echo '--index-url <url> x (default https://pip.test/simple)';; *--report*) echo '{"url": "https://pip.test/x"}';; esac`,
		"cargo":   "[ ! -e .cargo ] && echo 'from `https://cargo.test/x`' >&2; exit 1",
		"apt-get": `echo http://apt.test/debian`,
	} {
		testkit.Write(t, filepath.Join(bin, name), "#!/bin/sh\n"+script+"\n", 0o755)
		testkit.Write(t, filepath.Join(dir, "bin", name), "#!/bin/sh\n"+ran, 0o755)
		testkit.Write(t, filepath.Join(dir, "node_modules", ".bin", name), "#!/bin/sh\n"+ran, 0o755)
	}
	for name, text := range map[string]string{
		".npmrc":             "registry=https://evil1.test/\nnode-options=--require ./evil.js\n",
		".yarnrc":            `registry "https://evil2.test"`,
		".yarnrc.yml":        "npmRegistryServer: https://evil3.test\nyarnPath: ./evil.js\n",
		".cargo/config.toml": "[source.crates-io]\nreplace-with = \"x\"\n[source.x]\nregistry = \"sparse+https://evil4.test/\"\n[build]\nrustc-wrapper = \"./evil\"\n",
		"rust-toolchain":     "evil",
		"go.mod":             "module x\n\ngo 1.999\n\ntoolchain go1.999.1\n",
		"go.env":             "GOPROXY=https://evil.test\n",
		"pip.conf":           "[global]\nindex-url = https://evil5.test/simple\n",
		"requirements.txt":   "--index-url https://evil6.test/simple\n",
		".git/config":        "[remote \"origin\"]\n\turl = git@evil7.test:x.git\n[core]\n\tfsmonitor = \"" + strings.TrimSpace(ran) + "\"\n",
		".gitmodules":        "[submodule \"x\"]\n\turl = https://evil8.test/x\x1b[31m\n",
		"package-lock.json":  `{"resolved": "https://evil9.test/x.tgz"}`,
	} {
		testkit.Write(t, filepath.Join(dir, name), text, 0o644)
	}
	for _, err := range []error{
		unix.Mkfifo(filepath.Join(dir, "yarn.lock"), 0o644),
		os.Symlink("/dev/zero", filepath.Join(dir, "Cargo.lock")),
		os.Symlink(home, filepath.Join(dir, "uv.lock")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	path := strings.Join([]string{"bin", "node_modules/.bin", filepath.Join(dir, "bin"), filepath.Join(dir, "node_modules", ".bin"), bin, "/usr/bin", "/bin"}, ":")
	t.Setenv("PATH", path)
	out, status := paddockRun(t, home, dir, "plan", "--allow-from", "npm,go,pip", "--allow-from", "cargo,apt")
	if status != 0 {
		t.Fatalf("status %d: %s", status, out)
	}
	for _, host := range []string{"npm.test", "go.test", "pip.test", "cargo.test"} {
		if !has(out, host+" ") {
			t.Errorf("%s is not open: %s", host, out)
		}
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "  open") && strings.Contains(line, "evil") {
			t.Errorf("the workspace has opened a host: %s", line)
		}
	}
	if !has(out, ".npmrc of the workspace names evil1.test, which stays closed: --allow evil1.test:443 opens it", "evil2.test", "evil3.test", "evil4.test", "evil5.test", "evil6.test", "evil7.test:22") || strings.Contains(out, "\x1b") {
		t.Errorf("what the workspace names: %s", out)
	}
	if _, err := os.Stat(filepath.Join(home, "ran")); err == nil {
		t.Error("a program of the workspace was executed")
	}
}
