package command

import (
	"path"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// Paths refuse arguments that plainly point outside the sandbox, early and readably.
// They look at text alone: the walls hold for links, variables and names that programs
// make up, and for everything else that is not refused here.
type Paths struct {
	// Workspace is the absolute path of the workspace inside.
	Workspace string
	// Cwd is the absolute directory inside in which the command starts.
	// Default: the workspace.
	Cwd string
	// Visible are further absolute paths that exist inside: mounts, /tmp, the
	// system's directories.
	Visible []string
}

// PathsIn returns the paths of a sandbox of this spec: the workspace, where commands
// start, HOME, /tmp, the directories of programs, and the mounts. Commands that are
// judged by rules have no need for others, such as /etc and /proc.
func PathsIn(s policy.Spec) Paths {
	p := Paths{Workspace: policy.WorkspacePath, Visible: []string{policy.HomePath, policy.TmpPath}}
	p.Visible = append(p.Visible, "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")
	for _, m := range s.Mounts {
		target := m.Target
		if target == "" {
			target = m.Source
		}
		if path.IsAbs(target) {
			p.Visible = append(p.Visible, target)
		}
	}
	return p
}

// pathKind is the kind of a word of a verdict.
type pathKind uint8

const (
	pathArgument pathKind = iota
	pathRedirect
	pathChange  // the target of cd
	scopeBegins // of a process whose changes of directory end with it
	scopeEnds
)

// pathWord is a word that may name a file.
type pathWord struct {
	kind     pathKind
	command  string
	text     string // its constant head if it is not constant
	constant bool
	home     string // the word as it is written, if that is the home of another user
	first    bool   // it is the first word of its command
	in       *checker
	at       int
}

// devices are paths in /dev that every program may name.
var devices = map[string]bool{
	"/dev/null": true, "/dev/zero": true, "/dev/full": true, "/dev/random": true, "/dev/urandom": true, "/dev/tty": true,
	"/dev/stdin": true, "/dev/stdout": true, "/dev/stderr": true, "/dev/fd": true, "/dev/shm": true,
}

// fileCommands are the commands whose refusals name the workspace.
var fileCommands = map[string]bool{
	"find": true, "file": true, "cat": true, "head": true, "tail": true, "grep": true, "ls": true, "wc": true, "diff": true,
}

// Check returns v or, if v is allowed and a word of it plainly points outside, a refusal.
func (p Paths) Check(v Verdict) Verdict {
	if !v.Allowed {
		return v
	}
	w := pathWalk{paths: p, cwd: p.Cwd}
	if w.cwd == "" {
		w.cwd = p.Workspace
	}
	for _, word := range v.words {
		bad := w.outside(word)
		if bad == "" {
			continue
		}
		reason := "Path traversal attempt detected in command argument: " + bad
		if fileCommands[word.command] {
			reason = "Path traversal attempt detected: " + bad + " would access files outside workspace"
		}
		return Verdict{
			Rule: RulePath, Reason: reason, Position: word.in.position(word.at), Command: word.command, Dialect: v.Dialect,
			Hint: "name files of the workspace by paths below " + p.Workspace,
		}
	}
	return v
}

// pathWalk follows the words of a verdict.
type pathWalk struct {
	paths   Paths
	cwd     string // empty if it is not known
	saved   []string
	scripts wordReader
}

// outside returns the word, or the part of it, that points outside, or "".
func (w *pathWalk) outside(word pathWord) string {
	switch word.kind {
	case scopeBegins:
		w.saved = append(w.saved, w.cwd)
	case scopeEnds:
		w.cwd = w.saved[len(w.saved)-1]
		w.saved = w.saved[:len(w.saved)-1]
	case pathChange, pathRedirect:
		if word.home != "" {
			return word.home
		}
		if w.bad(word.text, word.constant) {
			return word.text
		}
		switch {
		case word.kind != pathChange:
		case !word.constant || word.text == "" || word.text == "-":
			w.cwd = ""
		case path.IsAbs(word.text):
			w.cwd = path.Clean(word.text)
		case w.cwd != "":
			w.cwd = path.Join(w.cwd, word.text)
		}
	default:
		switch isPath := w.scripts.isPath(word); {
		case isPath && word.home != "":
			return word.home
		case isPath:
			return w.argument(word)
		}
	}
	return ""
}

// argument returns a word if it points outside, or the value in --name=value, name=value
// or -xvalue does.
func (w *pathWalk) argument(word pathWord) string {
	parts := []string{word.text}
	if name, value, ok := strings.Cut(word.text, "="); ok && !strings.Contains(name, "/") {
		parts = append(parts, value)
	}
	if len(word.text) > 2 && word.text[0] == '-' && word.text[1] != '-' {
		parts = append(parts, word.text[2:])
		if at := strings.IndexByte(word.text, '/'); at > 0 && kindOf(word.command) == "date" {
			parts = append(parts, word.text[at:]) // -uf/etc/x
		}
	}
	for _, part := range parts {
		if w.bad(part, word.constant) {
			return word.text
		}
	}
	return ""
}

// bad reports whether a text is a path that leads outside.
func (w *pathWalk) bad(text string, constant bool) bool {
	if strings.Contains(text, "://") && !climbs(text) || strings.ContainsAny(text, "\n") {
		return false
	}
	if !constant {
		text = text[:strings.LastIndexByte(text, '/')+1] // whole names alone
	}
	full := text
	switch {
	case text == "":
		return false
	case path.IsAbs(text):
	case !climbs(text) || w.cwd == "":
		return false
	default:
		full = w.cwd + "/" + text
	}
	full = path.Clean(full)
	if w.inside(full) {
		return false
	}
	leadsBack := func(inside string) bool { return below(inside, full) } // the part that is not constant may lead there
	return constant || !leadsBack(w.paths.Workspace) && !slices.ContainsFunc(w.paths.Visible, leadsBack)
}

// climbs reports whether a component of a path is "..".
func climbs(text string) bool {
	return text == ".." || strings.HasPrefix(text, "../") || strings.HasSuffix(text, "/..") || strings.Contains(text, "/../")
}

// inside reports whether commands may name a path.
func (w *pathWalk) inside(full string) bool {
	return below(full, w.paths.Workspace) || devices[full] || below(full, "/dev/fd") || below(full, "/dev/shm") ||
		slices.ContainsFunc(w.paths.Visible, func(dir string) bool { return below(full, dir) })
}

// below reports whether a path is dir or lies below it, by whole names.
func below(full, dir string) bool {
	if dir == "" {
		return false
	}
	dir = path.Clean(dir)
	return full == dir || dir == "/" || strings.HasPrefix(full, dir+"/")
}

// wordReader distinguishes words that may be paths from patterns, scripts and messages, by
// the command that they belong to.
type wordReader struct {
	given bool // an option has the script, so that no word is it
	seen  bool // the script was seen
	skip  bool // the next word is the value of an option, and not a path
	after bool // -- was seen
}

// textCommands take no paths.
var textCommands = map[string]bool{
	"echo": true, "printf": true, "tr": true, "expr": true, "basename": true, "dirname": true, "seq": true, "sleep": true,
	"true": true, "false": true, "which": true, "yes": true,
}

// scriptFirst are the programs whose first word is a script or a pattern, unless it is given
// with one of these options.
var scriptFirst = map[string]string{
	"grep": "-e -f --regexp --file", "sed": "-e -f --expression --file", "awk": "-f -e --file --source",
	"rg": "-e -f --regexp --file", "jq": "-f --from-file",
}

// textOptions are the options whose value is not a path.
var textOptions = map[string]string{
	"grep": "-e --regexp -m -A -B -C --include --exclude --exclude-dir", "sed": "-e --expression -l", "awk": "-F -v -e --source",
	"find": "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -printf -perm -type -size -user -group",
	"cut":  "-d -f -c -b --delimiter --output-delimiter", "sort": "-t -k --field-separator", "paste": "-d --delimiters",
	"xargs": "-d -I -E --delimiter", "git": "-m --message --author --grep -S -G --format --pretty", "python": "-c -m", "node": "-e -p --eval --print",
	"sh": "-c", "bash": "-c", "perl": "-e -E", "ruby": "-e", "php": "-r", "rg": "-e -g --regexp --glob", "head": "-n -c", "tail": "-n -c",
	"wc": "", "diff": "-I -x --label", "date": "-d -s", "column": "-s -o", "su": "-c", "script": "-c",
}

// isPath reports whether a word may be a path. Call it for each word of a command, in
// order.
func (s *wordReader) isPath(word pathWord) bool {
	kind := kindOf(word.command)
	if word.first {
		*s = wordReader{}
	}
	if s.skip {
		s.skip = false
		return false
	}
	text := word.text
	if !s.after && strings.HasPrefix(text, "-") && len(text) > 1 {
		return s.option(kind, text)
	}
	if _, script := scriptFirst[kind]; script && !s.given && !s.seen {
		s.seen = true
		return false
	}
	return !textCommands[kind]
}

// option reports whether an option may contain a path.
func (s *wordReader) option(kind, text string) bool {
	if text == "--" {
		s.after = true
		return false
	}
	name, _, attached := strings.Cut(text, "=")
	if !attached && len(text) > 2 && text[1] != '-' && (kind != "find" && kind != "node") {
		name = text[:2]
	}
	holdsScript := hasWord(scriptFirst[kind], name) || text[1] != '-' && strings.HasSuffix(text, "e") && hasWord(scriptFirst[kind], "-e")
	s.given = s.given || holdsScript
	if hasWord(textOptions[kind], name) {
		s.skip = name == text
		return false
	}
	if holdsScript && strings.HasSuffix(text, "e") && text[1] != '-' {
		s.skip = true
	}
	return true
}
