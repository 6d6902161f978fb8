package agent_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// shown holds the names of the conformance tests that have passed.
var shown sync.Map

// conform makes a test one that CONFORMANCE.md may name.
func conform(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() && !t.Skipped() {
			shown.Store(t.Name(), true)
		}
	})
}

// clauses says how many clauses each part of CONFORMANCE.md has: none of them
// gets lost together with its line.
var clauses = map[string]int{
	"001.0":  17,
	"001.1":  8,
	"001.2":  13,
	"001.3":  20,
	"001.4":  7,
	"001.5":  9,
	"001.6":  8,
	"001.7":  8,
	"001.8":  4,
	"001.9":  8,
	"001.10": 21,
	"001.11": 22,
	"D":      34,
}

var (
	rowOf  = regexp.MustCompile(`^\| ([0-9]{3}\.[0-9]+/|D)([0-9]+) \|.*\|(.*)\|$`)
	nameOf = regexp.MustCompile("`(Test[^`]+)`")
)

// wholeRun says whether every test of the package was to run.
func wholeRun() bool {
	for _, name := range []string{"run", "skip", "list", "fuzz", "bench"} {
		if flag.Lookup("test."+name).Value.String() != "" {
			return false
		}
	}
	return true
}

// checkConformance compares CONFORMANCE.md with the tests that have passed.
func checkConformance(file string) (faults []string) {
	text, err := os.ReadFile(file)
	if err != nil {
		return []string{err.Error()}
	}
	seen := map[string]int{}
	for line := range strings.Lines(string(text)) {
		row := rowOf.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			continue
		}
		part, id := strings.TrimSuffix(row[1], "/"), row[1]+row[2]
		if seen[part]++; strconv.Itoa(seen[part]) != row[2] {
			faults = append(faults, fmt.Sprintf("%s is number %d of its part", id, seen[part]))
		}
		names := nameOf.FindAllStringSubmatch(row[3], -1)
		if len(names) == 0 {
			faults = append(faults, id+" has no test")
		}
		for _, name := range names {
			if _, ok := shown.Load(name[1]); !ok {
				faults = append(faults, id+" is not shown: "+name[1]+" did not run and pass")
			}
		}
	}
	for part, n := range clauses {
		if seen[part] != n {
			faults = append(faults, fmt.Sprintf("%s has %d clauses, not %d", part, seen[part], n))
		}
	}
	for part := range seen {
		if _, ok := clauses[part]; !ok {
			faults = append(faults, part+" is not a part")
		}
	}
	slices.Sort(faults)
	return faults
}

// The check finds what it is for.
func TestConformanceCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "CONFORMANCE.md")
	shown.Store("TestShown", true)
	const rows = "| 001.8/1 | clause | `TestShown` |\n| 001.8/2 | clause | `TestShown`, `TestMissing` |\n| 001.8/4 | clause | none |\n| 001.12/1 | clause | `TestShown` |\n"
	if err := os.WriteFile(file, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(checkConformance(file), "\n")
	for _, want := range []string{
		"001.8/2 is not shown: TestMissing did not run and pass", "001.8/4 has no test", "001.8/4 is number 3 of its part",
		"001.8 has 3 clauses, not 4", "001.12 is not a part", "D has 0 clauses, not 34",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not among\n%s", want, got)
		}
	}
	if strings.Contains(got, "001.8/1 ") {
		t.Errorf("got\n%s", got)
	}
}
