package arch

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// files calls f with every file of the tree that could be committed, by its
// path below the root.
func files(t *testing.T, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root(), path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (rel == ".git" || rel == "bin" || rel == ".cache"):
			return filepath.SkipDir
		case d.Type().IsRegular() && rel != ".git":
			f(rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(), path))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// pkgDir is a directory with Go files: those of the package, or the tests
// where there is nothing else.
type pkgDir struct {
	hasCode         bool
	inCode, inTests []string // files with a package comment
}

// Every package has its manual in one place: two package comments are joined
// by go doc in an order that nobody chose.
func TestOnePackageComment(t *testing.T) {
	dirs := make(map[string]*pkgDir)
	files(t, func(path string) {
		if !strings.HasSuffix(path, ".go") || strings.Contains(path, "testdata/") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, read(t, path), parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Error(err)
			return
		}
		dir, name := filepath.Split(path)
		if dirs[dir] == nil {
			dirs[dir] = new(pkgDir)
		}
		in := &dirs[dir].inTests
		if !strings.HasSuffix(name, "_test.go") {
			dirs[dir].hasCode = true
			in = &dirs[dir].inCode
		}
		if file.Doc != nil {
			*in = append(*in, name)
		}
	})
	for dir, d := range dirs {
		found := d.inTests
		if d.hasCode {
			found = d.inCode
		}
		if len(found) != 1 {
			t.Errorf("package %q has %d package comments, want 1: %v", "./"+dir, len(found), found)
		}
	}
}

// A file is a topic, most often of 100 to 500 lines, and is read as a whole:
// nobody reads one of more than this.
func TestFileLength(t *testing.T) {
	const most = 800
	files(t, func(path string) {
		switch filepath.Ext(path) {
		case ".go", ".s", ".sh":
		default:
			return
		}
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		if n := bytes.Count(read(t, path), []byte("\n")); n > most {
			t.Errorf("%s has %d lines, want at most %d", path, n, most)
		}
	})
}

// Which registries a machine uses is the machine's business: a name in the
// tree would bind everybody to it. The names are put together here, so that
// this file does not hold them itself. With a slash: the name is also that of a
// package of Debian's, or a word that starts with it.
func TestNoRegistryHosts(t *testing.T) {
	var hosts []string
	for _, parts := range [][]string{
		{"proxy", "golang", "org"}, {"sum", "golang", "org"}, {"goproxy", "io"}, {"goproxy", "cn"},
		{"docker", "io/"}, {"ghcr", "io"}, {"quay", "io"}, {"gcr", "io"}, {"pkg", "dev/"},
		{"pypi", "org"}, {"pythonhosted", "org"}, {"npmjs", "org"}, {"npmjs", "com"}, {"crates", "io"},
		{"rubygems", "org"}, {"deb", "debian", "org"}, {"archive", "ubuntu", "com"},
	} {
		hosts = append(hosts, strings.Join(parts, "."))
	}
	files(t, func(path string) {
		text := string(read(t, path))
		for _, host := range hosts {
			if strings.Contains(text, host) {
				t.Errorf("%s names the registry host %s", path, host)
			}
		}
	})
}

// The agent is copied into every sandbox and every microVM.
func TestAgentSize(t *testing.T) {
	const most = 6_500_000 // bytes
	bin := filepath.Join(t.TempDir(), "paddock-agent")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin, "./cmd/paddock-agent")
	build.Dir = root()
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the agent: %v\n%s", err, out)
	}
	info, err := os.Stat(bin)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the agent has %d bytes", info.Size())
	if info.Size() > most {
		t.Errorf("the agent has %d bytes, want at most %d", info.Size(), most)
	}
}
