package gitconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// Setting is a setting of git's configuration, with its key as git lists it.
type Setting struct{ Key, Value string }

// String returns the setting in one line of what people can see.
func (s Setting) String() string { return text.Escape(s.Key + "=" + s.Value) }

// Added is what commands have made of their copy of a repository's configuration.
type Added struct {
	// Settings are new ones that the host's file may take over, see
	// [policy.AcceptableGit], in their order.
	Settings []Setting
	// Other are the keys of all else that differs, which is never taken over.
	Other []string
}

// MaxAdded bounds the settings that commands of one sandbox can add, and that
// [Accept] takes over at once: a person looks at them.
const MaxAdded = 128

const maxAddedOther = 64 // keys of one copy

var errTooManyAdded = fmt.Errorf("more than %d settings were added", MaxAdded)

// errNotPlainGit is configuration in which nobody can tell what is new.
var errNotPlainGit = errors.New("it is not in the form that git writes")

// errIncludes is configuration of the host's that may have a key in another file.
var errIncludes = errors.New("the host's file includes others, which may have values of the same keys")

// Compare compares the text of a repository's configuration with a copy that
// commands could change. A key that the host's file has, or that a command has given a
// value of another kind, is never among the settings; nothing is where the host's file
// includes others.
func Compare(host, copied []byte) (Added, error) {
	var found Added
	old, err := Parse(host)
	if err != nil {
		return found, errNotPlainGit
	}
	if slices.ContainsFunc(old, func(s Entry) bool {
		return s.Key == "include.path" || strings.HasPrefix(s.Key, "includeif.") && strings.HasSuffix(s.Key, ".path")
	}) {
		return found, errIncludes
	}
	all, err := Parse(copied)
	if err != nil {
		return found, errNotPlainGit
	}
	was, is := byKey(old), byKey(all)
	other := func(key string) {
		if key = text.Escape(key); len(found.Other) < maxAddedOther && !slices.Contains(found.Other, key) {
			found.Other = append(found.Other, key)
		}
	}
	urls := map[string]bool{} // remotes that have one, or get one
	acceptable := func(s Entry) bool {
		return !slices.ContainsFunc(is[s.Key], func(o Entry) bool { return o.Bare || !policy.AcceptableGit(o.Key, o.Value) })
	}
	for _, s := range slices.Concat(old, all) {
		if name, ok := strings.CutPrefix(s.Key, "remote."); ok && strings.HasSuffix(name, ".url") && s.Value != "" && (was[s.Key] != nil || acceptable(s)) {
			urls[strings.TrimSuffix(name, ".url")] = true
		}
	}
	for _, s := range all {
		remote := policy.RemoteOf(s.Key, s.Value)
		switch {
		case was[s.Key] != nil:
			if !slices.Equal(was[s.Key], is[s.Key]) {
				other(s.Key)
			}
		case acceptable(s) && (remote == "" || urls[remote]):
			found.Settings = append(found.Settings, Setting{s.Key, s.Value})
		default:
			other(s.Key)
		}
	}
	for _, s := range old {
		if is[s.Key] == nil {
			other(s.Key)
		}
	}
	if len(found.Settings) > MaxAdded { // a part would name remotes that are not in it
		return Added{}, errTooManyAdded
	}
	return found, nil
}

func byKey(all []Entry) map[string][]Entry {
	of := map[string][]Entry{}
	for _, s := range all {
		of[s.Key] = append(of[s.Key], s)
	}
	return of
}

// gitText writes settings as git does, to stand behind other configuration.
func gitText(settings []Setting) string {
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
