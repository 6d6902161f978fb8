package main

import (
	"fmt"
	"regexp"
	"strings"
)

// Classes of skips that are allowed only for one kind of user. A skip of any
// other class is allowed for everyone.
const (
	classRoot     = "needs-root"
	classOrdinary = "needs-ordinary-user"
)

// skipRule allows the tests that a pattern matches to be skipped.
type skipRule struct {
	name  *regexp.Regexp
	class string
}

// skipList is the committed list of allowed skips.
type skipList []skipRule

// parseSkips reads lines of "pattern TAB class". A pattern is the name of a
// test, in which * stands for anything; a line that starts with # is a
// comment.
func parseSkips(text string) (skipList, error) {
	var list skipList
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, class, ok := strings.Cut(line, "\t")
		if !ok || pattern == "" || class == "" || strings.ContainsAny(class, " \t") {
			return nil, fmt.Errorf("line %d: want a pattern, one tab and a class", n)
		}
		glob := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*")
		list = append(list, skipRule{regexp.MustCompile("^" + glob + "$"), class})
	}
	return list, nil
}

// class says which class allows the skip of a test to a user, and whether any
// does.
func (l skipList) class(test string, uid int) (string, bool) {
	for _, rule := range l {
		switch {
		case !rule.name.MatchString(test):
		case rule.class == classRoot && uid == 0:
		case rule.class == classOrdinary && uid != 0:
		default:
			return rule.class, true
		}
	}
	return "", false
}
