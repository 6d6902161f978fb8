package script

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
)

// registrySecret is what registries of these tests ask for.
const registrySecret = "paddock-registry-secret"

// servePackages serves files on loopback, each at its path, to those who have the secret. By
// what these answers say, caches keep them, and the request headers with them.
func servePackages(t *testing.T, files func(url string) map[string][]byte) (url string) {
	t.Helper()
	var served map[string][]byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := served[r.URL.Path]
		if _, password, _ := r.BasicAuth(); password != registrySecret && r.Header.Get("Authorization") != "Bearer "+registrySecret {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "who is it?", http.StatusUnauthorized)
			return
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=31536000")
		w.Header().Set("Vary", "Authorization")
		if strings.HasSuffix(r.URL.Path, "/") {
			w.Header().Set("Content-Type", "text/html")
		}
		_, _ = w.Write(text)
	}))
	t.Cleanup(server.Close)
	served = files(server.URL)
	return server.URL
}

// npmPackage returns the package dep of npm.
func npmPackage(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	tw := tar.NewWriter(zw)
	for name, text := range map[string]string{"package/package.json": `{"name":"dep","version":"1.0.0"}`, "package/index.js": `module.exports = "from the package"`} {
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
	return b.Bytes()
}

// stateOf describes all files in a directory: modes, times, contents.
func stateOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %s %d", at, info.Mode(), info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %x", sha256.Sum256(text))
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// onHost runs a program outside of sandboxes, with this home and nothing else of the caller's.
func onHost(t *testing.T, dir, home, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
}

