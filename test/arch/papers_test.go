package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testNames   = regexp.MustCompile(`\b((?:Test|Fuzz)[A-Z]\w*)(…?)`)
	testFuncs   = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
	testsOf     = regexp.MustCompile("`([a-z]+(?:/[a-z]+)*)`\\s+\\(([^)]*)\\)") // `package` (`TestA`, `TestB`)
	scripts     = regexp.MustCompile("`test/script` \\(([^)]*)\\)")
	inBackticks = regexp.MustCompile("`([a-z]+)`")
	links       = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

// A promise is worth what shows it: the tests, scripts and files that the papers
// name are there.
func TestPapersNameWhatIsThere(t *testing.T) {
	funcs := map[string][]string{} // the packages of tests, by their names
	var papers []string
	files(t, func(path string) {
		switch {
		case strings.HasSuffix(path, "_test.go"):
			for _, found := range testFuncs.FindAllStringSubmatch(string(read(t, path)), -1) {
				funcs[found[1]] = append(funcs[found[1]], filepath.Dir(path))
			}
		case strings.HasSuffix(path, ".md") && path != "docs/mcp.md":
			papers = append(papers, path)
		}
	})
	packagesOf := func(name string, prefix bool) (all []string) {
		for f, in := range funcs {
			if f == name || prefix && strings.HasPrefix(f, name) {
				all = append(all, in...)
			}
		}
		return all
	}
	named := 0
	for _, paper := range papers {
		text := string(read(t, paper))
		for _, found := range testNames.FindAllStringSubmatch(text, -1) {
			if named++; found[1] != "TestName" && len(packagesOf(found[1], found[2] != "")) == 0 {
				t.Errorf("%s names %s, which is no test", paper, found[0])
			}
		}
		for _, shown := range testsOf.FindAllStringSubmatch(text, -1) {
			for _, found := range testNames.FindAllStringSubmatch(shown[2], -1) {
				if in := packagesOf(found[1], found[2] != ""); !slices.Contains(in, shown[1]) {
					t.Errorf("%s names %s of %s, which is in %q", paper, found[0], shown[1], in)
				}
			}
		}
		for _, found := range scripts.FindAllStringSubmatch(text, -1) {
			for _, name := range inBackticks.FindAllStringSubmatch(found[1], -1) {
				if _, err := os.Stat(filepath.Join(root(), "test", "script", "testdata", name[1]+".txtar")); err != nil {
					t.Errorf("%s names a script: %v", paper, err)
				}
			}
		}
		for _, found := range links.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root(), filepath.Dir(paper), found[1])); err != nil {
				t.Errorf("%s links to a file: %v", paper, err)
			}
		}
	}
	if named == 0 {
		t.Error("no paper names a test")
	}
}

// Every file that a table of ARCHITECTURE says to read first is in a package of its row.
func TestFilesToReadFirst(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| (`.*?) \\| .* \\| (.*) \\|$")
	quoted := regexp.MustCompile("`([^`]+)`")
	checked := 0
	for _, cells := range row.FindAllStringSubmatch(string(read(t, "ARCHITECTURE.md")), -1) {
		var dirs []string
		for _, name := range quoted.FindAllStringSubmatch(cells[1], -1) {
			before, group, several := strings.Cut(strings.TrimSuffix(name[1], "}"), "{")
			for one := range strings.SplitSeq(group, ",") {
				dirs = append(dirs, before+one)
			}
			if !several && name[1] == "paddock" {
				dirs = append(dirs, ".")
			}
		}
		for _, file := range quoted.FindAllStringSubmatch(cells[2], -1) {
			if !strings.HasSuffix(file[1], ".go") {
				continue
			}
			checked++
			if !slices.ContainsFunc(dirs, func(dir string) bool { _, err := os.Stat(filepath.Join(root(), dir, file[1])); return err == nil }) {
				t.Errorf("%s is in none of %q", file[1], dirs)
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d files were checked", checked)
	}
}
