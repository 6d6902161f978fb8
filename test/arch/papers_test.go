package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testNames   = regexp.MustCompile(`\b((?:Test|Fuzz)[A-Z]\w*)(…?)`)
	testFuncs   = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
	scripts     = regexp.MustCompile("`test/script` \\(([^)]*)\\)")
	inBackticks = regexp.MustCompile("`([a-z]+)`")
	links       = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

// A promise is worth what shows it: the tests, scripts and files that the papers
// name are there.
func TestPapersNameWhatIsThere(t *testing.T) {
	funcs := map[string]bool{}
	var papers []string
	files(t, func(path string) {
		switch {
		case strings.HasSuffix(path, "_test.go"):
			for _, found := range testFuncs.FindAllStringSubmatch(string(read(t, path)), -1) {
				funcs[found[1]] = true
			}
		case strings.HasSuffix(path, ".md") && path != "docs/mcp.md":
			papers = append(papers, path)
		}
	})
	isTest := func(name string, prefix bool) bool {
		if !prefix {
			return funcs[name]
		}
		for f := range funcs {
			if strings.HasPrefix(f, name) {
				return true
			}
		}
		return false
	}
	named := 0
	for _, paper := range papers {
		text := string(read(t, paper))
		for _, found := range testNames.FindAllStringSubmatch(text, -1) {
			if named++; found[1] != "TestName" && !isTest(found[1], found[2] != "") {
				t.Errorf("%s names %s, which is no test", paper, found[0])
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
