//go:build linux

package escape

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// Controls of an attack: who runs it without the wall. Where somebody does,
// it must succeed there.
type control int

const (
	anybody control = iota // as whoever runs the tests
	private                // in namespaces that are the attacker's own
	root                   // by root alone
	never                  // by nobody: row.why says for what reason
)

// row is one attack.
type row struct {
	name    string
	args    []string // of the attacker: the attack and its arguments
	want    string   // outcomes inside that are right, joined by "|"
	control control
	unless  string // what the control may come to instead of success, joined by "|"
	why     string // for control never, or for a want of "succeeded"
}

// outcome is what an attack came to, in one word or a few: "succeeded", an
// errno, or the attacker's own words.
func outcome(stdout []byte, status string) string {
	var v struct {
		Succeeded bool
		Errno     string
		Detail    string
	}
	if json.Unmarshal(stdout, &v) != nil {
		return "crashed (" + status + ")"
	}
	switch {
	case v.Succeeded:
		return "succeeded"
	case v.Errno != "":
		return v.Errno
	default:
		return v.Detail
	}
}

func oneID(id int) []syscall.SysProcIDMap {
	return []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
}

// without runs the attack on the host's side.
func (h *host) without(t *testing.T, r row) string {
	t.Helper()
	switch {
	case r.control == never:
		return "not run: " + r.why
	case r.control == root && os.Geteuid() != 0:
		return "needs root"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	init := ""
	if slices.Contains(r.args, "{init}") {
		init = h.victim(t)
	}
	cmd := h.control(ctx, r.args, r.control == private, init)
	stdout, err := cmd.Output()
	status := "status 0"
	if err != nil {
		status = err.Error()
	}
	for _, f := range cmd.ExtraFiles {
		_ = f.Close()
	}
	got := outcome(stdout, status)
	if got != "succeeded" && !slices.Contains(strings.Split(r.unless, "|"), got) {
		detail := ""
		if exit := (*exec.ExitError)(nil); asExit(err, &exit) {
			detail = string(exit.Stderr)
		}
		t.Errorf("without the wall: %s, want succeeded: %s%s", got, stdout, detail)
	}
	return got
}

func asExit(err error, exit **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError) //nolint:errorlint // Output returns it bare
	*exit = e
	return ok
}

// within runs the attack inside.
func (h *host) within(t *testing.T, client *wire.Client, r row) string {
	t.Helper()
	got, err := attack(t.Context(), client, h.expand(r.args, "{ws}", spaceInside, "{init}", "1", "{prepare}", "no"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Split(r.want, "|"), got) {
		t.Errorf("inside: %s, want %s", got, r.want)
	}
	return got
}

func attack(ctx context.Context, client *wire.Client, args []string) (string, error) {
	limit := 20.0
	res, err := client.Exec(ctx, wire.ExecRequest{
		Argv: append([]string{attackerDir + "/attacker"}, args...), TimeoutSeconds: &limit,
	})
	if err != nil {
		return "", err
	}
	return outcome([]byte(res.Stdout), fmt.Sprintf("status %d %s", res.ExitCode, res.Signal)), nil
}

// grids is what TestMain prints in the end.
var grids strings.Builder

// run tries every row and adds a grid of them.
func (h *host) run(t *testing.T, title string, client *wire.Client, rows []row) {
	t.Helper()
	who := "root"
	if os.Geteuid() != 0 {
		who = "an ordinary user"
	}
	var grid strings.Builder
	fmt.Fprintf(&grid, "\n%s, as %s\n  %-46s %-28s %s\n", title, who, "attack", "without the wall", "inside")
	for _, r := range rows {
		t.Run(strings.ReplaceAll(r.name, "/", "."), func(t *testing.T) {
			outside := h.without(t, r)
			inside := h.within(t, client, r)
			mark := " "
			if t.Failed() {
				mark = "!"
			}
			if inside == "succeeded" {
				inside += ": " + r.why
			}
			fmt.Fprintf(&grid, "%s %-46s %-28s %s\n", mark, r.name, outside, inside)
		})
	}
	grids.WriteString(grid.String())
	t.Log(grid.String())
}
