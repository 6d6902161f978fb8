package command

import "strings"

// packageOptions are the options of package managers that have a value, and
// those that have none, in front of the subcommand. Where another option
// stands there, the word behind it may be its value or the subcommand.
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

// npmNames are what npm takes for the subcommands that lists block.
var npmNames = map[string]string{
	"in": "install", "ins": "install", "inst": "install", "insta": "install", "instal": "install", "isnt": "install",
	"isnta": "install", "isntal": "install", "isntall": "install", "it": "install", "install-test": "install", "cit": "ci",
	"install-ci-test": "ci", "clean-install": "ci", "ic": "ci", "install-clean": "ci", "isntall-clean": "ci",
	"un": "uninstall", "unlink": "uninstall", "rm": "remove", "r": "remove", "a": "add",
}

// subcommand refuses blocked subcommands: the first word that is no option.
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
			c.refuse(a.at, RuleSubcommand, base, "the subcommand of "+base+" must be written out: "+c.source(a)+" exists at run time alone", "")
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

// canonical is the name in the list that a program takes a word for.
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
				return name // npm completes what is cut short
			}
		}
	}
	return word
}
