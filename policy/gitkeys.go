package policy

import (
	"slices"
	"strings"
)

// GitKey is a key of git's configuration that names something that git runs
// or obeys.
type GitKey struct {
	// Name is section.key, or section.*.key where a subsection stands between
	// them, in small letters. "section.*" is every key of the section.
	Name  string
	Class Class
	Kind  GitKind
	Why   string
}

// GitKind says what the value of a [GitKey] is.
type GitKind string

// Kinds of values.
const (
	// GitCommand is a command line, whose words may be files.
	GitCommand GitKind = "command"
	// GitPath is a file or a directory, relative to where git runs.
	GitPath GitKind = "path"
	// GitInclude is a file of configuration, relative to the one that names it.
	GitInclude GitKind = "include"
	// GitShell is a command line where it starts with "!", and means nothing else.
	GitShell GitKind = "!command"
	// GitURL is a command line where it starts with "ext::".
	GitURL GitKind = "url"
)

// Matches reports whether the key is the one that is given in the form in
// which git lists it.
func (k GitKey) Matches(key string) bool {
	first, last := strings.IndexByte(key, '.'), strings.LastIndexByte(key, '.')
	if first < 0 {
		return false
	}
	section, name := key[:first], key[last+1:]
	want, rest, _ := strings.Cut(k.Name, ".")
	switch {
	case want != section:
		return false
	case rest == "*":
		return true
	case strings.HasPrefix(rest, "*."):
		return first != last && rest[2:] == name
	}
	return first == last && rest == name
}

// GitKeys lists the keys of git's configuration that name programs, files of
// configuration, or directories in which git finds either.
func GitKeys() []GitKey { return gitKeys }

