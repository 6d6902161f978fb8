package command

import (
	"path"
	"slices"
	"strings"
)

// places are the directories in which names of programs are looked up inside.
var places = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// harmless are programs that do what the shell's builtins of the same name
// do; like those they need not be listed.
var harmless = map[string]bool{
	"true": true, "false": true, "test": true, "[": true, "echo": true, "printf": true, "pwd": true,
}

// program judges a program and its arguments, wherever it is started from.
func (c *checker) program(args []arg) {
	c.depth++
	defer func() { c.depth-- }()
	name := args[0]
	if !c.named(name) || !c.counted(name.at) || c.tooDeep(name.at) {
		return
	}
	base := name.text
	if strings.Contains(base, "/") {
		base = path.Base(base)
		if !slices.Contains(places, strings.TrimSuffix(name.text, "/"+base)) {
			c.refuse(name.at, RulePlace, base, "the program "+quote(name.text)+" is not in one of the fixed directories",
				"name it without its directory: "+strings.Join(places, ", ")+" are searched")
			return
		}
	}
	if (!harmless[base] || len(c.rules.allow) == 0) && !c.allowed(base, name) {
		return
	}
	c.programs[base] = true
	c.arguments(base, args)
	if !harmless[base] && c.denial == nil {
		c.subcommand(base, args)
		c.judge(base, args)
	}
}

func (c *checker) allowed(base string, name arg) bool {
	if c.rules.allow[base] {
		return true
	}
	c.refuse(name.at, RuleAllowlist, base, "Command '"+base+"' is not allowed. Allowed commands: "+c.rules.names, "")
	return false
}

// passOn are programs whose arguments are those of other programs, beside the
// wrappers: each is noted with the program that gets it in the end.
var passOn = map[string]bool{"env": true, "xargs": true, "busybox": true, "toybox": true, "su": true, "script": true, "watch": true, "flock": true}

// arguments notes the words for the path rules.
func (c *checker) arguments(base string, args []arg) {
	if c.weight += len(args); c.weight > maxWords {
		c.refuse(args[0].at, RuleSize, base, "it has too many words, each of which counts once for every program that wraps it", "put it into a file of the workspace")
		return
	}
	kind := kindOf(base)
	if _, wraps := wrappers[kind]; wraps || passOn[kind] {
		return
	}
	executed := false
	for i, a := range args[1:] {
		if kind == "find" && (strings.HasPrefix(a.text, "-exec") || strings.HasPrefix(a.text, "-ok")) {
			executed = true
		}
		if executed {
			executed = a.text != ";" && a.text != "+"
			continue
		}
		c.words = append(c.words, pathWord{
			kind: pathArgument, command: base, text: a.text, constant: a.constant, home: c.homeOf(a), first: i == 0, in: c, at: a.at,
		})
	}
}

// judge looks at what a program does with its arguments.
func (c *checker) judge(base string, args []arg) {
	kind := kindOf(base)
	if why, ok := opaque[kind]; ok {
		c.refuse(args[0].at, RuleWrapper, base, base+" "+why, "")
		return
	}
	if special, ok := specials[kind]; ok {
		special(c, base, args)
	} else if g, ok := wrappers[kind]; ok {
		c.wrapper(base, g, args)
	} else if d, ok := dangerous[kind]; ok {
		c.options(base, d, args)
	}
	if interpreters[kind] {
		c.noteUnchecked(base)
	}
}

// noteUnchecked says of an interpreter that it is one.
func (c *checker) noteUnchecked(base string) {
	c.note(base + " is an interpreter: it runs what it is given, and that is not checked: the walls hold")
}

// kindOf is the name by which a program is known here: python3.11 is python,
// gawk is awk.
func kindOf(base string) string {
	if kind, ok := sameAs[base]; ok {
		return kind
	}
	stem := strings.TrimRight(base, "0123456789.-")
	if kind, ok := sameAs[stem]; ok {
		return kind
	}
	if versioned[stem] {
		return stem
	}
	return base
}

var versioned = map[string]bool{
	"python": true, "pip": true, "node": true, "perl": true, "ruby": true, "php": true, "lua": true, "bash": true, "awk": true, "pypy": true,
	"tclsh": true, "guile": true, "gcc": true, "g++": true, "clang": true, "clang++": true,
}

var sameAs = map[string]string{
	"gawk": "awk", "mawk": "awk", "nawk": "awk", "original-awk": "awk", "gsed": "sed", "gfind": "find", "gsort": "sort", "gtar": "tar", "bsdtar": "tar",
	"gxargs": "xargs", "genv": "env", "gtimeout": "timeout", "gnice": "nice", "gnohup": "nohup", "gstdbuf": "stdbuf", "gsplit": "split",
	"pypy": "python", "nodejs": "node", "dash": "sh", "ash": "sh", "ksh": "sh", "mksh": "sh", "rbash": "bash",
	"linux32": "setarch", "linux64": "setarch", "i386": "setarch", "x86_64": "setarch",
	"vi": "vim", "nvim": "vim", "view": "vim", "vimdiff": "vim", "ex": "vim", "rvim": "vim", "gmake": "make",
	"uvx": "npx", "bunx": "npx", "pipx": "npx", "sftp": "scp", "egrep": "grep", "fgrep": "grep",
}

// interpreters run what they are given: those of languages, awk (system, pipes) and sed (the
// command e) among them, and programs that build. A Makefile, a build script, a plugin or a
// directive in a source names any program, so their options are not checked.
var interpreters = map[string]bool{
	"awk": true, "sed": true,
	"python": true, "node": true, "perl": true, "ruby": true, "php": true, "lua": true, "tclsh": true, "guile": true, "deno": true, "bun": true,
	"zsh": true, "fish": true, "make": true, "npm": true, "npx": true, "yarn": true, "pnpm": true,
	"go": true, "cargo": true, "rustc": true, "cc": true, "c++": true, "gcc": true, "g++": true, "cpp": true, "clang": true, "clang++": true, "ld": true, "as": true,
	"javac": true, "tsc": true, "swift": true, "swiftc": true, "zig": true, "ghc": true, "meson": true, "bazel": true, "just": true, "task": true, "rake": true,
	"java": true, "gradle": true, "mvn": true, "Rscript": true, "R": true, "julia": true, "m4": true, "dc": true,
	"sqlite3": true, "psql": true, "mysql": true, "gdb": true, "lldb": true, "ed": true, "vim": true, "emacs": true, "nano": true, "less": true, "more": true,
	"expect": true, "cmake": true, "ninja": true, "tox": true, "pytest": true, "git": true, "docker": true, "ssh": true,
}
