package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// judgeShell judges sh -c TEXT. A file of commands is a program like any other, and not
// read.
func judgeShell(c *checker, base string, args []arg) {
	rest, text := args[1:], false
	for len(rest) > 0 {
		a := rest[0]
		if !a.constant && !c.requireNotOption(a, base) {
			return
		}
		dash := a.constant && (a.text == "-" || a.text == "--")
		if !dash && (!a.constant || len(a.text) < 2 || a.text[0] != '-' && a.text[0] != '+') {
			break
		}
		rest = rest[1:]
		if dash {
			break
		}
		letters := strings.TrimPrefix(a.text[1:], "-")
		if a.text[:2] == "--" {
			if !hasWord("norc noprofile posix", letters) {
				c.refuseShell(a, base)
				return
			}
			continue
		}
		if strings.Trim(letters, "ceuxfnvabhmo") != "" {
			c.refuseShell(a, base)
			return
		}
		text = text || strings.Contains(letters, "c")
		for range strings.Count(letters, "o") {
			if len(rest) == 0 || !rest[0].constant || !setNames[rest[0].text] {
				c.refuseShell(a, base)
				return
			}
			rest = rest[1:]
		}
	}
	switch {
	case text && len(rest) > 0:
		c.shellText(base, rest[0])
	case !text && c.stdinText && (len(rest) == 0 || rest[0].many), !text && len(rest) > 0 && namesDescriptor(rest[0].text):
		c.refuse(args[0].at, RuleWrapper, base, base+" runs what it reads, which is known only at run time", "give it the text: "+base+" -c '…', or a file of the workspace")
	case !text:
		c.noteUnchecked(base)
	}
}

// refuseShell refuses an unknown option of a shell.
func (c *checker) refuseShell(a arg, base string) {
	c.refuse(a.at, RuleWrapper, base, "the option "+quote(a.text)+" of "+base+" is unknown, so that what it runs cannot be checked", "")
}

// shellText judges a text that a shell gets as an argument. bash speaks one dialect, and
// sh may speak either.
func (c *checker) shellText(base string, a arg) {
	if !a.constant {
		c.refuse(a.at, RuleWrapper, base, "the text that "+base+" runs must be constant", "put it in single quotes, and hand values on as arguments")
		return
	}
	kind := kindOf(base)
	if kind != "sh" && kind != "bash" {
		c.refuse(a.at, RuleWrapper, base, "the language of "+base+" is unknown, so that what it runs cannot be checked", "use bash -c")
		return
	}
	dialects := []syntax.LangVariant{syntax.LangPOSIX, syntax.LangBash}
	if kind == "bash" {
		dialects = dialects[1:]
	}
	c.nested(a, a.text, false, dialects...)
}

// judgePython judges python -m X as X: the module is the program.
func judgePython(c *checker, base string, args []arg) {
	c.noteUnchecked(base)
	for i := 1; i < len(args) && args[i].constant && len(args[i].text) > 1 && args[i].text[0] == '-'; i++ {
		letters := args[i].text[1:]
		if letters[0] == '-' {
			if letters == "-check-hash-based-pycs" {
				i++
			}
			continue
		}
		at := strings.IndexAny(letters, "cmWX")
		if at < 0 {
			continue
		}
		value := letters[at+1:]
		next := i + 1
		switch letters[at] {
		case 'c':
			return
		case 'm':
			module := args[i]
			if module.text = value; value == "" {
				if next >= len(args) {
					return
				}
				module, next = args[next], next+1
			}
			c.module(base, append([]arg{module}, args[next:]...))
			return
		}
		if value == "" {
			i++
		}
	}
}

// module judges a module by its name, without starting a program of that name.
func (c *checker) module(base string, args []arg) {
	name := args[0]
	if !c.requireConstantName(name) {
		return
	}
	top, _, _ := strings.Cut(name.text, ".")
	if c.rules.allow[name.text] || c.rules.allow[top] {
		c.subcommand(top, args)
		return
	}
	c.subcommand(top, args)
	if c.denial == nil {
		c.allowed(name.text, name)
		c.denial.Hint = base + " -m " + name.text + " is judged as " + name.text
	}
}