var gitKeys = []GitKey{
	{"core.hookspath", Unasked, GitPath, "git runs hooks from there"},
	{"core.fsmonitor", Unasked, GitCommand, "git status runs it"},
	{"core.sshcommand", Unasked, GitCommand, "git fetch and push run it"},
	{"core.editor", Unasked, GitCommand, "git commit runs it"},
	{"core.pager", Unasked, GitCommand, "git log and diff run it"},
	{"core.askpass", Unasked, GitCommand, "git runs it to ask for passwords"},
	{"core.gitproxy", Unasked, GitCommand, "git fetch runs it"},
	{"core.attributesfile", Unasked, GitPath, "it selects the filters and drivers that git runs"},
	{"core.alternaterefscommand", Unasked, GitCommand, "git fetch and push run it"},
	{"include.path", Unasked, GitInclude, "git's configuration includes it"},
	{"includeif.*.path", Unasked, GitInclude, "git's configuration includes it"},
	{"filter.*.clean", Unasked, GitCommand, "git status and add run it"},
	{"filter.*.smudge", Unasked, GitCommand, "git checkout runs it"},
	{"filter.*.process", Unasked, GitCommand, "git status, add and checkout run it"},
	{"diff.external", Unasked, GitCommand, "git diff runs it"},
	{"diff.*.command", Unasked, GitCommand, "git diff runs it"},
	{"diff.*.textconv", Unasked, GitCommand, "git diff and log run it"},
	{"merge.*.driver", Unasked, GitCommand, "git merge and rebase run it"},
	{"pager.*", Unasked, GitCommand, "git runs it to show what a command prints"},
	{"gpg.program", Unasked, GitCommand, "git runs it to sign and to check signatures"},
	{"gpg.*.program", Unasked, GitCommand, "git runs it to sign and to check signatures"},
	{"gpg.ssh.defaultkeycommand", Unasked, GitCommand, "git commit runs it"},
	{"credential.helper", Unasked, GitCommand, "git fetch and push run it"},
	{"credential.*.helper", Unasked, GitCommand, "git fetch and push run it"},
	{"sequence.editor", Unasked, GitCommand, "git rebase runs it"},
	{"interactive.difffilter", Unasked, GitCommand, "git add -p runs it"},
	{"uploadpack.packobjectshook", Unasked, GitCommand, "git runs it for who fetches from here"},
	{"remote.*.uploadpack", Unasked, GitCommand, "git fetch runs it"},
	{"remote.*.receivepack", Unasked, GitCommand, "git push runs it"},
	{"remote.*.vcs", Unasked, GitCommand, "git fetch and push run it"},
	{"remote.*.url", Unasked, GitURL, "git fetch and push run it"},
	{"remote.*.pushurl", Unasked, GitURL, "git push runs it"},
	{"url.*.insteadof", Unasked, GitURL, "git fetch and push run it"},
	{"url.*.pushinsteadof", Unasked, GitURL, "git push runs it"},
	{"submodule.*.update", Unasked, GitShell, "git submodule update runs it"},
	{"hook.*.command", Unasked, GitCommand, "git runs it as a hook"},
	{"trailer.*.command", Unasked, GitCommand, "git commit runs it"},
	{"trailer.*.cmd", Unasked, GitCommand, "git commit runs it"},
	{"init.templatedir", Unasked, GitPath, "git init and clone copy hooks from there"},
	{"gc.recentobjectshook", Unasked, GitCommand, "git gc runs it"},
	{"lfs.*.path", Unasked, GitCommand, "git-lfs runs it"},
	{"lfs.*.clean", Unasked, GitCommand, "git-lfs runs it"},
	{"lfs.*.smudge", Unasked, GitCommand, "git-lfs runs it"},
	{"blame.ignorerevsfile", WhenNamed, GitPath, "git blame obeys it"},
	{"alias.*", WhenNamed, GitShell, "git runs it under the name of the alias"},
	{"mergetool.*", WhenNamed, GitCommand, "git mergetool runs it"},
	{"difftool.*", WhenNamed, GitCommand, "git difftool runs it"},
	{"guitool.*", WhenNamed, GitCommand, "git gui runs it"},
	{"man.*", WhenNamed, GitCommand, "git help runs it"},
	{"browser.*", WhenNamed, GitCommand, "git help runs it"},
	{"tar.*.command", WhenNamed, GitCommand, "git archive runs it"},
	{"imap.tunnel", WhenNamed, GitCommand, "git imap-send runs it"},
	{"sendemail.*", WhenNamed, GitCommand, "git send-email runs it"},
	{"instaweb.httpd", WhenNamed, GitCommand, "git instaweb runs it"},
}

// harmlessKeys have git run nothing, whatever their values are, and harmlessURLs
// where these name a place in a common way.
var (
	harmlessKeys = []string{
		"core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates", "core.ignorecase", "core.precomposeunicode", "core.symlinks",
		"core.sharedrepository", "extensions.objectformat", "extensions.refstorage", "init.defaultbranch", "user.name", "user.email",
		"remote.*.fetch", "remote.*.tagopt", "branch.*.merge", "branch.*.rebase", "submodule.active", "submodule.*.active", "submodule.*.branch",
	}
	harmlessURLs = []string{"remote.*.url", "remote.*.pushurl", "branch.*.remote", "submodule.*.url"}
)

// HarmlessGit reports whether a setting of a repository, with its key in the
// form in which git lists it, is one that git itself writes when a repository is
// made, and that has no program run. A place in a ".git", whose hooks a push runs,
// is not.
func HarmlessGit(key, value string) bool {
	matches := func(name string) bool { return GitKey{Name: name}.Matches(key) }
	if slices.ContainsFunc(harmlessKeys, matches) {
		return true
	}
	scheme, _, hasScheme := strings.Cut(value, "://")
	return slices.ContainsFunc(harmlessURLs, matches) && value != "" && !strings.HasPrefix(value, "-") && !strings.Contains(value, "::") && !strings.Contains(value, "://-") &&
		(!hasScheme || slices.Contains([]string{"https", "http", "ssh", "git", "file"}, scheme)) &&
		!strings.Contains("/"+value, "/.git/") && (!hasScheme || !strings.Contains(value, "%")) // which git decodes
}
