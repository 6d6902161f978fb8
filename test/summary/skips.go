package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Classes of skips that are allowed only for one kind of user. A skip of any
// other class is allowed for everyone.
const (
	classRoot     = "needs-root"
	classOrdinary = "needs-ordinary-user"
)

// skipRule allows the tests that a pattern matches to be skipped, for a reason
// that another pattern matches.
type skipRule struct {
	name, reason *regexp.Regexp
	class        string
}

// skipList is the committed list of allowed skips.
type skipList []skipRule

// parseSkips reads lines of "pattern TAB class" or "pattern TAB class TAB
// reason". A pattern is the name of a test, in which * stands for anything, as
// it does in a reason; without one, any reason will do. A line that starts with
// # is a comment.
func parseSkips(text string) (skipList, error) {
	var list skipList
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := append(strings.Split(line, "\t"), "*")
		if len(fields) < 3 || len(fields) > 4 || slices.Contains(fields, "") || strings.Contains(fields[1], " ") {
			return nil, fmt.Errorf("line %d: want a pattern, one tab and a class, and perhaps a tab and a reason", n)
		}
		list = append(list, skipRule{name: glob(fields[0]), class: fields[1], reason: glob(fields[2])})
	}
	return list, nil
}

// glob is a pattern in which * stands for anything.
func glob(pattern string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
}

// class says which class allows the skip of a test to a user, and whether any
// does.
func (l skipList) class(test, reason string, uid int) (string, bool) {
	for _, rule := range l {
		switch {
		case !rule.name.MatchString(test) || !rule.reason.MatchString(reason):
		case rule.class == classRoot && uid == 0:
		case rule.class == classOrdinary && uid != 0:
		default:
			return rule.class, true
		}
	}
	return "", false
}
