// Command summary ends a run of gotestsum, which starts it when all tests have
// run (see "make test"):
//
//	gotestsum --jsonfile FILE --post-run-command 'summary [-skips FILE] [-race TEXT]' …
//
// It reads the events that gotestsum wrote and prints what nobody should miss:
// what packages reported (the lines that a TestMain printed from "--- report:
// TITLE" to "--- end of report"), which tests were skipped and why, who ran the
// tests, which tests are flaky (they failed, and passed when they were run alone
// again; they are added to the file TEST_FLAKY_FILE too) and which failed. The last
// line is "N passed, N failed, N skipped".
//
// The exit status is 1 where a test or a package failed, where no test ran, and
// where a test was skipped that the list of allowed skips does not name.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is one line of "go test -json".
type event struct{ Action, Package, Test, Output string }

// test is what became of one test or subtest, in its last run.
type test struct {
	pkg, name   string
	result      string // pass, fail or skip; empty before its end
	flaky       bool   // an earlier run failed
	parent      *test
	isParent    bool
	childFailed bool
	output      strings.Builder
}

// run is what became of all packages.
type run struct {
	tests    []*test // in the order of their start
	byName   map[string]*test
	ended    map[string]string           // result, by package
	printed  map[string]*strings.Builder // by package: what no test printed
	failures []string                    // packages that failed outside of tests
}

