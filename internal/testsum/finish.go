package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// endedBadly records that go test itself failed. Where failures are known
// already that adds nothing to them: it is their echo.
func (s *summary) endedBadly(err error) {
	for _, name := range slices.Sorted(maps.Keys(s.packages)) {
		if p := s.packages[name]; !p.ended {
			s.withTests++
			s.endPackage(p, failed, 0)
		}
	}
	if len(s.failures) == 0 {
		s.failures = append(s.failures, failure{name: err.Error()})
	}
}

// finish prints the summary and says whether the whole run was good.
func (s *summary) finish(c *config, race raceMode) bool {
	for _, report := range s.reports {
		fmt.Fprintf(s.out, "\n%s", report)
	}
	forbidden := s.tellSkips(c)
	who := "root"
	if c.uid != 0 {
		who = fmt.Sprintf("an ordinary user (uid %d)", c.uid)
	}
	fmt.Fprintf(s.out, "\nran as %s, %s: %d packages with tests, %d without\n", who, race, s.withTests, s.without)
	for _, name := range s.flaky {
		fmt.Fprintf(s.out, "flaky: %s (failed, and passed when it was run alone again)\n", name)
	}
	for _, f := range s.failures {
		fmt.Fprintf(s.out, "failed: %s\n", f.name)
	}
	if forbidden > 0 {
		fmt.Fprintf(s.out, "not allowed: %d skips that the list of allowed skips does not name\n", forbidden)
	}
	if s.passed+len(s.failures) == 0 {
		fmt.Fprintln(s.out, "not allowed: no test ran")
	}
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", s.passed, len(s.failures), len(s.skips))
	return len(s.failures) == 0 && s.passed > 0 && forbidden == 0
}

// tellSkips prints the skips, grouped by class and reason, and counts those
// that are not allowed.
func (s *summary) tellSkips(c *config) (forbidden int) {
	type group struct{ class, reason string }
	groups := make(map[group][]string)
	for _, k := range s.skips {
		class, ok := c.skips.class(k.test, k.reason, c.uid)
		if !ok {
			class = "NOT ALLOWED"
			forbidden++
		}
		g := group{class, k.reason}
		groups[g] = append(groups[g], k.pkg+"."+k.test)
	}
	order := slices.SortedFunc(maps.Keys(groups), func(a, b group) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.reason, b.reason))
	})
	for _, g := range order {
		fmt.Fprintf(s.out, "\nskipped, %s: %s\n", g.class, g.reason)
		for _, test := range groups[g] {
			fmt.Fprintf(s.out, "    %s\n", test)
		}
	}
	return forbidden
}
