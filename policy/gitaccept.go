package policy

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// maxGitSetting bounds what AcceptableGit takes, key and value, in bytes: people read it.
const maxGitSetting = 1024

var (
	// gitName is a name of a remote, without what git or a shell could take for more.
	gitName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$`)
	// gitURL is https or ssh, the latter also in its short form HOST:PATH, in ASCII. A user
	// of https has no dot, which would make it look like a host.
	gitURL = regexp.MustCompile(`^(https://([A-Za-z0-9_-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[[:graph:]]*)?|ssh://(\w[\w.-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?/[[:graph:]]*|(\w[\w.-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*:(/?[\w.~][[:graph:]]*))$`)
)

// AcceptableGit reports whether a setting that commands have added to a repository's
// configuration can become the host's, with its key in the form in which git lists it:
// the user's name and address, a remote's https or ssh URL and the branches of its own
// that it fetches, and what a branch follows. RemoteOf says which remote must be
// there for it as well.
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
	case "user.name", "user.email": // git commits for nobody whose name is punctuation alone
		return last == first && strings.ContainsFunc(value, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	case "remote.url":
		return isRemote(sub) && gitURL.MatchString(value) && !strings.ContainsAny(value, " \\")
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

func isRemote(name string) bool {
	return gitName.MatchString(name) && isRef("refs/remotes/"+name+"/x", false)
}

func isBranch(name string) bool {
	return name != "" && isRef("refs/heads/"+name, false)
}

// isRef reports whether git takes a text for the name of a reference, or for a pattern
// of such names, which has one "*": the rules of git-check-ref-format(1).
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

// RemoteOf is the remote that an acceptable setting is about or names, and that must
// have a URL: git takes the name of one that has none for a path. "" where it is
// about none, or gives the URL itself.
func RemoteOf(key, value string) string {
	if name, ok := strings.CutPrefix(key, "remote."); ok && strings.HasSuffix(name, ".fetch") {
		return strings.TrimSuffix(name, ".fetch")
	}
	if strings.HasPrefix(key, "branch.") && (strings.HasSuffix(key, ".remote") || strings.HasSuffix(key, ".pushremote")) && value != "." {
		return value
	}
	return ""
}

// fetchesInto reports whether a refspec is one that git takes and that writes below a
// place alone, or leaves branches out.
func fetchesInto(refspec, place string) bool {
	if rest, negative := strings.CutPrefix(refspec, "^"); negative {
		return isRef(rest, strings.Contains(rest, "*"))
	}
	from, to, _ := strings.Cut(strings.TrimPrefix(refspec, "+"), ":")
	pattern := strings.Contains(from, "*")
	return isRef(from, pattern) && isRef(to, pattern) && strings.HasPrefix(to, place)
}
