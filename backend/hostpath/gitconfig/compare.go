// Package gitconfig reads files of git's configuration that commands of a sandbox
// could have written, compares a sandbox's copy with the host's file ([Compare]),
// stores the additions ([Keep]) and writes those that the user accepts into the host's
// file ([Accept]). It does not run git: a file that is not in the plain form that
// git itself writes is an error.
package gitconfig

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// Setting is a setting of git's configuration, with its key as git lists it.
type Setting struct{ Key, Value string }

// String returns the setting as one line for the person who decides about it. What is not seen in it is
// there by number, and so is, after its encoded form, a control character that git would decode in
// a URL.
func (s Setting) String() string {
	return policy.EncodedControl().ReplaceAllStringFunc(text.Visible(s.Key+"="+s.Value), func(code string) string {
		c, _ := strconv.ParseUint(code[1:], 16, 8) // two digits
		return fmt.Sprintf("%s<U+%04X>", code, c)
	})
}

// Added is how commands have changed their copy of a repository's configuration.
type Added struct {
	// Settings are the new ones that the host's file may take over, see
	// [policy.AcceptableGit], in their order.
	Settings []Setting
	// Other are the keys of all other differences, which are never taken over.
	Other []string
}

// MaxAdded is how many settings commands of one sandbox can add, and how many [Accept] takes
// over at once: so few that a person can check them.
const MaxAdded = 128

const maxAddedOther = 64 // keys of one copy

var errTooManyAdded = fmt.Errorf("more than %d settings were added", MaxAdded)

// errNotPlainGit is the error of configuration that cannot be compared.
var errNotPlainGit = errors.New("it is not in the form that git writes")

// errIncludes is the error of the host's configuration if it may have keys in other files.
var errIncludes = errors.New("the host's file includes others, which may have values of the same keys")

// Compare compares the text of a repository's configuration with a copy that commands could
// change. The settings never have a key that the host's file has, or to which a command has
// also given a value that is not acceptable. If the host's file includes others, Compare
// fails.
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
	all, err := parse(copied)
	if err != nil {
		return found, errNotPlainGit
	}
	was, is := byKey(old), byKey(all)
	other := func(key string) {
		if key = text.Escape(key); len(found.Other) < maxAddedOther && !slices.Contains(found.Other, key) {
			found.Other = append(found.Other, key)
		}
	}
	urls := map[string]bool{}                                // remotes that have one, or get one
	acceptable, same := map[string]bool{}, map[string]bool{} // by key, of which a file can have many values
	for key, values := range is {
		acceptable[key] = !slices.ContainsFunc(values, func(o Entry) bool { return o.Bare || o.odd || !policy.AcceptableGit(o.Key, o.Value) })
		same[key] = slices.Equal(was[key], values)
	}
	for _, s := range slices.Concat(old, all) {
		if name, ok := strings.CutPrefix(s.Key, "remote."); ok && strings.HasSuffix(name, ".url") && s.Value != "" && (was[s.Key] != nil || acceptable[s.Key]) {
			urls[strings.TrimSuffix(name, ".url")] = true
		}
	}
	for _, s := range all {
		remote := policy.RemoteOf(s.Key, s.Value)
		switch {
		case was[s.Key] != nil:
			if !same[s.Key] {
				other(s.Key)
			}
		case acceptable[s.Key] && (remote == "" || urls[remote]):
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
	if len(found.Settings) > MaxAdded { // not the first ones, which may name remotes of the others
		return Added{}, errTooManyAdded
	}
	return found, nil
}

// byKey returns the entries by their keys.
func byKey(all []Entry) map[string][]Entry {
	of := map[string][]Entry{}
	for _, s := range all {
		of[s.Key] = append(of[s.Key], s)
	}
	return of
}

// gitText returns settings in git's format, to be appended to other configuration.
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
