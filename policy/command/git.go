package command

import "strings"

// gitKnown are the subcommands of git that start no program that their
// arguments name, apart from gitDanger's. Others may be aliases, which a
// configuration file defines, and aliases may be commands of the shell.
const gitKnown = "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore check-mailmap check-ref-format " +
	"checkout checkout-index cherry cherry-pick clean clone column commit commit-tree config count-objects describe diff diff-files diff-index " +
	"diff-tree fast-export fetch fmt-merge-msg for-each-ref format-patch fsck gc grep hash-object help index-pack init interpret-trailers log " +
	"ls-files ls-remote ls-tree merge merge-base merge-file merge-tree mktag mktree mv name-rev notes pack-objects pack-refs patch-id prune pull push " +
	"range-diff read-tree rebase reflog remote repack replace request-pull rerere reset restore rev-list rev-parse revert rm shortlog show show-branch " +
	"show-index show-ref sparse-checkout stage stash status stripspace switch symbolic-ref tag unpack-file unpack-objects update-index update-ref var " +
	"verify-commit verify-pack verify-tag version whatchanged worktree write-tree"

// gitDanger are options that name programs, of any subcommand.
var gitDanger = danger{long: []string{"upload-pack", "receive-pack", "exec", "ext-diff", "open-files-in-pager"}}

// gitReads are the ways of git config that only read.
const gitReads = "--get --get-all --get-regexp --get-urlmatch --get-color --get-colorbool -l --list get list"

// gitWords judges git: its own options, the subcommand, and the options of
// that which name programs.
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
