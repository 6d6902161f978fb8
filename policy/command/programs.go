package command

import (
	"path"
	"slices"
	"strings"
)

// places are the directories inside in which programs are looked up.
var places = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// harmless are programs that do the same as the shell's builtins of the same name. Like the
// builtins they need not be on the list.
var harmless = map[string]bool{
	"true": true, "false": true, "test": true, "[": true, "echo": true, "printf": true, "pwd": true,
}

// program judges a program and its arguments, whatever starts it.
func (c *checker) program(args []arg) {
	c.depth++
	defer func() { c.depth-- }()
	name := args[0]
	if !c.requireConstantName(name) || !c.countCommand(name.at) || c.tooDeep(name.at) {
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
		c.judgeArguments(base, args)
	}
}

// allowed reports whether a program is on the list, and refuses it if not.
func (c *checker) allowed(base string, name arg) bool {
	if c.rules.allow[base] {
		return true
	}
	c.refuse(name.at, RuleAllowlist, base, "Command '"+base+"' is not allowed. Allowed commands: "+c.rules.names, "")
	return false
}

// passArgumentsOn are programs, besides the wrappers, that pass their arguments to other
// programs: each argument is recorded with the program that finally gets it.
var passArgumentsOn = map[string]bool{"env": true, "xargs": true, "busybox": true, "toybox": true, "su": true, "script": true, "watch": true, "flock": true}

