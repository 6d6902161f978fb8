package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

const (
	// attempts is how often what failed is run again.
	attempts = 2
	// maxAgain is how many failures are run again: where there are more,
	// something is broken.
	maxAgain = 5
)

// failure is a test or a package that failed.
type failure struct {
	name string // as it is told
	pkg  string // empty where it is neither
	test string // the top-level test; empty for the package as a whole
}

// runAgain runs what failed again, each test alone, and takes what passes then
// for flaky: no longer a failure, but told.
func (s *summary) runAgain(c *config, race raceMode) {
	if len(s.failures) > maxAgain {
		return
	}
	type target struct{ pkg, test string }
	passes := map[target]bool{}
	s.failures = slices.DeleteFunc(s.failures, func(f failure) bool {
		if f.pkg == "" {
			return false
		}
		at := target{f.pkg, f.test}
		if _, known := passes[at]; !known {
			for i := 0; i < attempts && !passes[at]; i++ {
				passes[at] = c.alone(race, f)
			}
		}
		if passes[at] {
			s.flaky = append(s.flaky, f.name)
			s.passed++
		}
		return passes[at]
	})
}

// alone reports whether a test passes that is run without others.
func (c *config) alone(race raceMode, f failure) bool {
	args := []string{"test", "-json", "-count=1", "-timeout=15m"}
	if race.on {
		args = append(args, "-race")
	}
	if f.test != "" {
		args = append(args, "-run", "^"+regexp.QuoteMeta(f.test)+"$")
	}
	cmd := exec.Command("go", append(args, f.pkg)...)
	cmd.Dir, cmd.Stderr, cmd.Env = c.dir, c.err, append(os.Environ(), raceEnv())
	out, err := cmd.Output()
	fmt.Fprintf(c.out, "again: %s: %s\n", strings.TrimSuffix(f.pkg+"."+f.test, "."), ended(err))
	again := newSummary(new(bytes.Buffer))
	if readEvents(bytes.NewReader(out), again) != nil {
		return false
	}
	return err == nil && again.passed > 0
}

func ended(err error) string {
	if err != nil {
		return "failed"
	}
	return "passed"
}
