package policy

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// maxGitValue bounds the values that AcceptableGit takes, in bytes.
const maxGitValue = 2048

var (
	// gitName is a name of a remote, without what git or a shell could take for more.
	gitName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$`)
	// gitURL is https or ssh, the latter also in its short form HOST:PATH.
	gitURL = regexp.MustCompile(`^(https://[A-Za-z0-9]|ssh://[A-Za-z0-9]|([A-Za-z0-9._-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*:([^:/]|/[^/]))`)
)

// AcceptableGit reports whether a setting that commands have added to a repository's
// configuration can become the host's, with its key in the form in which git lists it:
// the user's name and address, a remote's https or ssh URL and the branches of its own
// that it fetches, and what a branch follows. RemoteOf says which remote must be
// there for it as well.
func AcceptableGit(key, value string) bool {
	first, last := strings.IndexByte(key, '.'), strings.LastIndexByte(key, '.')
	if first < 0 || value == "" || strings.ContainsAny(key, `"\`) || len(key)+len(value) > maxGitValue || strings.ContainsFunc(key+value, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return false
	}
	section, name, sub := key[:first], key[last+1:], ""
	if last > first {
		sub = key[first+1 : last]
	}
	switch section + "." + name {
	case "user.name", "user.email":
		return last == first
	case "remote.url":
		return gitName.MatchString(sub) && gitURL.MatchString(value) && !strings.ContainsAny(value, " \\")
	case "remote.fetch":
		return gitName.MatchString(sub) && fetchesInto(value, "refs/remotes/"+sub+"/")
	case "branch.remote", "branch.pushremote":
		return sub != "" && (value == "." || gitName.MatchString(value))
	case "branch.merge":
		return sub != "" && strings.HasPrefix(value, "refs/heads/")
	case "branch.rebase":
		return sub != "" && slices.Contains([]string{"true", "false", "merges", "interactive"}, value)
	}
	return false
}

// RemoteOf is the remote that an acceptable setting names and that must have a URL:
// git takes the name of one that has none for a path. "" where it names none.
func RemoteOf(key, value string) string {
	if strings.HasPrefix(key, "branch.") && (strings.HasSuffix(key, ".remote") || strings.HasSuffix(key, ".pushremote")) && value != "." {
		return value
	}
	return ""
}

// fetchesInto reports whether a refspec writes below a place alone, or leaves
// branches out.
func fetchesInto(refspec, place string) bool {
	from, to, both := strings.Cut(strings.TrimPrefix(refspec, "+"), ":")
	if rest, negative := strings.CutPrefix(from, "^"); negative {
		return !both && strings.HasPrefix(rest, "refs/")
	}
	return both && strings.HasPrefix(from, "refs/") && strings.HasPrefix(to, place) && !strings.Contains(to, "..")
}
