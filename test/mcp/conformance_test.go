//go:build linux

package mcp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notApplicable are the suite's scenarios that do not apply, with the reason.
var notApplicable = map[string]string{
	"completion-complete": "the server does not say that it completes arguments, and has none that a list would help with",
	"server-sse-polling": "resuming a stream is optional: the server keeps no events for who lost its connection, " +
		"since what was started stays and can be asked for",
}

// check is one thing that the suite has looked at.
type check struct{ ID, Status, ErrorMessage string }

// TestConformance runs every scenario for servers of the protocol's official suite.
func TestConformance(t *testing.T) {
	requireSuites(t)
	s := plain(t)
	s.profile, s.fixtures = "full", true
	h := startHTTP(t, s, "--no-auth")
	results := t.TempDir()
	out, errOut, status := node(t.Context(), t, nil, "conformance", "server", "--url", h.url, "--suite", "all", "--output-dir", results)
	list, _, _ := node(t.Context(), t, nil, "conformance", "list", "--server")
	scenarios := regexp.MustCompile(`(?m)^ +- (\S+) `).FindAllStringSubmatch(list, -1)
	if len(scenarios) < 30 {
		t.Fatalf("there are %d scenarios:\n%s", len(scenarios), list)
	}
	passed, failed := 0, 0
	var summary []string
	for _, m := range scenarios {
		name := m[1]
		checks := checksOf(t, results, name)
		good := 0
		for _, c := range checks {
			switch c.Status {
			case "SUCCESS":
				good++
			case "INFO":
			default:
				if notApplicable[name] == "" {
					failed++
					t.Errorf("%s: %s is a %s: %s", name, c.ID, c.Status, c.ErrorMessage)
				}
			}
		}
		passed += good
		line := fmt.Sprintf("%-32s %d passed", name, good)
		if reason := notApplicable[name]; reason != "" {
			line = fmt.Sprintf("%-32s does not apply: %s", name, reason)
		} else if good == 0 {
			t.Errorf("%s: nothing was looked at: %v", name, checks)
		}
		summary = append(summary, line)
	}
	slices.Sort(summary)
	report("the official MCP conformance suite", append(summary, fmt.Sprintf("%d scenarios, %d checks passed, %d failed", len(scenarios), passed, failed)))
	if _, told, _ := strings.Cut(out, "=== SUMMARY ==="); t.Failed() {
		t.Logf("the suite ended with %d:%s%s", status, told, errOut)
	}
}

// checksOf reads what the suite has written of a scenario.
func checksOf(t *testing.T, results, scenario string) (checks []check) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(results, "server-"+scenario+"-2*"))
	if err != nil || len(dirs) != 1 {
		t.Errorf("%s was not run: %v %v", scenario, dirs, err)
		return nil
	}
	data, err := os.ReadFile(filepath.Join(dirs[0], "checks.json"))
	if err == nil {
		err = json.Unmarshal(data, &checks)
	}
	if err != nil {
		t.Errorf("%s: %v", scenario, err)
	}
	return checks
}

// reports are what test/summary prints at the end of the run.
var reports strings.Builder

func report(title string, lines []string) {
	fmt.Fprintf(&reports, "--- report: %s\n%s\n--- end of report\n", title, strings.Join(lines, "\n"))
}
