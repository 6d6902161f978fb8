//go:build linux

package escape

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// What an attack that acts later may come to. A row says which is right; what
// is better than that is right, too.
const (
	wantStopped = "stopped" // no harm is done
	wantTold    = "told"    // Paddock names it before the host obeys it
)

// later is one attack that acts after its commands have ended: at the next
// start, or through the host's own programs. All texts are scripts for sh,
// which begin in the workspace; the variables are those of [scene.variables].
//
// The control is the same without Paddock: the attack is run by a plain
// shell on the host's side, and the trigger must then do the harm. Harm is
// one thing in all rows: the file $CANARY, outside of the workspace, exists.
// "make test-user", which comes after "make test", does not repeat it: see [controlled].
type later struct {
	name string
	want string

	needs   []string // programs of the host
	prepare string   // makes the tree, beyond the template
	attack  string   // runs inside; in the control on the host
	by      door     // how it gets inside, by default paddock run
	at      string   // the directory below the workspace that is named as the workspace
	flags   []string // of the door; $NAME in them is expanded
	trigger string   // what the host does next
	control string   // the same for the control, where it is another
	plain   string   // the attack of the control, where it is another
	tells   string   // what Paddock must name where it only tells
	runs    bool     // it must get inside, for its refusal would show nothing

	// accepts are the paths of a second control, for an attack that lands from layers: that it
	// does harm once these are accepted where they are held back. "*" is all of them.
	accepts string

	// env is set for Paddock alone, as NAME=VALUE with $NAME expanded.
	env []string
}

// TestAfter is the third part of the grid.
func TestAfter(t *testing.T) {
	requireWalls(t, policy.LevelFull)
	for _, part := range []struct {
		title string
		rows  []later
	}{
		{"what is named", namedAttacks()},
		{"links and the next start", linkAttacks()},
		{"what was closed", closedAttacks()},
		{"Paddock's own files", ownAttacks()},
		{"a project's file", projectAttacks()},
		{"git", gitAttacks()},
		{"nested repositories", nestedAttacks()},
		{"tools", toolAttacks()},
		{"homes", homeAttacks()},
		{"without a read-only mount", openedAttacks()},
		{"owners that were killed", killedAttacks()},
		{"sessions", sessionAttacks()},
		{"what lands from a layer", landedAttacks()},
		{"the host's sockets", hostSocketAttacks()},
	} {
		t.Run(part.title, func(t *testing.T) { tryLater(t, "attacks that act later: "+part.title, part.rows) })
	}
}

// tryLater tries all rows, several at a time, and fills the grid in their order.
func tryLater(t *testing.T, title string, rows []later) {
	t.Helper()
	var mu sync.Mutex
	cells := map[string]cell{}
	t.Cleanup(func() {
		for _, r := range rows {
			if c, ok := cells[r.name]; ok {
				without := succeeded
				if controlled {
					without += " before"
				}
				gridOf(title).add(r.name, column{who(), policy.LevelFull}, without, c)
			}
		}
	})
	for i, r := range rows {
		if controlled && len(rows) > 30 && i%3 != 0 {
			continue // root has tried it: what is found, and how, is the same for every user
		}
		t.Run(strings.ReplaceAll(r.name, "/", "."), func(t *testing.T) {
			t.Parallel()
			for _, program := range r.needs {
				if _, err := exec.LookPath(program); err != nil {
					t.Skip(program + " is not installed here")
				}
			}
			got := r.try(t)
			mu.Lock()
			defer mu.Unlock()
			cells[r.name] = got
		})
	}
}

// controlled says that another run on this machine has shown that each attack does harm
// without Paddock: git and the other tools do the same for every user.
var controlled = testkit.Repeated()

// try runs the row on both sides.
func (r later) try(t *testing.T) cell {
	t.Helper()
	if !controlled {
		r.without(t)
	}
	s := newScene(t)
	s.must(t, r.prepare)
	ran, said := r.enter(t, s)
	if _, err := os.Stat(s.canary); err == nil {
		t.Errorf("the harm is done before anything was asked of the host: %s", said)
	}
	out := s.shell(t, r.trigger, r.env)
	_, err := os.Stat(s.canary)
	harmed := err == nil
	told := r.tells != "" && saidOf(said+out, r.tells)
	switch {
	case !ran && r.runs:
		t.Errorf("the attack did not run: %q", said)
	case !harmed && !ran:
		if !strings.Contains(said, "paddock") {
			t.Errorf("the attack did not run, and Paddock does not say why: %q", said)
		}
		return cell{"refused", stopped}
	case told && r.want == wantTold:
		return cell{"told", reported}
	case !harmed:
		if r.accepts != "" {
			r.accepted(t, s, said)
		}
		return cell{"stopped", stopped}
	default:
		t.Errorf("harm is done, want it %s; Paddock said %q; trigger: %s", r.want, said, out)
	}
	return cell{"harm", hole}
}

// without runs the row on the host's side alone, where it must do harm.
func (r later) without(t *testing.T) {
	t.Helper()
	s := newScene(t)
	s.must(t, r.prepare)
	in := *s
	in.ws = s.ws + "/" + r.at
	attack := r.plain
	if attack == "" {
		attack = r.attack
	}
	out := in.shell(t, attack, r.env)
	trigger := r.control
	if trigger == "" {
		trigger = r.trigger
	}
	out += s.shell(t, trigger, r.env)
	if _, err := os.Stat(s.canary); err != nil {
		t.Errorf("without Paddock it does no harm either, so this shows nothing: %s", out)
	}
}

// saidOf reports whether one of Paddock's own lines names what was made.
func saidOf(said, name string) bool {
	return slices.ContainsFunc(strings.Split(said, "\n"), func(line string) bool {
		return strings.Contains(line, "paddock: ") && strings.Contains(line, name)
	})
}
