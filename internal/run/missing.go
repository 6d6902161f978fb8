package run

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/lazyregexp"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// MissingProgram returns a hint for a command of this name, in the working directory dir,
// that does not exist or cannot be executed. It returns "" if nothing is known.
func (h Hints) MissingProgram(name, dir string, exists bool) string {
	own := h.inWorkspace(name)
	var files []string
	if !exists {
		files = h.candidates(name)
	}
	found, ok := h.look(dir, own, files)
	hint := ""
	if ok {
		hint = howToCall(name, own, found.own)
	}
	if hint == "" && ok && !exists {
		hint = h.whereIs(name, files, found)
	}
	if hint == "" && !exists && h.showsHost() && h.Search != "" && !strings.Contains(name, "/") && len(programs(name, h.Search)) == 0 {
		hint = "this host has no program of that name in PATH either"
	}
	return hint
}

// shell is the program that looks into the sandbox.
const shell = "/bin/sh"

// inside holds the findings of a look into the sandbox.
type inside struct {
	own     string // the kind of the command's own file: "none", "program", "file" (not executable) or "noexec" (by its mount)
	search  string // PATH
	visible string // the first of the files that is visible, or ""
}

// look looks into the sandbox once, from dir: for a file, and for the first of others that can
// be executed. It reports whether it could: a sandbox may have no shell, or an unusual one. It
// does not look for its own shell, whose start has failed already.
func (h Hints) look(dir, own string, files []string) (found inside, ok bool) {
	if own == shell {
		return found, false
	}
	out, err := h.Shell(dir, `if [ ! -f "$1" ]; then echo none; elif [ -x "$1" ]; then echo program
		else case $(ls -Lld "$1" 2>/dev/null) in -??[xs]*|-?????[xs]*|-????????x*) echo noexec;; *) echo file;; esac; fi
		shift; echo "$PATH"; for f; do if [ -f "$f" ] && [ -x "$f" ]; then echo "$f"; break; fi; done`, append([]string{own}, files...)...)
	if err != nil || len(out) > maxWhere {
		return found, false
	}
	var rest string
	found.own, rest, _ = strings.Cut(strings.TrimSuffix(string(out), "\n"), "\n")
	found.search, found.visible, _ = strings.Cut(rest, "\n")
	found.search = text.Escape(found.search)
	return found, found.visible == "" || slices.Contains(files, found.visible)
}

// inWorkspace returns the path of a command's file in the workspace, as the command would call it.
func (h Hints) inWorkspace(name string) string {
	file := name
	if source := h.Spec.Workspace.Source; !h.Discreet && h.Spec.Backend == policy.BackendLinux && path.IsAbs(source) && h.hides(source) {
		if below, in := hostpath.Within(path.Clean(name), source); in {
			file = path.Join(policy.WorkspacePath, below)
		}
	}
	if !strings.Contains(file, "/") {
		file = "./" + file
	}
	return file
}

// howToCall says how to call a command that was not found, or cannot be executed, if it is a
// file of the workspace, own, of a kind. Otherwise it returns "".
func howToCall(name, own, kind string) string {
	call := policy.ShellWord(own)
	switch {
	case kind == "file":
		return "it is a file that nobody may execute: chmod +x " + call + ", or name the program that reads it: sh " + call
	case kind == "noexec": // the mode says that it may be executed
		return "it is on a file system that is mounted noexec, from which nothing can be executed: name the program that reads it, as in sh " + call + ", or copy it elsewhere"
	case kind == "program" && call != name:
		return "it lies in the workspace: call it " + call
	}
	return ""
}

// unfound matches what shells, and env(1), print about a program that they do not find.
var unfound = lazyregexp.New(`(?m)(?:^|[ \t])([A-Za-z0-9_.+-]{1,64}): (?:command )?not found$|: command not found: ([A-Za-z0-9_.+-]{1,64})$|^env: ['‘]([A-Za-z0-9_.+-]{1,64})['’]: No such file`)

// StatusNotFound is the exit status of a shell that does not find a program.
const StatusNotFound = 127

