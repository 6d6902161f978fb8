// Package tree measures the shape of the product: how much there is to read, how
// it is cut into files and functions, which file leans on which, and through
// which files a value passes. "make shape" prints it, and test/arch checks it.
//
// The product is every .go and .s file that is neither a test nor a part of the
// tests: see [Machinery].
package tree

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Machinery are the directories that serve tests and benchmarks alone. Files
// named *_test.go, files below a testdata, and files that only a build with the
// tag "fixtures" has are no product either.
var Machinery = []string{"test", "bench", "examples", "test/backendtest", "internal/testkit/boxtest", "internal/testkit", "internal/testsum"}

// isProduct reports whether a path below the root, of a file or of a package,
// is outside what serves tests.
func isProduct(path string) bool {
	if strings.Contains("/"+path+"/", "/testdata/") || strings.HasSuffix(path, "_test.go") {
		return false
	}
	return !slices.ContainsFunc(Machinery, func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
}

// Source is one product file.
type Source struct {
	Path  string // below the root
	Lines int
	ast   *ast.File // nil for assembly
}

// Sources reads every product file below root, for every platform.
func Sources(root string) ([]Source, *token.FileSet, error) {
	var all []Source
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); rel != "." && (strings.HasPrefix(base, ".") || base == "bin" || !isProduct(rel)) {
				return filepath.SkipDir
			}
			return nil
		}
		ext := filepath.Ext(name)
		if !d.Type().IsRegular() || ext != ".go" && ext != ".s" || !isProduct(rel) {
			return nil
		}
		s := Source{Path: filepath.ToSlash(rel)}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if s.Lines = bytes.Count(text, []byte("\n")); ext == ".go" {
			if s.ast, err = parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
				return err
			}
			if needsFixtures(s.ast) {
				return nil
			}
		}
		all = append(all, s)
		return nil
	})
	return all, fset, err
}

// needsFixtures reports whether only a build with the tag fixtures has a file.
func needsFixtures(f *ast.File) bool {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if c.Pos() < f.Package && strings.HasPrefix(c.Text, "//go:build ") && strings.HasSuffix(c.Text, "&& fixtures") {
				return true
			}
		}
	}
	return false
}

// Func is one function or method.
type Func struct {
	File, Name  string
	Line, Lines int
}

// Shape is how the product is cut.
type Shape struct {
	Files, Functions []int  // lines of each, in order
	Lines            int    // of all files
	OneCaller        []Func // see [Measure]
	Largest          string // directory with the most files
	LargestFiles     int    // in it
}

// Measure reads the product below root.
//
// A function has one caller where it is unexported and its package names it
// exactly once beside its declaration, in files that are no tests. Names are
// compared, not objects: a method shares its name with others, and a tree whose
// modules are not at hand can be measured in the same way.
func Measure(root string) (Shape, error) {
	sources, fset, err := Sources(root)
	if err != nil {
		return Shape{}, err
	}
	var shape Shape
	inDir := map[string]int{}
	named, declared := map[[2]string]int{}, map[[2]string]int{} // by directory and name
	var unexported []Func
	for _, s := range sources {
		dir := path.Dir(s.Path)
		inDir[dir]++
		shape.Lines += s.Lines
		shape.Files = append(shape.Files, s.Lines)
		if s.ast == nil {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				named[[2]string{dir, id.Name}]++
			}
			return true
		})
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			first, last := fset.Position(f.Pos()).Line, fset.Position(f.End()).Line
			name := f.Name.Name
			declared[[2]string{dir, name}]++
			shape.Functions = append(shape.Functions, last-first+1)
			if !f.Name.IsExported() && name != "main" && name != "init" && name != "_" {
				unexported = append(unexported, Func{s.Path, name, first, last - first + 1})
			}
		}
	}
	for _, f := range unexported {
		if key := [2]string{path.Dir(f.File), f.Name}; named[key]-declared[key] == 1 {
			shape.OneCaller = append(shape.OneCaller, f)
		}
	}
	for dir, n := range inDir {
		if n > shape.LargestFiles || n == shape.LargestFiles && dir < shape.Largest {
			shape.Largest, shape.LargestFiles = dir, n
		}
	}
	slices.Sort(shape.Files)
	slices.Sort(shape.Functions)
	return shape, nil
}

// Quantile returns what p of all numbers, which are in order, are below.
func Quantile(ordered []int, p float64) int {
	if len(ordered) == 0 {
		return 0
	}
	return ordered[int(float64(len(ordered))*p)]
}

// Mentions returns the product files that name something, as an identifier or
// within a string: how many files somebody touches who adds its like.
func Mentions(root string, names ...string) ([]string, error) {
	sources, _, err := Sources(root)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, s := range sources {
		if s.ast == nil {
			continue
		}
		named := false
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				named = named || slices.Contains(names, n.Name)
			case *ast.BasicLit:
				named = named || slices.ContainsFunc(names, func(name string) bool { return strings.Contains(n.Value, name) })
			}
			return !named
		})
		if named {
			found = append(found, s.Path)
		}
	}
	return found, nil
}

// Packages returns how many product files each directory has, by its path below
// the root.
func Packages(root string) (map[string]int, error) {
	sources, _, err := Sources(root)
	files := map[string]int{}
	for _, s := range sources {
		files[path.Dir(s.Path)]++
	}
	return files, err
}
