package hostpath

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// GitSetting is a setting of git's configuration, with its key as git lists it.
type GitSetting struct{ Key, Value string }

// String is the setting in one line of what people can see.
func (s GitSetting) String() string { return Printable(s.Key + "=" + s.Value) }

// GitAdded is what commands have made of their copy of a repository's configuration.
type GitAdded struct {
	// Settings are new ones that the host's file may take over, see
	// [policy.AcceptableGit], in their order.
	Settings []GitSetting
	// Other are the keys of all else that differs, which is never taken over.
	Other []string
}

// MaxGitAdded bounds the settings that commands of one sandbox can add, and that
// [AcceptGit] takes over at once: a person looks at them.
const MaxGitAdded = 128

const maxAddedOther = 64 // keys of one copy

var errTooManyAdded = fmt.Errorf("more than %d settings were added", MaxGitAdded)

// errNotPlainGit is configuration in which nobody can tell what is new.
var errNotPlainGit = errors.New("it is not in the form that git writes")

// errIncludes is configuration of the host's that may have a key in another file.
var errIncludes = errors.New("the host's file includes others, which may have values of the same keys")

// CompareGit compares the text of a repository's configuration with a copy that
// commands could change. A key that the host's file has, or that a command has given a
// value of another kind, is never among the settings; nothing is where the host's file
// includes others.
func CompareGit(host, copied []byte) (GitAdded, error) {
	var found GitAdded
	old, err := parsePlain(host)
	if err != nil {
		return found, errNotPlainGit
	}
	if slices.ContainsFunc(old, func(s setting) bool {
		return s.key == "include.path" || strings.HasPrefix(s.key, "includeif.") && strings.HasSuffix(s.key, ".path")
	}) {
		return found, errIncludes
	}
	all, err := parsePlain(copied)
	if err != nil {
		return found, errNotPlainGit
	}
	was, is := byKey(old), byKey(all)
	other := func(key string) {
		if key = Printable(key); len(found.Other) < maxAddedOther && !slices.Contains(found.Other, key) {
			found.Other = append(found.Other, key)
		}
	}
	urls := map[string]bool{} // remotes that have one, or get one
	acceptable := func(s setting) bool {
		return !slices.ContainsFunc(is[s.key], func(o setting) bool { return o.bare || !policy.AcceptableGit(o.key, o.value) })
	}
	for _, s := range slices.Concat(old, all) {
		if name, ok := strings.CutPrefix(s.key, "remote."); ok && strings.HasSuffix(name, ".url") && s.value != "" && (was[s.key] != nil || acceptable(s)) {
			urls[strings.TrimSuffix(name, ".url")] = true
		}
	}
	for _, s := range all {
		remote := policy.RemoteOf(s.key, s.value)
		switch {
		case was[s.key] != nil:
			if !slices.Equal(was[s.key], is[s.key]) {
				other(s.key)
			}
		case acceptable(s) && (remote == "" || urls[remote]):
			found.Settings = append(found.Settings, GitSetting{s.key, s.value})
		default:
			other(s.key)
		}
	}
	for _, s := range old {
		if is[s.key] == nil {
			other(s.key)
		}
	}
	if len(found.Settings) > MaxGitAdded { // a part would name remotes that are not in it
		return GitAdded{}, errTooManyAdded
	}
	return found, nil
}

func byKey(all []setting) map[string][]setting {
	of := map[string][]setting{}
	for _, s := range all {
		of[s.key] = append(of[s.key], s)
	}
	return of
}

// gitText writes settings as git does, to stand behind other configuration.
func gitText(settings []GitSetting) string {
	var b strings.Builder
	section := ""
	for _, s := range settings {
		first, last := strings.IndexByte(s.Key, '.'), strings.LastIndexByte(s.Key, '.')
		head := "[" + s.Key[:first] + "]\n"
		if last > first {
			head = "[" + s.Key[:first] + ` "` + s.Key[first+1:last] + "\"]\n"
		}
		if head != section {
			b.WriteString(head)
			section = head
		}
		value := s.Value
		if strings.ContainsAny(value, " #;\"\\") {
			value = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
		}
		b.WriteString("\t" + s.Key[last+1:] + " = " + value + "\n")
	}
	return b.String()
}
