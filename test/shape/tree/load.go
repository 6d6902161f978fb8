package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is the import path of the tree that is measured.
const module = "github.com/paddock-dev/paddock"

// Package is one product package with its types, as built for Linux.
type Package struct {
	Path  string // import path below the module, "." for the root
	Files []*ast.File
	Types *types.Package
	Info  *types.Info
}

// Tree is the product of a module, type-checked from source.
type Tree struct {
	Root     string
	Fset     *token.FileSet
	Packages []*Package // dependencies first
}

// listed is what "go list" reports of one package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	ImportMap               map[string]string
}

// Load type-checks the product packages of the module at root. It needs only
// the go command: what the module imports comes as export data from the build
// cache.
func Load(root string) (*Tree, error) {
	cmd := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,ImportMap", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOWORK=off")
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list the packages of %s: %w\n%s", root, err, problems.Bytes())
	}
	t := &Tree{Root: root, Fset: token.NewFileSet()}
	exports := map[string]string{}
	checked := map[string]*types.Package{}
	fromExport := importer.ForCompiler(t.Fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return t, nil
		} else if err != nil {
			return nil, err
		}
		exports[l.ImportPath] = l.Export
		short, ours := below(l.ImportPath)
		if !ours || !isProduct(short) {
			continue
		}
		p, err := t.check(l, short, importFunc(func(path string) (*types.Package, error) {
			if mapped, ok := l.ImportMap[path]; ok {
				path = mapped
			}
			if p, ok := checked[path]; ok {
				return p, nil
			}
			return fromExport.Import(path)
		}))
		if err != nil {
			return nil, err
		}
		checked[l.ImportPath] = p.Types
		t.Packages = append(t.Packages, p)
	}
}

type importFunc func(path string) (*types.Package, error)

func (f importFunc) Import(path string) (*types.Package, error) { return f(path) }

// check parses and type-checks one package.
func (t *Tree) check(l listed, short string, imports types.Importer) (*Package, error) {
	p := &Package{Path: short, Info: &types.Info{
		Types:      map[ast.Expr]types.TypeAndValue{},
		Defs:       map[*ast.Ident]types.Object{},
		Uses:       map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
		Instances:  map[*ast.Ident]types.Instance{},
	}}
	for _, name := range l.GoFiles {
		f, err := parser.ParseFile(t.Fset, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.Files = append(p.Files, f)
	}
	var err error
	p.Types, err = (&types.Config{Importer: imports}).Check(l.ImportPath, t.Fset, p.Files, p.Info)
	return p, err
}

// below returns an import path of this module without its prefix.
func below(path string) (short string, ours bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// File returns the file that holds a position, by its path below the root.
func (t *Tree) File(pos token.Pos) string {
	name := t.Fset.Position(pos).Filename
	if rel, err := filepath.Rel(t.Root, name); err == nil {
		return rel
	}
	return name
}