// judgeBusybox judges busybox APPLET as the applet.
func judgeBusybox(c *checker, base string, args []arg) {
	if len(args) < 2 {
		return
	}
	if args[1].constant && strings.HasPrefix(args[1].text, "-") {
		if args[1].text != "--list" && args[1].text != "--help" {
			c.refuse(args[1].at, RuleWrapper, base, "the option "+quote(args[1].text)+" of "+base+" is unknown", "")
		}
		return
	}
	c.program(args[1:])
}

// judgeSu judges su -c TEXT.
func judgeSu(c *checker, base string, args []arg) {
	for i, a := range args[1:] {
		switch {
		case !a.constant:
			c.refuseWrapped(a, base)
			return
		case a.text == "-c" || a.text == "--command":
			if i+2 < len(args) {
				c.shellText("sh", args[i+2])
			}
			return
		case len(a.text) > 1 && a.text[0] == '-' && a.text != "-l" && a.text != "--login":
			c.refuseShell(a, base)
			return
		}
	}
	c.refuse(args[0].at, RuleWrapper, base, base+" without a text to run starts a shell", "")
}

// judgeScript judges script -c TEXT.
func judgeScript(c *checker, base string, args []arg) {
	for i, a := range args[1:] {
		if !a.constant {
			c.refuseWrapped(a, base)
			return
		}
		if strings.HasPrefix(a.text, "-") && strings.Contains(strings.TrimPrefix(a.text, "--"), "c") {
			if a.text != "-c" && a.text != "-qc" && a.text != "-qec" && a.text != "--command" || i+2 >= len(args) {
				c.refuseShell(a, base)
				return
			}
			c.shellText("sh", args[i+2])
			return
		}
	}
	c.refuse(args[0].at, RuleWrapper, base, base+" without a text to run starts a shell", "")
}

// judgeWatch judges watch, which joins its words and gives them to a shell, unless an
// option says otherwise.
func judgeWatch(c *checker, base string, args []arg) {
	g := grammar{short: "bcegtxCrwp", valued: "nq", optional: "d", long: "beep color errexit chgexit no-title exec precise", longOf: "interval equexit"}
	inner, ok := c.unwrap(base, g, args)
	if !ok || len(inner) == 0 {
		return
	}
	text := inner[0]
	for _, a := range inner[1:] {
		text.text += " " + a.text
		text.constant = text.constant && a.constant
	}
	c.shellText("sh", text)
	for _, a := range inner {
		if !a.constant {
			return
		}
	}
	c.program(inner) // in case an option has it start the program without a shell
}

// judgeFlock judges flock FILE COMMAND and flock FILE -c TEXT.
func judgeFlock(c *checker, base string, args []arg) {
	g := grammar{short: "senouxFv", valued: "wE", long: "shared exclusive nonblock unlock close no-fork verbose", longOf: "timeout wait conflict-exit-code", operands: 1}
	inner, ok := c.unwrap(base, g, args)
	if !ok || len(inner) == 0 {
		return
	}
	if inner[0].constant && (inner[0].text == "-c" || inner[0].text == "--command") {
		if len(inner) > 1 {
			c.shellText("sh", inner[1])
		}
		return
	}
	c.program(inner)
}

// judgeNpx judges npx and similar programs, which fetch the programs that they start.
func judgeNpx(c *checker, base string, args []arg) {
	for _, a := range args[1:] {
		name, _, _ := strings.Cut(a.text, "=")
		if !a.constant && !c.requireNotOption(a, base) {
			return
		}
		if name == "-c" || name == "--call" || name == "-p" || name == "--package" {
			c.refuseArgument(a, base, name)
			return
		}
		if !strings.HasPrefix(a.text, "-") {
			c.noteUnchecked(base)
			return
		}
	}
}

