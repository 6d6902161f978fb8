// Package arch holds tests of the shape of the code: who imports whom, what
// the agent may weigh, how long a file may be. The import rules stand here
// alone, each with its reason.
package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/paddock-dev/paddock"

// pkg is what "go list -deps -json" says of one package.
type pkg struct {
	ImportPath                         string
	Dir                                string
	Standard                           bool
	Imports, TestImports, XTestImports []string
	Deps                               []string
}

// ours says whether the package belongs to this repository.
func (p pkg) ours() bool { return within(p.ImportPath, module) }

// short is the import path below the module, "." for its root.
func (p pkg) short() string {
	if p.ImportPath == module {
		return "."
	}
	return strings.TrimPrefix(p.ImportPath, module+"/")
}

// within says whether path is prefix or a package below it.
func within(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// root is the directory of the module.
var root = sync.OnceValue(func() string {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return dir
})

// graph is every package that a build of the product, of its tests' programs and
// of its benchmarks for Linux contains, by import path. Tests and what only tests import are not part of it.
var graph = sync.OnceValues(func() (map[string]pkg, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,Imports,TestImports,XTestImports,Deps", "./...", "./test/...", "./bench/...")
	cmd.Dir = root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(err, errors.New(problems.String()))
	}
	packages := make(map[string]pkg)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages[p.ImportPath] = p
	}
})

// packages gives the graph or ends the test.
func packages(t *testing.T) map[string]pkg {
	t.Helper()
	g, err := graph()
	if err != nil {
		t.Fatalf("cannot list the packages: %v", err)
	}
	return g
}

// paths are the import paths of a graph in order.
func paths(g map[string]pkg) []string {
	var all []string
	for path := range g {
		all = append(all, path)
	}
	slices.Sort(all)
	return all
}
