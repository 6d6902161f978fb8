package namedhosts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"
)

// workspace returns a directory with these files.
func workspace(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// find returns what is found, as "file: rule" or "lock file: rule".
func find(t *testing.T, dir string) []string {
	t.Helper()
	found := []string{}
	for _, n := range Find(t.Context(), dir) {
		line := n.File + ": " + n.Rule.String()
		if n.Lock {
			line = "lock " + line
		}
		found = append(found, line)
	}
	return found
}

func TestFind(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		".npmrc":              {"registry=https://a.example/npm/\n@acme:registry = http://b.example:4873\n//a.example/:_authToken=https://secret.example/\n; registry=\n", []string{"a.example:443", "b.example:4873"}},
		".yarnrc":             {"registry \"https://a.example/\"\n", []string{"a.example:443"}},
		".yarnrc.yml":         {"npmRegistryServer: \"https://a.example\"\nhomepage: https://not.example\n", []string{"a.example:443"}},
		".cargo/config.toml":  {"[source.m]\nregistry = \"sparse+https://a.example/index/\"\n[registries.x]\nindex = \"https://b.example\"\n", []string{"a.example:443", "b.example:443"}},
		"pip.conf":            {"[global]\nindex-url = https://user:password@a.example/simple\nextra-index-url =\n  http://b.example/simple\n", []string{"a.example:443", "b.example:80"}},
		"requirements.txt":    {"--index-url https://a.example/simple\nx @ git+ssh://git@b.example/x.git\n", []string{"a.example:443", "b.example:22"}},
		"pyproject.toml":      {"[[tool.uv.index]]\nurl = \"https://a.example/simple\"\n[project.urls]\nHomepage = \"https://not.example\"\n", []string{"a.example:443"}},
		"Pipfile":             {"[[source]]\nurl = \"https://a.example/simple\"\n", []string{"a.example:443"}},
		".git/config":         {"[remote \"origin\"]\n\turl = git@a.example:x/y.git\n\tpushurl = https://b.example:8443/x\n[remote \"l\"]\n\turl = /srv/git/x\n", []string{"a.example:22", "b.example:8443"}},
		".gitmodules":         {"[submodule \"x\"]\n\turl = git://a.example/x\n\tpath = ../b\n", []string{"a.example:9418"}},
		"package-lock.json":   {`{"packages":{"x":{"resolved":"https://a.example/x.tgz","funding":{"url":"https://not.example"}},"y":{"resolved":"git+ssh://git@b.example/y.git"}}}`, []string{"a.example:443", "b.example:22"}},
		"npm-shrinkwrap.json": {`{"packages":{"x":{"resolved": "https://a.example/x.tgz"}}}`, []string{"a.example:443"}},
		"yarn.lock":           {"x@^1:\n  resolved \"https://a.example/x.tgz#abc\"\n", []string{"a.example:443"}},
		"pnpm-lock.yaml":      {"    resolution: {integrity: x, tarball: https://a.example/x.tgz}\n", []string{"a.example:443"}},
		"Cargo.lock":          {"source = \"registry+https://a.example/index\"\nsource = \"git+https://b.example/x?rev=1#2\"\n", []string{"a.example:443", "b.example:443"}},
		"poetry.lock":         {"[package.source]\nurl = \"https://a.example/simple\"\n", []string{"a.example:443"}},
		"uv.lock":             {"source = { registry = \"https://a.example/simple\" }\nsdist = { url = \"https://b.example/x.tar.gz\" }\n", []string{"a.example:443", "b.example:443"}},
		"Pipfile.lock":        {`{"_meta":{"sources":[{"url": "https://a.example/simple"}]}}`, []string{"a.example:443"}},
	} {
		before := name + ": "
		if strings.Contains(name, "lock") || strings.Contains(name, "shrinkwrap") {
			before = "lock " + before
		}
		for i := range tt.want {
			tt.want[i] = before + tt.want[i]
		}
		if diff := cmp.Diff(tt.want, find(t, workspace(t, map[string]string{name: tt.text}))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestFindNamesEachHostOnce(t *testing.T) {
	dir := workspace(t, map[string]string{
		".npmrc":            "registry=https://a.example",
		"package-lock.json": strings.Repeat(`"resolved": "https://a.example/x", "resolved": "https://A.Example./y", "resolved": "http://a.example/y"`, 1000),
	})
	if diff := cmp.Diff([]string{".npmrc: a.example:443", "lock package-lock.json: a.example:80"}, find(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// TestFindInHostileFiles: links are not followed, FIFOs not waited for, and what is no host of a
// rule is left out.
func TestFindInHostileFiles(t *testing.T) {
	outside := workspace(t, map[string]string{"secret": "registry=https://outside.example", "config.toml": `index = "https://outside.example"`})
	var many strings.Builder
	for i := range 200 {
		fmt.Fprintf(&many, "\"resolved\": \"https://h%d.example/\"\n", i)
	}
	dir := workspace(t, map[string]string{
		"requirements.txt":  "https://a.example\x1b[31m/\nhttps://\x00evil/\nhttp://127.0.0.1/\nhttp://169.254.169.254/\nhttps://168.63.129.16/\nhttp://[::1]/\nhttps://*.example/\nhttps://0x7f.1/\nhttps://x:99999/\nhttps://" + strings.Repeat("l", 5000) + "/\nhttps://ok.example/\n",
		"package-lock.json": many.String(),
		"uv.lock":           `url = "https://large.example/" ` + strings.Repeat(" ", maxFile),
	})
	for _, err := range []error{
		os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, ".npmrc")),
		os.Symlink(outside, filepath.Join(dir, ".cargo")),
		unix.Mkfifo(filepath.Join(dir, "yarn.lock"), 0o644),
		os.Mkdir(filepath.Join(dir, "Cargo.lock"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	found := find(t, dir)
	if len(found) != maxHosts || found[0] != "requirements.txt: ok.example:443" {
		t.Errorf("%d hosts: %q", len(found), found)
	}
	for _, line := range found {
		if strings.Contains(line, "outside") || strings.Contains(line, "large") || strings.ContainsAny(line, "\x00\x1b*") {
			t.Errorf("found %q", line)
		}
	}
}
