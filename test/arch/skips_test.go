package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// skipSite is a call that skips the test that comes there.
type skipSite struct{ at, reason string }

// body is what a function calls, by name, and where it skips.
type body struct {
	calls []string
	skips []skipSite
}

// Every skip that a test can come to, over the functions of its package, is
// one that test/skips.txt may allow: a run in which another is skipped fails.
// What a reason consists of beside literal text may be anything here.
func TestSkipsAreListed(t *testing.T) {
	var rules [][]string
	for line := range strings.Lines(string(read(t, "test/skips.txt"))) {
		if fields := strings.Split(strings.TrimSpace(line), "\t"); len(fields) > 1 && !strings.HasPrefix(line, "#") {
			rules = append(rules, append(fields, "*"))
		}
	}
	if len(rules) == 0 {
		t.Fatal("test/skips.txt is empty")
	}
	found := 0
	for dir, bodies := range bodiesOfTests(t) {
		for name := range bodies {
			if !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") || name == "TestMain" {
				continue
			}
			reached := []string{name}
			for i := 0; i < len(reached); i++ {
				for _, called := range bodies[reached[i]].calls {
					if _, ours := bodies[called]; ours && !slices.Contains(reached, called) {
						reached = append(reached, called)
					}
				}
			}
			for _, f := range reached {
				for _, s := range bodies[f].skips {
					found++
					if !slices.ContainsFunc(rules, func(rule []string) bool {
						return (meet(rule[0], name) || meet(rule[0], name+"/*")) && meet(rule[2], s.reason)
					}) {
						t.Errorf("%s: %s skips %s with %q, which no line of test/skips.txt allows", dir, s.at, name, s.reason)
					}
				}
			}
		}
	}
	if found == 0 {
		t.Error("no test is skipped: nothing was looked at")
	}
}

// bodiesOfTests are the functions of all tests, by their directories and names.
// Methods of one name count as one.
func bodiesOfTests(t *testing.T) map[string]map[string]*body {
	dirs := map[string]map[string]*body{}
	files(t, func(path string) {
		if !strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata/") {
			return
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, read(t, path), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(path)
		if dirs[dir] == nil {
			dirs[dir] = map[string]*body{}
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			b := dirs[dir][f.Name.Name]
			if b == nil {
				b = &body{}
				dirs[dir][f.Name.Name] = b
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					b.calls = append(b.calls, n.Name)
				case *ast.CallExpr:
					if s, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name) {
						b.skips = append(b.skips, skipSite{set.Position(n.Pos()).String(), reasonOf(s.Sel.Name, n.Args)})
					}
				}
				return true
			})
		}
	})
	return dirs
}

// reasonOf is what a skip says, with * for what only the running test knows.
func reasonOf(call string, args []ast.Expr) string {
	if call == "Skipf" {
		args = args[:1]
	}
	var b strings.Builder
	for _, arg := range args {
		b.WriteString(literal(arg))
	}
	if call != "Skipf" {
		return b.String()
	}
	parts := strings.Split(b.String(), "%")
	for i := range parts[1:] {
		parts[i+1] = "*" + strings.TrimLeft(parts[i+1], "+#0123456789.")[1:]
	}
	return strings.Join(parts, "")
}

// literal is the text of an expression of strings, with * for what is not
// literal in it.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return "*"
}

// meet reports whether a text exists that both patterns match, in which *
// stands for anything.
func meet(a, b string) bool {
	switch {
	case a == "" && b == "":
		return true
	case strings.HasPrefix(a, "*"):
		return meet(a[1:], b) || b != "" && meet(a, b[1:])
	case strings.HasPrefix(b, "*"):
		return meet(b, a)
	case a == "" || b == "" || a[0] != b[0]:
		return false
	}
	return meet(a[1:], b[1:])
}