func main() {
	skipFile := flag.String("skips", "", "the `file` that lists the skips that are allowed")
	race := flag.String("race", "", "say `text` of the race detector")
	flag.Parse()
	ok, err := summarize(os.Getenv("GOTESTSUM_JSONFILE"), *skipFile, *race, os.Getuid(), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// summarize prints the summary and reports whether the run was good.
func summarize(eventFile, skipFile, race string, uid int, out io.Writer) (ok bool, err error) {
	var allowed skipList
	if skipFile != "" {
		data, err := os.ReadFile(skipFile)
		if err != nil {
			return false, fmt.Errorf("cannot read the list of skips: %w", err)
		}
		if allowed, err = parseSkips(string(data)); err != nil {
			return false, fmt.Errorf("cannot read the list of skips %s: %w", skipFile, err)
		}
	}
	f, err := os.Open(eventFile)
	if err != nil {
		return false, fmt.Errorf("cannot read the events: %w", err)
	}
	defer f.Close()
	r := run{byName: map[string]*test{}, ended: map[string]string{}, printed: map[string]*strings.Builder{}}
	if err := r.read(f); err != nil {
		return false, fmt.Errorf("cannot read the events: %w", err)
	}
	flaky := io.Discard
	if file := os.Getenv("TEST_FLAKY_FILE"); file != "" {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return false, fmt.Errorf("cannot tell what is flaky: %w", err)
		}
		defer f.Close()
		flaky = f
	}
	return r.print(out, flaky, allowed, race, uid), nil
}

// read takes every event. Lines that are none are gotestsum's to show.
func (r *run) read(from io.Reader) error {
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil && e.Package != "" {
			if e.Test == "" {
				r.take(e)
			} else {
				r.test(e).take(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// take handles an event of a package as a whole. A package that fails where
// none of its tests did, in a TestMain or in the compiler, stays a failure
// whatever a second run of no test says.
func (r *run) take(e event) {
	switch e.Action {
	case "start":
		delete(r.ended, e.Package)
	case "output":
		if r.printed[e.Package] == nil {
			r.printed[e.Package] = new(strings.Builder)
		}
		r.printed[e.Package].WriteString(e.Output)
	case "pass", "fail", "skip":
		r.ended[e.Package] = e.Action
		guilty := slices.ContainsFunc(r.tests, func(t *test) bool { return t.pkg == e.Package && t.bad() })
		if e.Action == "fail" && !guilty && !slices.Contains(r.failures, e.Package) {
			r.failures = append(r.failures, e.Package)
		}
	}
}

// test returns the test that an event is about, made on first sight.
func (r *run) test(e event) *test {
	key := e.Package + "\x00" + e.Test
	t := r.byName[key]
	if t == nil {
		t = &test{pkg: e.Package, name: e.Test}
		r.byName[key] = t
		r.tests = append(r.tests, t)
		for up := e.Test; t.parent == nil && strings.Contains(up, "/"); { // the nearest that has begun: names of subtests may have slashes
			up = up[:strings.LastIndexByte(up, '/')]
			t.parent = r.byName[e.Package+"\x00"+up]
		}
		if t.parent != nil {
			t.parent.isParent = true
		}
	}
	return t
}

func (t *test) take(e event) {
	switch e.Action {
	case "run":
		t.flaky, t.childFailed, t.result = t.flaky || t.bad() && t.result != "", false, ""
		t.output.Reset()
	case "output":
		t.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		t.result = e.Action
		for up := t.parent; up != nil && e.Action == "fail"; up = up.parent {
			up.childFailed = true
		}
	}
}

func (t *test) bad() bool { return t.result == "fail" || t.result == "" }

// counts reports whether a test is one of the numbers: a test that only holds
// subtests is not, unless it failed where none of them did.
func (t *test) counts() bool {
	return !t.isParent || t.result == "skip" || t.bad() && !t.childFailed
}

// place is what t.Skip and t.Log put before a message.
var place = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reason returns why a test was skipped: the last line that it logged.
func (t *test) reason() string {
	reason := "no reason given"
	for line := range strings.Lines(t.output.String()) {
		if place.MatchString(line) {
			reason = cmp.Or(strings.TrimSpace(place.ReplaceAllString(line, "")), reason)
		}
	}
	return reason
}

// report is a part of a package's output that is meant for people.
var report = regexp.MustCompile(`(?ms)^--- report: (.*?\n)--- end of report\n`)

// print prints the summary, the flaky tests elsewhere too, and reports whether
// the run was good.
func (r *run) print(out, elsewhere io.Writer, allowed skipList, race string, uid int) bool {
	for _, pkg := range slices.Sorted(maps.Keys(r.printed)) {
		for _, found := range report.FindAllStringSubmatch(r.printed[pkg].String(), -1) {
			fmt.Fprintf(out, "\n%s", found[1])
		}
	}
	passed, forbidden, skipped := 0, 0, map[string][]string{}
	var flaky []string
	for _, t := range r.tests {
		name := t.pkg + "." + t.name
		switch {
		case !t.counts():
		case t.result == "pass":
			passed++
			if t.flaky {
				flaky = append(flaky, name)
			}
		case t.result == "skip":
			class, ok := allowed.class(t.name, t.reason(), uid)
			if !ok {
				class = "NOT ALLOWED"
				forbidden++
			}
			group := class + ": " + t.reason()
			skipped[group] = append(skipped[group], name)
		case t.result == "":
			r.failures = append(r.failures, name+" (did not end)")
		default:
			r.failures = append(r.failures, name)
		}
	}
	skips := 0
	for _, group := range slices.Sorted(maps.Keys(skipped)) {
		fmt.Fprintf(out, "\nskipped, %s\n    %s\n", group, strings.Join(skipped[group], "\n    "))
		skips += len(skipped[group])
	}
	who := "root"
	if uid != 0 {
		who = fmt.Sprintf("an ordinary user (uid %d)", uid)
	}
	with := 0
	for _, result := range r.ended {
		if result != "skip" {
			with++
		}
	}
	fmt.Fprintf(out, "\nran as %s, race detector %s: %d packages with tests, %d without\n", who, cmp.Or(race, "off"), with, len(r.ended)-with)
	for _, name := range flaky {
		fmt.Fprintf(io.MultiWriter(out, elsewhere), "flaky: %s (failed, and passed when it was run alone again)\n", name)
	}
	for _, name := range r.failures {
		fmt.Fprintf(out, "failed: %s\n", name)
	}
	if forbidden > 0 {
		fmt.Fprintf(out, "not allowed: %d skips that the list of allowed skips does not name\n", forbidden)
	}
	if passed+len(r.failures) == 0 {
		fmt.Fprintln(out, "not allowed: no test ran")
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passed, len(r.failures), skips)
	return len(r.failures) == 0 && passed > 0 && forbidden == 0
}
