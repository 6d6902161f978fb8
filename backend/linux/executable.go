//go:build linux

package linux

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

// shells run the command texts of the command executor, and the scripts with which
// programs start others. What a shell starts needs the right to be executed itself.
var shells = []string{"sh", "bash"}

// maxScripts is how often the interpreter of a script may be a script itself, as in
// the kernel.
const maxScripts = 5

// executables finds the files that may be executed if the spec says which programs
// may be called: these programs, the shells, what loads either, and the programs that
// they cannot work without. Nothing else may be executed, and nothing that commands
// could change.
type executables struct {
	view  view
	found map[string]bool // files and directories, by their paths inside
	errs  []error
}

// execRules returns the Landlock rules for the programs that may be executed. An empty list
// of programs gives none.
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

// program adds the file that a name stands for in PATH, if one exists.
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

// file adds a file and what loads it. It reports whether the file is a program.
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
	if m != nil && m.Writable {
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

// refuse records that commands could change a file that they may execute.
func (e *executables) refuse(m hostpath.Mount, at string) {
	e.errs = append(e.errs, hostpath.Refuse(m.Field, m.Source, "commands could change "+at+", which commands.allow lets them execute", "make it visible read-only"))
}

// helper lists the programs that a program starts by itself, outside of PATH or under
// names that users would not think of for the spec.
type helper struct {
	dirs     []string // everything in them may be executed; a directory that does not exist is left out
	programs []string // looked up in PATH
}

var compiler = helper{
	dirs:     []string{"/usr/lib/gcc", "/usr/libexec/gcc", "/usr/lib/llvm*/bin"},
	programs: []string{"as", "ld"},
}

// helpers are the programs that are known to need others. The programs in a compiler's
// directory give no rights that the compiler's user would not have anyway. Git's directory
// has programs that use the network, as far as the walls allow that.
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

// helpersOf adds the programs that a program is known to start.
func (e *executables) helpersOf(name string) {
	h := helpers[name]
	for _, pattern := range h.dirs {
		matches, _ := filepath.Glob(filepath.Join(e.view.root, pattern))
		for _, host := range matches {
			rel, _ := hostpath.Within(host, e.view.root)
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
		_, inside := hostpath.Within(host, m.Source)
		if _, holds := hostpath.Within(m.Source, host); m.Writable && (inside || holds) {
			e.refuse(m, at)
			return
		}
	}
	e.found[at] = true
}

// headSize is how much of a program is read to find its loader: the kernel reads
// 256 bytes of a script, and the headers of an ELF file are at its beginning.
const headSize = 4096

// loaderOf returns the other file that the kernel executes to start a program: the
// loader of a dynamic executable, or the interpreter of a script. For
// "#!/usr/bin/env NAME" it also returns the program that env will look for. The path file
// is absolute and free of links; commands could have made the file.
func loaderOf(file string) (interpreter, program string) {
	f, err := hostpath.OpenRegular("/", strings.TrimPrefix(file, "/"))
	if err != nil {
		return "", ""
	}
	defer f.Close()
	head := make([]byte, headSize)
	n, err := io.ReadFull(f, head)
	if err != nil && n == 0 {
		return "", ""
	}
	head = head[:n]
	if text, ok := bytes.CutPrefix(head, []byte("#!")); ok {
		line, _, _ := bytes.Cut(text, []byte("\n"))
		words := strings.Fields(string(line))
		if len(words) == 0 {
			return "", ""
		}
		if path.Base(words[0]) == "env" {
			for _, word := range words[1:] {
				if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
					return words[0], word
				}
			}
		}
		return words[0], ""
	}
	return hostpath.ELFLoader(f, head), ""
}
