package main

import (
	"fmt"
	"io"
	"strings"
)

// skip is a test that was skipped.
type skip struct {
	pkg, test, reason string
}

// summary takes events as they come, tells each package's end and each
// failure at once, and keeps what the last lines need.
type summary struct {
	out      io.Writer
	packages map[string]*pkgRun

	withTests, without int
	passed             int
	failures           []failure // tests, packages and whatever else failed
	flaky              []string  // names of what failed, and passed when it was run again
	skips              []skip
	reports            []string
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, packages: make(map[string]*pkgRun)}
}

// show prints text as it is.
func (s *summary) show(text string) { fmt.Fprint(s.out, text) }

// take handles one event.
func (s *summary) take(e event) {
	switch {
	case e.Action == "build-output":
		s.show(e.Output)
	case e.Package == "":
	case e.Test == "":
		s.takePackage(s.pkg(e.Package), e)
	case e.Action == "output":
		s.pkg(e.Package).test(e.Test).output.WriteString(e.Output)
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
		s.pkg(e.Package).test(e.Test).end(outcome(e.Action))
	case e.Action == "run":
		s.pkg(e.Package).test(e.Test)
	}
}

// takePackage handles an event that belongs to no test.
func (s *summary) takePackage(p *pkgRun, e event) {
	switch e.Action {
	case "output":
		p.output.WriteString(e.Output)
	case "skip":
		p.ended = true
		s.without++
	case "pass", "fail":
		p.ended = true
		s.withTests++
		s.endPackage(p, outcome(e.Action), e.Elapsed)
	}
}

// pkg gives the package of that name, made on first sight.
func (s *summary) pkg(name string) *pkgRun {
	p := s.packages[name]
	if p == nil {
		p = &pkgRun{name: name, byName: make(map[string]*testRun)}
		s.packages[name] = p
	}
	return p
}

// endPackage counts the tests of a package that has ended and prints its line
// and its failures.
func (s *summary) endPackage(p *pkgRun, result outcome, seconds float64) {
	good, skips, bad := 0, 0, s.failedTests(p, result)
	for _, t := range p.tests {
		if !t.counts() {
			continue
		}
		switch t.result {
		case passed:
			good++
		case skipped:
			skips++
			s.skips = append(s.skips, skip{p.name, t.name, t.reason()})
		}
	}
	s.passed += good
	s.reports = append(s.reports, p.reports()...)
	word := "ok"
	if result == failed {
		word = "FAIL"
	}
	fmt.Fprintf(s.out, "%-4s %-52s %7.2fs  %d passed, %d failed, %d skipped\n", word, p.name, seconds, good, bad, skips)
}

// failedTests prints and records what failed in a package and counts it. A
// package that failed where no test did is a failure of its own, and a test
// that never ended in a package that failed is one too.
func (s *summary) failedTests(p *pkgRun, result outcome) int {
	if result != failed {
		return 0
	}
	before := len(s.failures)
	for _, t := range p.tests {
		if t.result != failed && t.result != "" {
			continue
		}
		name := p.name + "." + t.name
		if t.result == "" {
			name += " (did not end)"
		}
		if t.counts() || t.result == "" {
			top, _, _ := strings.Cut(t.name, "/")
			s.failures = append(s.failures, failure{name, p.name, top})
		}
		s.block(name, t.said())
	}
	if len(s.failures) == before {
		s.failures = append(s.failures, failure{name: p.name, pkg: p.name})
	}
	s.block(p.name, p.output.String())
	return len(s.failures) - before
}

// block prints what a test or a package said, under its name.
func (s *summary) block(name, text string) {
	fmt.Fprintf(s.out, "==== %s\n%s", name, text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		s.show("\n")
	}
}
