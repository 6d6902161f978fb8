//go:build linux

package escape

import (
	"os"
	"strings"
	"testing"
)

// openings are the attacks that walls are known not to stop: true once one was
// seen to succeed.
type openings map[[2]string]bool

// knownOpen reads testdata/open.txt: on each line a wall, an attack and the
// reason, with tabs between them.
func knownOpen(t *testing.T) openings {
	t.Helper()
	text, err := os.ReadFile("testdata/open.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, r := range wallAttacks() {
		names[r.name] = true
	}
	known := openings{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 3 || !names[fields[1]] || fields[2] == "" {
			t.Fatalf("testdata/open.txt: %q is not a wall, an attack that is tried, and a reason", line)
		}
		known[[2]string{fields[0], fields[1]}] = false
	}
	return known
}

// take says whether an attack is known to succeed behind a wall.
func (o openings) take(wall, attack string) bool {
	key := [2]string{wall, attack}
	_, ok := o[key]
	if ok {
		o[key] = true
	}
	return ok
}

// check tells of what is written down and was stopped: a version or a kernel
// that is better than the one that the line was written for.
func (o openings) check(t *testing.T, wall string) {
	t.Helper()
	if t.Skipped() || wall == "host" {
		return
	}
	for key, seen := range o {
		if key[0] == wall && !seen {
			t.Logf("%s stops here what testdata/open.txt says it does not: %s", wall, key[1])
		}
	}
}
