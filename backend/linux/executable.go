//go:build linux

package linux

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

// shells run what the command executor was given as text, and the scripts
// that programs start others with. What they start needs the right itself.
var shells = []string{"sh", "bash"}

// maxScripts is how often the interpreter of a script may be a script itself,
// as the kernel has it.
const maxScripts = 5

// executables finds the files that carry the right to be executed where the
// spec says which programs may be called: these programs, the shells, what
// either needs to be loaded, and the programs that they cannot work without.
// Nothing else does, and nothing that commands could change.
type executables struct {
	view  view
	found map[string]bool // files and directories, as they are called inside
	errs  []error
}

// execRules are the rules for what may be executed; none where nothing is.
func (b *builder) execRules(c *policy.Commands) ([]confine.PathRule, error) {
	if len(c.Allow) == 0 {
		return nil, nil
	}
	e := &executables{view: b.view(), found: map[string]bool{}}
	for _, name := range slices.Concat(shells, c.Allow) {
		e.program(name)
		e.helpersOf(name)
	}
	if len(e.errs) > 0 {
		return nil, errors.Join(e.errs...)
	}
	var rules []confine.PathRule
	for file := range e.found {
		rules = append(rules, confine.PathRule{Path: file, Access: confine.AccessExec})
	}
	slices.SortFunc(rules, func(a, b confine.PathRule) int { return strings.Compare(a.Path, b.Path) })
	return rules, nil
}

// program adds the file that a name stands for in PATH, if there is one.
func (e *executables) program(name string) {
	if name == "" || strings.Contains(name, "/") {
		return
	}
	for dir := range strings.SplitSeq(policy.SearchPath, ":") {
		if e.file(path.Join(dir, name), 0) {
			return
		}
	}
}

// file adds a file with what loads it, and says whether it is a program.
func (e *executables) file(name string, depth int) bool {
	at, err := e.view.resolve(name)
	if err != nil {
		return false
	}
	host, m := e.view.host(at)
	info, err := os.Stat(host)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return false
	}
	if m != nil && m.writable {
		e.refuse(*m, at)
		return true
	}
	if e.found[at] || depth > maxScripts {
		return true
	}
	e.found[at] = true
	interpreter, program := loaderOf(host)
	if interpreter != "" {
		e.file(interpreter, depth+1)
	}
	e.program(program)
	return true
}

func (e *executables) refuse(m userMount, at string) {
	e.errs = append(e.errs, badSource(m.field, m.source, "commands could change "+at+", which commands.allow lets them execute", "make it visible read-only"))
}
