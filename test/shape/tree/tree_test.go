package tree

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// small is a product in which a limit goes from a flag to a file.
var small = map[string]string{
	"go.mod": "module github.com/paddock-dev/paddock\n\ngo 1.26\n",
	"flag.go": `package paddock

import "github.com/paddock-dev/paddock/wall"

type Spec struct {
	Limit int
	Name  string
}

func Run(s Spec) {
	check(s)
	greet(s)
	add(s.Limit)
	_ = s.Limit > bound()
	var w wall.Wall = wall.New(later)
	w.Start(s.Limit)
}
`,
	"check.go": "package paddock\n\nfunc check(s Spec) bool { return s.Limit > 0 }\n",
	"greet.go": "package paddock\n\nfunc greet(s Spec) string { return \"hello, \" + s.Name }\n",
	"add.go":   "package paddock\n\nfunc add(n int) int { m := n; return twice(m) }\n",
	"twice.go": "package paddock\n\nfunc twice(n any) int { return bound() }\n",
	"keep.go":  "package paddock\n\ntype kept struct{ last int }\n\nfunc keep(n int) kept { return kept{last: n} }\n",
	"bound.go": "package paddock\n\nfunc bound() int { return add(0) + 1 }\n",
	"later.go": "package paddock\n\nfunc later(n int) { write(n) }\n\nfunc write(int) {}\n",
	"wall/wall.go": `package wall

type Wall interface{ Start(limit int) }

func New(func(int)) Wall { return nil }
`,
	"wall/linux.go":     "package wall\n\ntype linux struct{}\n\nfunc (linux) Start(limit int) { _ = limit }\n\nvar _ Wall = linux{}\n",
	"wall/other/x.go":   "package other\n\ntype X struct{}\n\nfunc (X) Start(limit int) {}\n",
	"wall/wall_test.go": "package wall\n\nfunc unused() {}\n",
	"test/help.go":      "package test\n\nfunc help() {}\n",
}

func smallTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range small {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestFiles(t *testing.T) {
	code, err := Load(smallTree(t))
	if err != nil {
		t.Fatal(err)
	}
	w := Walk{Name: "limit", Title: "A limit", From: []string{"paddock.Run"}, Value: []string{"paddock.Spec.Limit"}, Within: []string{"paddock.Spec"}}
	files := func() []string {
		t.Helper()
		files, err := code.Files(w)
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	all := files()
	// By the whole, by a plain parameter, by a variable and any, by an interface.
	// What is given the whole and does not look at it (greet) is not on the walk,
	// nor what is asked for something else (bound).
	want := []string{"flag.go", "check.go", "add.go", "wall/linux.go", "wall/other/x.go", "twice.go"}
	for _, file := range want {
		if !slices.Contains(all, file) {
			t.Errorf("%s is not on the walk: %v", file, all)
		}
	}
	for _, file := range []string{"greet.go", "bound.go"} {
		if slices.Contains(all, file) {
			t.Errorf("%s is on the walk: %v", file, all)
		}
	}
	w.Beside = []string{"wall/other"}
	if beside := files(); slices.Contains(beside, "wall/other/x.go") {
		t.Errorf("what is beside the walk is on it: %v", beside)
	}
	w.From = []string{"paddock.keep"}
	w.Value = []string{"paddock.keep#n"}
	if _, err := code.Files(w); err == nil || !strings.Contains(err.Error(), "keep.go: keep stores it in last") {
		t.Errorf("the value is stored where nobody follows it, and the error is %v", err)
	}
	w.Ends = []string{"paddock.kept.last"}
	if kept := files(); !slices.Equal(kept, []string{"keep.go"}) {
		t.Errorf("the walk of what is kept is %v", kept)
	}
	begin, end := marks(w)
	paper, err := Write("# Walks\n"+begin+"* `old`: `x.go`\n"+end+"end\n", w, all)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := Listed(paper, w)
	slices.Sort(all)
	slices.Sort(listed)
	if err != nil || !slices.Equal(all, listed) || !strings.HasPrefix(paper, "# Walks\n") || !strings.HasSuffix(paper, "end\n") {
		t.Errorf("%v, want %v, have %v in\n%s", err, all, listed, paper)
	}
	for _, bad := range []Walk{
		{From: []string{"paddock.Walk"}},
		{From: []string{"paddock.Spec"}},
		{From: []string{"paddock.Run"}, Value: []string{"nowhere.X"}},
		{From: []string{"paddock.Run"}, Value: []string{"paddock.Run#missing"}},
	} {
		if _, err := code.Files(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestMeasure(t *testing.T) {
	root := smallTree(t)
	shape, err := Measure(root)
	if err != nil {
		t.Fatal(err)
	}
	var one []string
	for _, f := range shape.OneCaller {
		one = append(one, f.Name)
	}
	slices.Sort(one)
	if want := []string{"check", "greet", "later", "twice", "write"}; !slices.Equal(one, want) {
		t.Errorf("functions with one caller: %v, want %v", one, want)
	}
	if len(shape.Files) != 11 || shape.Largest != "." || shape.LargestFiles != 8 {
		t.Errorf("%d files, the largest package is %q with %d", len(shape.Files), shape.Largest, shape.LargestFiles)
	}
	code, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	all, upward := code.Arrows(".")
	// check and greet use Spec of the file that calls them; add, twice and bound
	// are a circle.
	if len(all) != 10 || len(upward) != 3 {
		t.Errorf("%d arrows %v, upward %v", len(all), all, upward)
	}
	if found, err := Mentions(root, "hello"); err != nil || !slices.Equal(found, []string{"greet.go"}) {
		t.Errorf("Mentions gives %v, %v", found, err)
	}
}
