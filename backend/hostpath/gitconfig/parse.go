package gitconfig

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Entry is a key of git's configuration with its value, as git lists them:
// section and name in lower case, the subsection unchanged.
type Entry struct {
	Key, Value string
	Bare       bool // without "=": git takes the value as true

	odd bool // not in the plain form; of one whose key cannot be read, Key is the line, by number
}

// Bounds of what [Parse] accepts.
const (
	MaxSize = 1 << 20  // bytes of a file
	maxLine = 16 << 10 // bytes of a line
)

// ErrNotPlain is the error of a file that is not in the form that [Parse] reads.
var ErrNotPlain = errors.New("not in the plain form")

// Parse reads a file of git's configuration in the form that people and git itself write. It
// refuses everything unusual, so that it never reads a file in another way than git: continued
// lines, long lines, control characters, dotted sections, and everything that git refuses.
func Parse(text []byte) ([]Entry, error) {
	all, err := parse(text)
	if err != nil || slices.ContainsFunc(all, func(e Entry) bool { return e.odd }) {
		return nil, ErrNotPlain
	}
	return all, nil
}

// parse does what Parse does, but where something is not in that form, it goes on after that: after
// the setting, or at the next section.
func parse(text []byte) ([]Entry, error) {
	if len(text) > MaxSize {
		return nil, ErrNotPlain
	}
	var all []Entry
	section, lost, continued := "", false, false
	for n := 1; len(text) > 0; n++ {
		line, more, ended := bytes.Cut(text, []byte("\n"))
		if text = more; ended {
			line = bytes.TrimSuffix(line, []byte("\r"))
		}
		goesOn := (len(line)-len(bytes.TrimRight(line, `\`)))%2 == 1
		if continued {
			continued = goesOn
			continue
		}
		plain := len(line) <= maxLine && !bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f || r == '\ufeff' })
		number := Entry{Key: "line " + strconv.Itoa(n), odd: true}
		rest := blank(string(line))
		if strings.HasPrefix(rest, "[") {
			var ok bool
			section, rest, ok = parseSection(rest[1:])
			if lost = !ok || !plain; lost {
				all = append(all, number)
			}
			rest = blank(rest)
		}
		comment := rest == "" || rest[0] == '#' || rest[0] == ';'
		switch {
		case lost, comment && plain:
			continue
		case comment, section == "":
			all = append(all, number)
			continue
		}
		s, ok := parseSetting(rest)
		if s.odd = !ok || !plain; s.odd {
			continued = goesOn
		}
		if s.Key == "" {
			s = number
		} else {
			s.Key = section + "." + s.Key
		}
		all = append(all, s)
	}
	return all, nil
}

// blank removes blanks from the beginning.
func blank(s string) string { return strings.TrimLeft(s, " \t") }

func isAlpha(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// word cuts off the longest prefix of characters that a name may have.
func word(s string) (name, rest string) {
	n := 0
	for n < len(s) && (isAlpha(s[n]) || s[n] >= '0' && s[n] <= '9' || s[n] == '-') {
		n++
	}
	return strings.ToLower(s[:n]), s[n:]
}

// parseSection parses a section header after the "[": a name, and possibly a subsection in
// quotes.
func parseSection(s string) (section, rest string, ok bool) {
	name, s := word(s)
	if name == "" {
		return "", "", false
	}
	if rest, ok = strings.CutPrefix(s, "]"); ok {
		return name, rest, true
	}
	sub, quoted := strings.CutPrefix(blank(s), `"`)
	sub, rest, closed := strings.Cut(sub, `"]`)
	if blank(s) == s || !quoted || !closed || sub == "" || strings.ContainsAny(sub, `"\`) {
		return "", "", false
	}
	return name + "." + sub, rest, true
}

// parseSetting reads "name", or "name = value" and possibly a comment.
func parseSetting(s string) (Entry, bool) {
	name, rest := word(s)
	if name == "" || !isAlpha(name[0]) {
		return Entry{}, false
	}
	if rest = blank(rest); rest == "" {
		return Entry{Key: name, Bare: true}, true
	}
	if rest[0] != '=' {
		return Entry{Key: name}, false
	}
	value, ok := parseValue(rest[1:])
	return Entry{Key: name, Value: value}, ok
}

// parseValue reads a value as git does: parts of it may be in quotes; spaces around it and a
// comment after it do not belong to it.
func parseValue(s string) (string, bool) {
	var b strings.Builder
	quoted, spaces := false, 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case !quoted && (c == ' ' || c == '\t'):
			if b.Len() > 0 {
				spaces++
			}
			// Only blanks may follow a tab, and possibly a comment.
			if rest := blank(s[i:]); c == '\t' && b.Len() > 0 && rest != "" && rest[0] != '#' && rest[0] != ';' {
				return "", false // some versions of git turn the tab into a space
			}
			continue
		case !quoted && (c == '#' || c == ';'):
			return b.String(), true
		}
		for ; spaces > 0; spaces-- {
			b.WriteByte(' ')
		}
		switch c {
		case '"':
			quoted = !quoted
		case '\\':
			i++
			if i == len(s) {
				return "", false // the line is continued
			}
			at := strings.IndexByte(`tbn\"`, s[i])
			if at < 0 {
				return "", false
			}
			b.WriteByte("\t\b\n\\\""[at])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), !quoted
}

// ParseList reads the output of "git config --null --list".
func ParseList(text []byte) []Entry {
	var all []Entry
	for entry := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte{0}), []byte{0}) {
		key, value, found := bytes.Cut(entry, []byte("\n"))
		if len(entry) > 0 {
			all = append(all, Entry{Key: string(key), Value: string(value), Bare: !found})
		}
	}
	return all
}

// MaxPathFile is the largest size, in bytes, of one of git's files that hold a path (".git",
// "commondir", "gitdir").
const MaxPathFile = 8 << 10

// Absolute returns the absolute path for a path that git reads in a file. base is the
// directory to which relative paths are relative.
func Absolute(path, base string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}