// TestNPMCache: a project whose packages the caller has downloaded installs them without a
// network, in any number of sandboxes at once. The caller's cache stays as it is, and what it
// holds besides the packages, credentials among it, does not come inside.
func TestNPMCache(t *testing.T) {
	t.Parallel()
	testkit.RequireOverlays(t)
	ws, home := t.TempDir(), t.TempDir()
	paddock := withCaches(t, ws)
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("no npm is visible inside: ", err)
	}
	if err := paddock("run", "--", "sh", "-c", "npm --version").Run(); err != nil {
		t.Skip("no npm is visible inside: ", err)
	}
	url := servePackages(t, func(url string) map[string][]byte {
		dep := npmPackage(t)
		hash := sha512.Sum512(dep)
		about, err := json.Marshal(map[string]any{"name": "dep", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": map[string]any{
			"name": "dep", "version": "1.0.0", "dist": map[string]string{"tarball": url + "/dep/-/dep-1.0.0.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(hash[:])}}}})
		if err != nil {
			t.Fatal(err)
		}
		return map[string][]byte{"/dep": about, "/dep/-/dep-1.0.0.tgz": dep}
	})
	writeFiles(t, ws, map[string]string{"package.json": `{"name":"app","version":"1.0.0","dependencies":{"dep":"1.0.0"}}`, "main.js": `console.log(require("dep"))`})
	writeFiles(t, home, map[string]string{".npmrc": "registry=" + url + "\n" + strings.TrimPrefix(url, "http:") + "/:_authToken=" + registrySecret + "\naudit=false\nfund=false\nupdate-notifier=false\n"})
	onHost(t, ws, home, "npm", "install")
	if err := os.RemoveAll(filepath.Join(ws, "node_modules")); err != nil {
		t.Fatal(err)
	}
	onHost(t, ws, home, "npm", "ci")
	if err := os.RemoveAll(filepath.Join(ws, "node_modules")); err != nil {
		t.Fatal(err)
	}
	index := exec.Command("grep", "-rl", registrySecret, filepath.Join(home, ".npm"))
	if out, err := index.Output(); err != nil || len(out) == 0 {
		t.Logf("the cache of this npm has no credentials: %s, %v", out, err)
	}
	before := stateOf(t, filepath.Join(home, ".npm"))
	run := func(args ...string) (string, error) {
		cmd := paddock(append([]string{"run"}, args...)...)
		cmd.Env = append(cmd.Env, "HOME="+home, "npm_config_cache=", "NPM_CONFIG_CACHE=")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	const ci = "npm ci --no-audit --no-fund 2>&1 && node main.js"
	if out, err := run("--cache", "none", "--", "sh", "-c", ci); err == nil || strings.Contains(out, "from the package") {
		t.Errorf("without caches the package comes from somewhere: %s", out)
	}
	for _, args := range [][]string{{"--", "sh", "-c", ci}, {"--", "sh", "-c", "rm -r node_modules; npm install --offline --no-audit --no-fund && node main.js"},
		{"--cache", "npm", "--", "sh", "-c", ci}} {
		if out, err := run(args...); err != nil || !strings.Contains(out, "from the package") {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
	var wait sync.WaitGroup
	for i := range 10 {
		wait.Go(func() {
			text, times := "mkdir /tmp/app && cp *.js* /tmp/app && cd /tmp/app && "+ci, 1
			if i == 0 { // what npm writes into its cache meanwhile, it finds there
				text, times = text+" && npm pack ./node_modules/dep && mkdir other && cd other && npm install --no-audit --no-fund ../dep-1.0.0.tgz && npm cache verify && node ../main.js", 2
			}
			if out, err := run("--", "sh", "-c", text); err != nil || strings.Count(out, "from the package") != times {
				t.Errorf("one of ten: %v\n%s", err, out)
			}
		})
	}
	wait.Wait()
	out, _ := run("--", "sh", "-c", "grep -rls "+registrySecret+" $npm_config_cache ~ "+home+"; ls $npm_config_cache/_cacache; ls -d "+home+"/.npm*")
	if strings.Contains(out, registrySecret) || strings.Contains(out, "index-v5/") || !strings.Contains(out, "content-v2\n") || strings.Contains(out, home+"/.npm\n") {
		t.Errorf("inside there is %s", out)
	}
	if now := stateOf(t, filepath.Join(home, ".npm")); now != before {
		t.Errorf("the cache was\n%s\nand is\n%s", before, now)
	}
}

// TestPipCache: what the caller has downloaded for pip, and names, is installed without a
// network, by name. Pip's own cache, with credentials in it, does not come inside.
func TestPipCache(t *testing.T) {
	t.Parallel()
	ws, home := t.TempDir(), t.TempDir()
	paddock := withCaches(t, ws)
	const python = "/usr/bin/python3" // the one inside
	if err := exec.Command(python, "-m", "pip", "--version").Run(); err != nil {
		t.Skip("no pip is visible inside: ", err)
	}
	if err := paddock("run", "--", python, "-m", "pip", "--version").Run(); err != nil {
		t.Skip("no pip is visible inside: ", err)
	}
	const wheel = "dep-1.0-py3-none-any.whl"
	url := servePackages(t, func(string) map[string][]byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for name, text := range map[string]string{
			"dep.py":                     "text = 'from the package'\n",
			"dep-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n",
			"dep-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
			"dep-1.0.dist-info/RECORD":   "dep.py,,\ndep-1.0.dist-info/METADATA,,\ndep-1.0.dist-info/WHEEL,,\ndep-1.0.dist-info/RECORD,,\n",
		} {
			w, err := z.Create(name)
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
		page := fmt.Sprintf(`<!DOCTYPE html><html><body><a href="/files/%s#sha256=%x">%s</a></body></html>`, wheel, sha256.Sum256(b.Bytes()), wheel)
		return map[string][]byte{"/simple/dep/": []byte(page), "/files/" + wheel: b.Bytes()}
	})
	writeFiles(t, ws, map[string]string{"requirements.txt": "dep==1.0\n", "main.py": "import dep; print(dep.text)\n"})
	wheels := filepath.Join(home, "wheels")
	index := strings.Replace(url, "http://", "http://user:"+registrySecret+"@", 1) + "/simple"
	onHost(t, ws, home, python, "-m", "pip", "download", "--disable-pip-version-check", "--trusted-host", "127.0.0.1", "-i", index, "-d", wheels, "-r", "requirements.txt")
	secret := base64.StdEncoding.EncodeToString([]byte("user:" + registrySecret))
	if out, err := exec.Command("grep", "-rl", secret, home).Output(); err != nil || len(out) == 0 {
		t.Logf("the cache of this pip has no credentials: %s, %v", out, err)
	}
	before := stateOf(t, home)
	run := func(links, text string) (string, error) {
		cmd := paddock("run", "--", "sh", "-c", text)
		cmd.Env = append(cmd.Env, "HOME="+home, "PIP_FIND_LINKS="+links)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	const install = python + " -m pip install --disable-pip-version-check --target /tmp/there -r requirements.txt && PYTHONPATH=/tmp/there " + python + " main.py"
	if out, err := run(wheels, install); err != nil || !strings.Contains(out, "from the package") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run("", install); err == nil {
		t.Errorf("without its place the package comes from somewhere: %s", out)
	}
	if out, _ := run(wheels, "echo x > "+wheels+"/x.whl; grep -rls "+secret+" $PIP_CACHE_DIR ~ "+home+"; find "+home); strings.Contains(out, secret) || strings.Contains(out, ".cache") || !strings.Contains(out, "Read-only file system") || !strings.Contains(out, wheels+"/"+wheel) {
		t.Errorf("inside there is %s", out)
	}
	if now := stateOf(t, home); now != before {
		t.Errorf("the home was\n%s\nand is\n%s", before, now)
	}
}
