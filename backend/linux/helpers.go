//go:build linux

package linux

import (
	"os"
	"path/filepath"
)

// helper is what a program starts others from by itself, outside of PATH or
// under names that nobody lists.
type helper struct {
	dirs     []string // all in them may be executed; a name that does not exist is left out
	programs []string // looked up in PATH
}

var compiler = helper{
	dirs:     []string{"/usr/lib/gcc", "/usr/libexec/gcc", "/usr/lib/llvm*/bin"},
	programs: []string{"as", "ld"},
}

// helpers are the programs that are known to need others. A compiler's
// directory holds nothing that its user could not do without, git's holds
// programs that use the network: what walls leave them is what they have.
var helpers = map[string]helper{
	"git": {
		dirs:     []string{"/usr/lib/git-core", "/usr/libexec/git-core"},
		programs: []string{"basename", "sed", "uname", "gettext", "envsubst"}, // of its shell scripts
	},
	"cc":      compiler,
	"gcc":     compiler,
	"c++":     compiler,
	"g++":     compiler,
	"clang":   compiler,
	"clang++": compiler,
	"go": {
		dirs:     []string{"/usr/local/go/bin", "/usr/local/go/pkg/tool", "/usr/lib/go*/bin", "/usr/lib/go*/pkg/tool", "/usr/lib/golang/bin", "/usr/lib/golang/pkg/tool", "/usr/share/go*/pkg/tool"},
		programs: []string{"gcc"},
	},
	"rustc": {dirs: []string{"/usr/lib/rustlib/*/bin"}, programs: []string{"cc"}},
	"cargo": {programs: []string{"rustc", "rustdoc", "cc"}},
	"java":  {dirs: []string{"/usr/lib/jvm"}},
	"javac": {dirs: []string{"/usr/lib/jvm"}},
}

// helpersOf adds what a program is known to start.
func (e *executables) helpersOf(name string) {
	h := helpers[name]
	for _, pattern := range h.dirs {
		matches, _ := filepath.Glob(filepath.Join(e.view.root, pattern))
		for _, host := range matches {
			rel, _ := within(host, e.view.root)
			e.dir("/" + rel)
		}
	}
	for _, program := range h.programs {
		e.program(program)
		if program != name {
			e.helpersOf(program)
		}
	}
}

// dir adds a directory of helpers.
func (e *executables) dir(name string) {
	at, err := e.view.resolve(name)
	if err != nil {
		return
	}
	host, _ := e.view.host(at)
	if info, err := os.Stat(host); err != nil || !info.IsDir() {
		return
	}
	for _, m := range e.view.mounts {
		_, inside := within(host, m.source)
		if _, holds := within(m.source, host); m.writable && (inside || holds) {
			e.refuse(m, at)
			return
		}
	}
	e.found[at] = true
}
