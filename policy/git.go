package policy

import (
	"slices"
	"strings"
	"unicode"

	"github.com/paddock-dev/paddock/internal/lazyregexp"
)

// GitKey is a key of git's configuration whose value names something that git runs or
// obeys.
type GitKey struct {
	// Name is section.key, or section.*.key for a key of subsections, in small
	// letters. "section.*" is every key of the section.
	Name  string
	Class Class
	Kind  GitKind
	Why   string
}

// GitKind says what the value of a [GitKey] is.
type GitKind string

// The kinds of values.
const (
	// GitCommand is a command line, whose words may be files.
	GitCommand GitKind = "command"
	// GitPath is a file or a directory, relative to where git runs.
	GitPath GitKind = "path"
	// GitInclude is a file of configuration, relative to the one that names it.
	GitInclude GitKind = "include"
	// GitShell is a command line if it starts with "!". Other values run nothing.
	GitShell GitKind = "!command"
	// GitURL is a command line if it starts with "ext::".
	GitURL GitKind = "url"
)

// Matches reports whether this is the key that is given as git lists it.
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

// Git runs nothing because of harmlessKeys, whatever their values are, and nothing
// because of harmlessURLs if the value is a common URL or path.
var (
	harmlessKeys = []string{
		"core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates", "core.ignorecase", "core.precomposeunicode", "core.symlinks",
		"core.sharedrepository", "extensions.objectformat", "extensions.refstorage", "init.defaultbranch", "user.name", "user.email",
		"remote.*.fetch", "remote.*.tagopt", "branch.*.merge", "branch.*.rebase", "submodule.active", "submodule.*.active", "submodule.*.branch",
	}
	harmlessURLs = []string{"remote.*.url", "remote.*.pushurl", "branch.*.remote", "submodule.*.url"}
)

// HarmlessGit reports whether a setting of a repository, with its key as git lists it,
// is one that git itself writes when it makes a repository, and that runs no program. A
// place in a ".git" is not harmless, because a push runs the hooks there.
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

// maxGitSetting bounds what AcceptableGit accepts, key and value together, in bytes:
// people read it.
const maxGitSetting = 1024

var (
	// gitName is a name of a remote, without characters that mean something to git or a
	// shell.
	gitName = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$`)
	// gitURL is an https or ssh URL in ASCII, the latter also in its short form HOST:PATH.
	// A user of https has no dot, which would make it look like a host.
	// What git makes a control character of, when it decodes a URL, is not accepted: a line feed
	// would give programs that know passwords other lines than git's.
	gitURL = lazyregexp.New(`^(https://([A-Za-z0-9_-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[[:graph:]]*)?|ssh://(\w[\w.-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?/[[:graph:]]*|(\w[\w.-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*:(/?[\w.~][[:graph:]]*))$`)
)

// EncodedControl matches the percent-encoded form of a control character in a URL.
var EncodedControl = lazyregexp.New(`%([01][0-9A-Fa-f]|7[Ff])`)

// AcceptableGit reports whether a setting that commands have added to a repository's
// configuration can be taken over by the host, with its key as git lists it: the user's name
// and address, a remote's https or ssh URL, the refspecs by which it fetches into its own
// branches, and the upstream of a branch. RemoteOf returns the remote that must exist for it.
func AcceptableGit(key, value string) bool {
	first, last := strings.IndexByte(key, '.'), strings.LastIndexByte(key, '.')
	if first < 0 || value == "" || strings.ContainsAny(key, `"\`) || len(key)+len(value) > maxGitSetting || strings.ContainsFunc(key+value, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return false
	}
	section, name, sub := key[:first], key[last+1:], ""
	if last > first {
		sub = key[first+1 : last]
	}
	switch section + "." + name {
	case "user.name", "user.email": // git refuses names of punctuation alone
		return last == first && strings.ContainsFunc(value, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	case "remote.url":
		return isRemote(sub) && gitURL().MatchString(value) && !strings.ContainsAny(value, " \\") && !EncodedControl().MatchString(value)
	case "remote.fetch":
		return isRemote(sub) && fetchesInto(value, "refs/remotes/"+sub+"/")
	case "branch.remote", "branch.pushremote":
		return isBranch(sub) && (value == "." || isRemote(value))
	case "branch.merge":
		name, ok := strings.CutPrefix(value, "refs/heads/")
		return isBranch(sub) && ok && isBranch(name)
	case "branch.rebase":
		return isBranch(sub) && slices.Contains([]string{"true", "false", "merges", "interactive"}, value)
	}
	return false
}

// isRemote reports whether a text is an acceptable name of a remote.
func isRemote(name string) bool {
	return gitName().MatchString(name) && isRef("refs/remotes/"+name+"/x", false)
}

// isBranch reports whether git accepts a text as the name of a branch.
func isBranch(name string) bool {
	return name != "" && isRef("refs/heads/"+name, false)
}

// isRef reports whether git accepts a text as the name of a reference or, with one "*",
// as a pattern of such names, by the rules of git-check-ref-format(1).
func isRef(text string, pattern bool) bool {
	stars := 0
	if pattern {
		stars = 1
	}
	if strings.Count(text, "*") != stars || !strings.HasPrefix(text, "refs/") || strings.ContainsAny(text, ` ~^:?[\`) || strings.Contains(text, "..") || strings.Contains(text, "@{") || strings.HasSuffix(text, ".") {
		return false
	}
	return !slices.ContainsFunc(strings.Split(text, "/"), func(part string) bool {
		return part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	})
}

// RemoteOf returns the remote that an acceptable setting belongs to or names. The remote
// must have a URL, because git treats the name of a remote without a URL as a path. RemoteOf
// returns "" if the setting has no remote, or is the URL itself.
func RemoteOf(key, value string) string {
	if name, ok := strings.CutPrefix(key, "remote."); ok && strings.HasSuffix(name, ".fetch") {
		return strings.TrimSuffix(name, ".fetch")
	}
	if strings.HasPrefix(key, "branch.") && (strings.HasSuffix(key, ".remote") || strings.HasSuffix(key, ".pushremote")) && value != "." {
		return value
	}
	return ""
}

// fetchesInto reports whether git accepts a refspec, and it writes only below a place or
// leaves branches out.
func fetchesInto(refspec, place string) bool {
	if rest, negative := strings.CutPrefix(refspec, "^"); negative {
		return isRef(rest, strings.Contains(rest, "*"))
	}
	from, to, _ := strings.Cut(strings.TrimPrefix(refspec, "+"), ":")
	pattern := strings.Contains(from, "*")
	return isRef(from, pattern) && isRef(to, pattern) && strings.HasPrefix(to, place)
}
