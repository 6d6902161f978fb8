package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// A release made twice, in other directories and with nothing compiled before, is the same to
// the last byte; and what it consists of is whole.
func TestRelease(t *testing.T) {
	architectures = []string{runtime.GOARCH} // a cold build of one is long enough
	tree, dir := clone(t), t.TempDir()
	again := filepath.Join(dir, "elsewhere", "a clone")
	must(t, dir, identity(), "git", "clone", "-q", "--no-local", tree, again)
	var outs []string
	for i, from := range []string{tree, again} {
		out := filepath.Join(dir, "out", strings.Repeat("x", i), "release")
		if i > 0 {
			t.Setenv("GOCACHE", filepath.Join(dir, "compiled"))
			t.Setenv("TMPDIR", dir)
		}
		if err := release(from, out, "", false); err != nil {
			t.Fatal(err)
		}
		outs = append(outs, out)
	}
	names := list(t, outs[0])
	if !slices.Equal(names, list(t, outs[1])) || len(names) != 3 {
		t.Fatalf("the releases consist of %q and %q", names, list(t, outs[1]))
	}
	for _, name := range names {
		if string(content(t, outs[0], name)) != string(content(t, outs[1], name)) {
			t.Errorf("%s is another in the second release", name)
		}
	}
	if out := must(t, outs[0], nil, "sha256sum", "-c", "--strict", "SHA256SUMS"); strings.Count(out, ": OK\n") != 2 {
		t.Errorf("sha256sum says %q", out)
	}
	version := strings.TrimSuffix(strings.TrimPrefix(names[2], "paddock-"), "-linux-"+runtime.GOARCH+".tar.gz")
	t.Run("archive", func(t *testing.T) { tryArchive(t, filepath.Join(outs[0], names[2]), version) })
	t.Run("image", func(t *testing.T) { tryImage(t, filepath.Join(outs[0], names[1]), version) })
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func content(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// unpack writes a tar to a directory and returns the names in it. Everything must be root's and
// of the commit's time.
func unpack(t *testing.T, r io.Reader, dir string) []string {
	t.Helper()
	var names []string
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 1700000000 {
			t.Errorf("%s is of %d:%d and of %v", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			names = append(names, strings.TrimPrefix(h.Name, "/"))
			var data []byte
			if data, err = io.ReadAll(archive); err == nil {
				err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, os.FileMode(h.Mode)))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// An archive that is unpacked where directories exist leaves them as they are.
func TestInstallKeepsDirectories(t *testing.T) {
	dir := t.TempDir()
	archive, prefix := filepath.Join(dir, "paddock-v0.1.0.tar.gz"), filepath.Join(dir, "prefix")
	c := &commit{time: time.Unix(1700000000, 0)}
	if err := c.writeArchive(archive, []file{{"bin/paddock", 0o755, nil}, {"share/man/man1/paddock.1", 0o644, nil}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(prefix, 0o700), os.Mkdir(prefix+"/bin", 0o711), os.Mkdir(prefix+"/share", 0o700)); err != nil {
		t.Fatal(err)
	}
	must(t, dir, nil, "tar", "-xzf", archive, "--strip-components=1", "-C", prefix)
	for name, mode := range map[string]os.FileMode{".": 0o700, "bin": 0o711, "share": 0o700} {
		if info, err := os.Stat(filepath.Join(prefix, name)); err != nil || info.Mode().Perm() != mode || info.ModTime().Unix() == 1700000000 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for name, mode := range map[string]os.FileMode{"bin/paddock": 0o700, "share/man/man1/paddock.1": 0o600} {
		if info, err := os.Stat(filepath.Join(prefix, name)); err != nil || info.Mode()&0o7700 != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// tryArchive unpacks an archive and runs what is in it.
func tryArchive(t *testing.T, path, version string) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	names := unpack(t, z, dir)
	top := strings.TrimSuffix(filepath.Base(path), ".tar.gz")
	want := []string{
		"bin/paddock", "bin/paddock-agent", "bin/paddock-egress", "bin/paddock-keeper", "bin/paddock-server", "share/bash-completion/completions/paddock",
		"share/doc/paddock/LICENSE", "share/doc/paddock/LICENSES", "share/doc/paddock/README.md",
		"share/fish/vendor_completions.d/paddock.fish", "share/man/man1/paddock.1", "share/zsh/site-functions/_paddock",
	}
	for i := range want {
		want[i] = top + "/" + want[i]
	}
	if !slices.Equal(names, want) {
		t.Errorf("the archive holds %q, want %q", names, want)
	}
	dir = filepath.Join(dir, top)
	if out, err := paddock(t, filepath.Join(dir, "bin"), nil, "version"); err != nil || !strings.HasPrefix(out, "paddock "+version+"\n") {
		t.Errorf("the program is %q, %v; want version %s", out, err, version)
	}
	if out, err := paddock(t, filepath.Join(dir, "bin"), nil, "run", "--", "echo", "it runs"); err != nil || out != "it runs\n" {
		t.Errorf("the program printed %q, %v", out, err)
	}
	for name, want := range map[string]string{
		"share/man/man1/paddock.1":                     ".SS \"paddock mcp install ",
		"share/bash-completion/completions/paddock":    "complete -o default -F __start_paddock paddock",
		"share/zsh/site-functions/_paddock":            "#compdef paddock",
		"share/fish/vendor_completions.d/paddock.fish": "complete -c paddock ",
		"share/doc/paddock/LICENSE":                    "Apache License",
		"share/doc/paddock/LICENSES":                   "==== github.com/hashicorp/yamux ",
		"share/doc/paddock/README.md":                  "# Paddock\n",
	} {
		if text := content(t, dir, name); !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %q", name, want)
		}
	}
	for _, program := range programs {
		if dynamic(t, filepath.Join(dir, "bin", program)) {
			t.Errorf("%s needs a loader", program)
		}
	}
}

// tryImage reads an image as an engine does, and runs what is in it.
func tryImage(t *testing.T, path, version string) {
	image, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != runtime.GOARCH || config.Created.Unix() != 1700000000 ||
		!slices.Equal(config.Config.Entrypoint, []string{"/usr/local/bin/paddock"}) || config.Config.Labels["org.opencontainers.image.version"] != version {
		t.Errorf("the image is %+v", config)
	}
	dir := t.TempDir()
	r := mutate.Extract(image)
	defer r.Close()
	names := unpack(t, r, dir)
	slices.Sort(names)
	want := []string{"usr/local/bin/paddock", "usr/local/bin/paddock-agent", "usr/local/bin/paddock-egress", "usr/local/bin/paddock-keeper", "usr/local/bin/paddock-server", "usr/local/share/doc/paddock/LICENSES"}
	if !slices.Equal(names, want) {
		t.Errorf("the image holds %q, want %q", names, want)
	}
	if out, err := paddock(t, filepath.Join(dir, "usr", "local", "bin"), nil, "version"); err != nil || !strings.HasPrefix(out, "paddock "+version+"\n") {
		t.Errorf("the program is %q, %v; want version %s", out, err, version)
	}
}