// arguments notes the words of a program, for [Paths].
func (c *checker) arguments(base string, args []arg) {
	if c.weight += len(args); c.weight > maxWords {
		c.refuse(args[0].at, RuleSize, base, "it has too many words, each of which counts once for every program that wraps it", "put it into a file of the workspace")
		return
	}
	kind := kindOf(base)
	if _, wraps := wrappers[kind]; wraps || passArgumentsOn[kind] {
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

// judgeArguments judges what a program does with its arguments.
func (c *checker) judgeArguments(base string, args []arg) {
	kind := kindOf(base)
	if why, ok := unjudgeable[kind]; ok {
		c.refuse(args[0].at, RuleWrapper, base, base+" "+why, "")
		return
	}
	if special, ok := ownJudges[kind]; ok {
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

// noteUnchecked notes that a program is an interpreter, once.
func (c *checker) noteUnchecked(base string) {
	note := base + " is an interpreter: it runs what it is given, and that is not checked: the walls hold"
	if !slices.Contains(c.notes, note) {
		c.notes = append(c.notes, note)
	}
}

// kindOf returns the name of a program in the tables of this package: python3.11 is python,
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

// versioned are programs whose names may end with a version.
var versioned = map[string]bool{
	"python": true, "pip": true, "node": true, "perl": true, "ruby": true, "php": true, "lua": true, "bash": true, "awk": true, "pypy": true,
	"tclsh": true, "guile": true, "gcc": true, "g++": true, "clang": true, "clang++": true,
}

// sameAs maps other names of programs to their name in the tables of this package.
var sameAs = map[string]string{
	"gawk": "awk", "mawk": "awk", "nawk": "awk", "original-awk": "awk", "gsed": "sed", "gfind": "find", "gsort": "sort", "gtar": "tar", "bsdtar": "tar",
	"gxargs": "xargs", "genv": "env", "gtimeout": "timeout", "gnice": "nice", "gnohup": "nohup", "gstdbuf": "stdbuf", "gsplit": "split",
	"pypy": "python", "nodejs": "node", "dash": "sh", "ash": "sh", "ksh": "sh", "mksh": "sh", "rbash": "bash",
	"linux32": "setarch", "linux64": "setarch", "i386": "setarch", "x86_64": "setarch",
	"vi": "vim", "nvim": "vim", "view": "vim", "vimdiff": "vim", "ex": "vim", "rvim": "vim", "gmake": "make",
	"uvx": "npx", "bunx": "npx", "pipx": "npx", "sftp": "scp", "egrep": "grep", "fgrep": "grep",
}

// interpreters are programs that execute their input: interpreters of languages, including
// awk (system, pipes) and sed (the command e), and programs that build. A Makefile, a build
// script, a plugin or a directive in a source can name any program, so their options are not
// checked.
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

// packageOptions are the options of package managers in front of the subcommand, with and
// without a value. The word after any other option may be its value or the subcommand.
var packageOptions = map[string]struct{ valued, plain string }{
	"pip": {
		"--python --log --keyring-provider --proxy --retries --timeout --exists-action --trusted-host --cert --client-cert --cache-dir --use-feature --use-deprecated --resume-retries",
		"-h --help --debug --isolated --require-virtualenv -v --verbose -V --version -q --quiet --no-input --no-cache-dir --disable-pip-version-check --no-color --no-python-version-warning",
	},
	"npm": {
		"--prefix --registry --cache --loglevel --userconfig --globalconfig --workspace -w --script-shell --tag --otp --scope --omit --include -C",
		"-g --global -s --silent -d -dd -ddd -q --quiet -v --version -h --help --json --yes -y --force -f --offline --no-audit --no-fund --workspaces --ws",
	},
	"yarn": {"--cwd --registry --cache-folder --modules-folder --mutex --use-yarnrc", "-v --version -h --help -s --silent --verbose --offline --json --force --flat --non-interactive"},
	"pnpm": {"--dir -C --filter -F --loglevel --reporter --store-dir --workspace-dir --config", "-r --recursive -v --version -h --help -w --workspace-root --silent -s --color --no-color --stream --aggregate-output --parallel"},
	"npx":  {"-p --package -c --call --registry --prefix -w --workspace", "-y --yes --no --no-install -q --quiet -h --help -v --version"},
}

// npmNames are npm's other names for the subcommands that lists usually block.
var npmNames = map[string]string{
	"in": "install", "ins": "install", "inst": "install", "insta": "install", "instal": "install", "isnt": "install",
	"isnta": "install", "isntal": "install", "isntall": "install", "it": "install", "install-test": "install", "cit": "ci",
	"install-ci-test": "ci", "clean-install": "ci", "ic": "ci", "install-clean": "ci", "isntall-clean": "ci",
	"un": "uninstall", "unlink": "uninstall", "rm": "remove", "r": "remove", "a": "add",
}

// subcommand refuses blocked subcommands: the first word that is not an option.
func (c *checker) subcommand(base string, args []arg) {
	blocked := c.rules.blocked[base]
	kind := kindOf(base)
	if blocked == nil {
		blocked = c.rules.blocked[kind]
	}
	if len(blocked) == 0 || c.denial != nil {
		return
	}
	options := packageOptions[strings.TrimSuffix(kind, "3")]
	unsure, found := false, false
	for rest := args[1:]; len(rest) > 0; rest = rest[1:] {
		a := rest[0]
		if !a.constant {
			c.refuse(a.at, RuleSubcommand, base, "the subcommand of "+base+" must be written out: "+c.source(a)+" is known only at run time", "")
			return
		}
		if len(a.text) > 1 && a.text[0] == '-' {
			name, _, attached := strings.Cut(a.text, "=")
			switch {
			case hasWord(options.valued, name) && !attached && len(rest) > 1:
				rest = rest[1:]
			case !attached && !hasWord(options.plain, name):
				unsure = true
			}
			continue
		}
		if word := canonical(kind, a.text, blocked); blocked[word] {
			c.refuse(a.at, RuleSubcommand, base, "Subcommand '"+a.text+"' is not allowed for '"+base+"'. All dependencies are pre-installed.", "")
			return
		}
		if found = true; !unsure && a.text != "global" {
			return
		}
		unsure = unsure && a.text == "global"
	}
	if kind == "yarn" && blocked["install"] && !found && len(args) == 1 {
		c.refuse(args[0].at, RuleSubcommand, base, "Subcommand 'install' is not allowed for 'yarn'. All dependencies are pre-installed.", "")
	}
}

// canonical returns the name on the list that a program takes a word for.
func canonical(kind, word string, blocked map[string]bool) string {
	if kind != "npm" || blocked[word] {
		return word
	}
	if name, ok := npmNames[word]; ok && blocked[name] {
		return name
	}
	if len(word) > 2 {
		for _, name := range []string{"install", "uninstall", "remove"} {
			if strings.HasPrefix(name, word) && blocked[name] {
				return name // npm accepts an abbreviated subcommand
			}
		}
	}
	return word
}
