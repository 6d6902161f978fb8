package main

import (
	"regexp"
	"strings"
)

// outcome is how a test ended; "" is a test that has not.
type outcome string

const (
	passed  outcome = "pass"
	failed  outcome = "fail"
	skipped outcome = "skip"
)

// testRun is one test, subtest, example or fuzz target.
type testRun struct {
	name        string
	result      outcome
	output      strings.Builder
	parent      *testRun
	isParent    bool
	childFailed bool
}

// pkgRun is the tests of one package. Its own output is what no test printed:
// a TestMain that gives up, say.
type pkgRun struct {
	name   string
	tests  []*testRun // in the order of their start
	byName map[string]*testRun
	output strings.Builder
	ended  bool
}

// report is a part of a package's output that is meant for people.
var report = regexp.MustCompile(`(?ms)^--- report: (.*?\n)--- end of report\n`)

// reports are the parts of a package's own output that it asks to be told.
func (p *pkgRun) reports() []string {
	var found []string
	for _, match := range report.FindAllStringSubmatch(p.output.String(), -1) {
		found = append(found, match[1])
	}
	return found
}

// test gives the test of that name, made on first sight.
func (p *pkgRun) test(name string) *testRun {
	if t := p.byName[name]; t != nil {
		return t
	}
	t := &testRun{name: name}
	for up := name; t.parent == nil; { // the nearest that has begun: names of subtests may have slashes
		i := strings.LastIndexByte(up, '/')
		if i <= 0 {
			break
		}
		up = up[:i]
		t.parent = p.byName[up]
	}
	if t.parent != nil {
		t.parent.isParent = true
	}
	p.byName[name] = t
	p.tests = append(p.tests, t)
	return t
}

// end records how a test ended. Only a failure or a skip is ever told, so
// what a good test printed is forgotten at once.
func (t *testRun) end(result outcome) {
	t.result = result
	switch result {
	case passed:
		t.output.Reset()
	case failed:
		for up := t.parent; up != nil; up = up.parent {
			up.childFailed = true
		}
	}
}

// counts says whether a test is one of the numbers: a test that only holds
// subtests is not, unless it failed where none of them did.
func (t *testRun) counts() bool {
	switch {
	case !t.isParent:
		return true
	case t.result == failed:
		return !t.childFailed
	default:
		return t.result == skipped
	}
}

// chatter are the lines that only say that a test goes on.
var chatter = regexp.MustCompile(`(?m)^=== (RUN|PAUSE|CONT|NAME) .*\n`)

// said is what a test printed.
func (t *testRun) said() string {
	return chatter.ReplaceAllString(t.output.String(), "")
}

// place is what t.Skip and t.Log put before a message.
var place = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reason is why a test was skipped: the last thing it said.
func (t *testRun) reason() string {
	reason := ""
	for line := range strings.Lines(t.said()) {
		if place.MatchString(line) {
			reason = strings.TrimSpace(place.ReplaceAllString(line, ""))
		}
	}
	if reason == "" {
		return "no reason given"
	}
	return reason
}