// missingProgram adds to list the program that a shell did not find, by the exit status and
// the output of a command.
func (h Hints) missingProgram(list []wire.Denial, status int, output []byte) []wire.Denial {
	if status != StatusNotFound {
		return list
	}
	found := unfound().FindSubmatch(output)
	if found == nil {
		return list
	}
	name := string(bytes.Join(found[1:], nil)) // one of them
	files := h.candidates(name)
	looked, ok := h.look("", "", files)
	if !ok {
		return list
	}
	if hint := h.whereIs(name, files, looked); hint != "" {
		list = append(list, wire.Denial{Layer: "path", Rule: "not found", Object: name, Hint: hint, Guess: true})
	}
	return list
}

// maxWhere is the largest answer of the sandbox that is accepted, in bytes.
const maxWhere = 64 << 10

// candidates returns the files of this host that a missing program's name may stand for, if
// the sandbox may be asked for them.
func (h Hints) candidates(name string) []string {
	if h.Spec.Commands != nil || h.Spec.Backend == policy.BackendHost || strings.Contains(name, "/") && (h.Discreet || !filepath.IsAbs(name)) {
		return nil
	}
	return programs(name, h.Search)
}

// whereIs says where a program is, by its files on this host and by a look into the sandbox,
// and how to call it or to make it visible. It returns "" if that is not known.
func (h Hints) whereIs(name string, files []string, found inside) string {
	search, visible := found.search, found.visible
	switch {
	case visible != "" && (visible == name || slices.Contains(strings.Split(search, ":"), filepath.Dir(visible))):
		return "" // the program is found, but not its interpreter
	case visible != "":
		hint := "it is at " + policy.ShellWord(visible) + ", outside of PATH: call it by that path, or write `env` " + policy.ShellWord("PATH="+filepath.Dir(visible)+":"+search)
		if !h.Discreet && slices.Contains(strings.Split(h.Search, ":"), filepath.Dir(visible)) {
			hint += `; "paddock plan" says why your PATH's directory was left out`
		}
		return hint
	case !h.showsHost() || len(files) == 0:
		return ""
	case h.Discreet:
		return "this host has it, in a directory that the sandbox does not show: `mounts.ro` makes one visible"
	}
	shown := func(file string) string {
		if dir := filepath.Dir(file); hostpath.Home(dir) == "" {
			return policy.ShellWord(dir)
		}
		return policy.ShellWord(file) // not a whole home
	}
	hint := "it is at " + policy.ShellWord(files[0]) + " on this host, which the sandbox does not show: "
	if home, err := os.UserHomeDir(); err == nil && h.Spec.NoToolchains && hostpath.Under(files[0], filepath.Clean(home)) {
		hint += "leave out `no_toolchains` for what a version manager has put there, or write "
	}
	hint += "`mounts.ro` " + shown(files[0])
	if target, err := filepath.EvalSymlinks(files[0]); err == nil && filepath.Dir(target) != filepath.Dir(files[0]) && !strings.HasPrefix(target, "/usr/") {
		hint += " `mounts.ro` " + shown(target)
	}
	return hint + ", and what else it needs"
}

// showsHost reports whether programs inside are this host's.
func (h Hints) showsHost() bool {
	return h.Spec.Backend == policy.BackendLinux && h.Spec.RootFS == policy.RootHost && h.Spec.Commands == nil
}

// elsewhere are directories of programs that are usually not in PATH.
var elsewhere = []string{"/usr/local/go/bin", "/usr/lib/go/bin", "/usr/lib/go-*/bin", "/usr/games", "/usr/local/games", "/opt/*/bin", "/opt/*"}

// programs returns the files of this host that a program's name may stand for, those in the
// caller's PATH first. For a path it returns the file itself.
func programs(name, search string) []string {
	const most = 16
	var files []string
	add := func(file string) {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && !slices.Contains(files, file) && len(files) < most {
			files = append(files, file)
		}
	}
	if strings.Contains(name, "/") {
		add(filepath.Clean(name))
		return files
	}
	for _, pattern := range slices.Concat(strings.Split(search, ":"), strings.Split(policy.SearchPath, ":"), elsewhere) {
		dirs := []string{pattern}
		if slices.Contains(elsewhere, pattern) {
			dirs, _ = filepath.Glob(pattern) // the patterns are well-formed
		}
		for _, dir := range dirs {
			if filepath.IsAbs(dir) {
				add(filepath.Join(dir, name))
			}
		}
	}
	return files
}
