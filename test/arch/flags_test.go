package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// belowDoors are the directories of the packages that know no command line: their hints name
// the fields of a spec, as `limits.memory`, and each door renders them.
var belowDoors = []string{".", "policy", "backend", "internal", "agent", "wire", "confine", "cgroup", "keeper"}

// othersFlags are the files in which a text holds a flag that is not Paddock's, and whose it is.
var othersFlags = map[string]string{
	"policy/command":                        "the programs that rules judge",
	"policy/execution/check.go":             "docker run; a contract fixes the text",
	"policy/inventory.go":                   "git",
	"backend/codex":                         "codex",
	"backend/docker":                        "the engine",
	"backend/linux/hints.go":                "docker run and podman run",
	"backend/piped/start.go":                "paddock-agent guest, which a script starts",
	"backend/state/sweep.go":                "the engine",
	"backend/wrapper/wrapper.go":            "bwrap",
	"cgroup":                                "systemd-run, systemctl and docker run",
	"internal/run/denial.go":                "tools whose error output is recognized",
	"internal/testkit":                      "programs that tests start",
	"agent/standalone_linux.go":             "paddock-agent",
	"agent/internal/listen":                 "paddock-agent",
	"agent/internal/core/state_linux.go":    "paddock-agent",
	"agent/internal/spawn/start_linux.go":   "docker run, podman run and paddock-agent",
	"agent/internal/spawn/denials_linux.go": "a command that is run in the sandbox",
}

// A text below the doors names no flag. A literal that begins with a flag is a command line.
func TestNoFlagsBelowTheDoors(t *testing.T) {
	flag := regexp.MustCompile("(?s)^[\"`][^-].*--[a-z]")
	files(t, func(path string) {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return
		}
		below := false
		for _, dir := range belowDoors {
			below = below || within(path, dir) || filepath.Dir(path) == dir
		}
		for other := range othersFlags {
			below = below && !within(path, other)
		}
		if !below {
			return
		}
		places := token.NewFileSet()
		file, err := parser.ParseFile(places, path, read(t, path), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok {
				f.Tag = nil // the inputs of doors have flags there
			}
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && flag.MatchString(lit.Value) {
				t.Errorf("%s: %s names a flag: write the path of the spec's field in backquotes", places.Position(lit.Pos()), lit.Value)
			}
			return true
		})
	})
}