// gitKnown are the subcommands of git that start no program named by their arguments,
// except by the options in gitDanger. Other words may be aliases, which a configuration
// file defines, and aliases may be commands of the shell.
const gitKnown = "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore check-mailmap check-ref-format " +
	"checkout checkout-index cherry cherry-pick clean clone column commit commit-tree config count-objects describe diff diff-files diff-index " +
	"diff-tree fast-export fetch fmt-merge-msg for-each-ref format-patch fsck gc grep hash-object help index-pack init interpret-trailers log " +
	"ls-files ls-remote ls-tree merge merge-base merge-file merge-tree mktag mktree mv name-rev notes pack-objects pack-refs patch-id prune pull push " +
	"range-diff read-tree rebase reflog remote repack replace request-pull rerere reset restore rev-list rev-parse revert rm shortlog show show-branch " +
	"show-index show-ref sparse-checkout stage stash status stripspace switch symbolic-ref tag unpack-file unpack-objects update-index update-ref var " +
	"verify-commit verify-pack verify-tag version whatchanged worktree write-tree"

// gitDanger are the options of any subcommand that name programs.
var gitDanger = danger{long: []string{"upload-pack", "receive-pack", "exec", "ext-diff", "open-files-in-pager"}}

// gitReads are the first arguments with which git config only reads.
const gitReads = "--get --get-all --get-regexp --get-urlmatch --get-color --get-colorbool -l --list get list"

// judgeGit judges git: its own options, the subcommand, and the subcommand's options that
// name programs.
func judgeGit(c *checker, base string, args []arg) {
	rest := args[1:]
	for len(rest) > 0 && rest[0].constant && strings.HasPrefix(rest[0].text, "-") {
		name, _, attached := strings.Cut(rest[0].text, "=")
		switch {
		case hasWord("--version --help -h -v -P --no-pager --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice --bare --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs --html-path --man-path --info-path", name):
			rest = rest[1:]
		case hasWord("-C --git-dir --work-tree --namespace --super-prefix", name):
			rest = rest[1:]
			if !attached && len(rest) > 0 {
				if rest[0].many {
					c.refuseWrapped(rest[0], base)
					return
				}
				rest = rest[1:]
			}
		default:
			c.refuseArgument(rest[0], base, name)
			return
		}
	}
	if len(rest) == 0 {
		return
	}
	if !rest[0].constant {
		c.refuse(rest[0].at, RuleArgument, base, "the subcommand of git must be written out", "")
		return
	}
	if !hasWord(gitKnown, rest[0].text) {
		c.refuse(rest[0].at, RuleArgument, base, "git "+rest[0].text+" starts other programs, or is an alias", "")
		return
	}
	c.gitSubcommand(base, rest)
}

// gitSubcommand judges a known subcommand and its arguments.
func (c *checker) gitSubcommand(base string, args []arg) {
	name := args[0].text
	if name == "config" && (len(args) < 2 || !args[1].constant || !hasWord(gitReads, args[1].text)) {
		c.refuse(args[0].at, RuleArgument, base, "git config can name programs that git starts later", "read with git config --get")
		return
	}
	if name == "bisect" && len(args) > 1 {
		if args[1].constant && args[1].text == "run" {
			if len(args) > 2 {
				c.program(args[2:])
			}
			return
		}
		if !args[1].constant {
			c.refuse(args[1].at, RuleArgument, base, "the subcommand of git bisect must be written out", "")
		}
		if args[1].text == "visualize" || args[1].text == "view" {
			c.refuse(args[1].at, RuleArgument, base, "git bisect "+args[1].text+" starts what follows it", "use git log")
		}
	}
	d := gitDanger
	switch name {
	case "clone":
		d.short, d.valued = "cu", "bjo"
		d.long = append([]string{"config", "template"}, d.long...)
	case "commit", "tag", "merge", "notes", "stash":
		d.valued = "mF"
	case "init":
		d.long = append([]string{"template"}, d.long...)
	case "rebase":
		d.short, d.valued = "x", "sXC"
	case "grep":
		d.short, d.valued = "O", "efABCm"
	}
	c.options(base, d, args)
	for _, a := range args[1:] {
		if strings.Contains(a.text, "ext::") {
			c.refuseArgument(a, base, "ext::")
		}
	}
}
