//go:build linux

package escape

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

// Controls of an attack: who runs it without the wall. Where somebody does,
// it must succeed there.
type control int

const (
	anybody  control = iota // as whoever runs the tests
	private                 // in namespaces that are the attacker's own
	root                    // by root alone
	ordinary                // by an ordinary user alone
	never                   // by nobody: row.why says for what reason
	vmOnly                  // by nobody, but in a machine that may be lost
)

// row is one attack.
type row struct {
	name    string
	args    []string // of the attacker: the attack and its arguments
	want    string   // outcomes inside that are right, joined by "|"
	control control
	unless  string // what the control may come to instead of success, joined by "|"
	why     string // for control never, or for a want of "succeeded"
	copied  string // a file of the host's that commands have a copy of: what succeeds leaves it as it is

	// At the landlock level: other outcomes that are right there, or the
	// words of the level's losses that own up to its success, or why there is
	// nothing to attack.
	landlock string
	lost     string
	absent   string
}

// column is who starts a sandbox of which level of backend linux, or behind
// which other wall.
type column struct {
	Who, Level string
}

func (c column) String() string {
	switch c.Level {
	case policy.LevelFull:
		return c.Who
	case policy.LevelLandlock:
		return "landlock, " + c.Who
	}
	return c.Level
}

// grid is what came of one list of attacks.
type grid struct {
	Title   string
	Columns []column
	Rows    []string
	Without map[string]map[string]string // row, who
	Within  map[string]map[string]cell   // row, column
}

// cell is what came of an attack inside.
type cell struct {
	Text string
	Kind kind
}

type kind string

const (
	stopped  kind = "stopped"
	lost     kind = "openly lost"
	reported kind = "told"
	harmless kind = "harmless"
	absent   kind = "not there to be tried"
	hole     kind = "HOLES"
)

// grids is what the report is made of.
var grids []*grid

func gridOf(title string) *grid {
	for _, g := range grids {
		if g.Title == title {
			return g
		}
	}
	g := &grid{Title: title, Without: map[string]map[string]string{}, Within: map[string]map[string]cell{}}
	grids = append(grids, g)
	return g
}

func (g *grid) add(name string, c column, without string, within cell) {
	if !slices.Contains(g.Columns, c) {
		g.Columns = append(g.Columns, c)
	}
	if g.Within[name] == nil {
		g.Rows = append(g.Rows, name)
		g.Without[name], g.Within[name] = map[string]string{}, map[string]cell{}
	}
	if g.Without[name][c.Who] == "" {
		g.Without[name][c.Who] = without
	}
	g.Within[name][c.String()] = within
}

// merge takes what another process has found out.
func merge(text []byte) error {
	var others []*grid
	if err := json.Unmarshal(text, &others); err != nil {
		return err
	}
	for _, o := range others {
		g := gridOf(o.Title)
		for _, name := range o.Rows {
			for _, c := range o.Columns {
				if within, ok := o.Within[name][c.String()]; ok {
					g.add(name, c, o.Without[name][c.Who], within)
				}
			}
		}
	}
	return nil
}

// print writes the grid for people.
func (g *grid) print(out *strings.Builder) {
	fmt.Fprintf(out, "\n%s: %d ways\n  %-48s %-30s", g.Title, len(g.Rows), "attack", "without the wall")
	for _, c := range g.Columns {
		fmt.Fprintf(out, " %-20s", c)
	}
	fmt.Fprintln(out)
	for _, name := range g.Rows {
		var line strings.Builder
		mark := " "
		for _, c := range g.Columns {
			got := g.Within[name][c.String()]
			if got.Kind == hole {
				mark = "!"
			}
			fmt.Fprintf(&line, " %-20s", got.Text)
		}
		fmt.Fprintf(out, "%s %-48s %-30s%s\n", mark, name, g.control(name), strings.TrimRight(line.String(), " "))
	}
	for _, c := range g.Columns {
		g.count(out, c)
	}
}

// control tells what both kinds of user came to, once where they came to the same.
func (g *grid) control(name string) string {
	var texts []string
	for _, who := range []string{asRoot, asUser} {
		if text := g.Without[name][who]; text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if slices.Contains(texts, succeeded) { // who succeeds shows that it is a way
		return succeeded
	}
	if len(texts) > 1 {
		texts = slices.DeleteFunc(texts, func(text string) bool { return text == needsRoot })
	}
	return strings.Join(texts, " / ")
}

// count says how many attacks a column stops, and how many prove nothing here.
func (g *grid) count(out *strings.Builder, c column) {
	kinds := map[kind]int{}
	refused, vm, never := 0, 0, 0
	for _, name := range g.Rows {
		got, ok := g.Within[name][c.String()]
		if !ok {
			continue
		}
		kinds[got.Kind]++
		switch without := g.control(name); {
		case got.Kind != stopped || strings.HasPrefix(without, succeeded):
		case without == inVM:
			vm++
		case strings.HasPrefix(without, notRun):
			never++
		default:
			refused++
		}
	}
	var parts []string
	for _, k := range []kind{stopped, reported, harmless, lost, absent, hole} {
		if n := kinds[k]; n > 0 || k == hole {
			parts = append(parts, fmt.Sprintf("%d %s", n, k))
		}
	}
	fmt.Fprintf(out, "  %-20s %s; without the wall the host refuses %d of those stopped, %d are for a VM only, %d are not tried\n",
		c, strings.Join(parts, ", "), refused, vm, never)
}

// report is every grid, for people, and for another process where that asks for it.
func report() string {
	if file := os.Getenv(cellsEnv); file != "" {
		if text, err := json.Marshal(grids); err == nil {
			_ = os.WriteFile(file, text, 0o600)
		}
		return ""
	}
	var out strings.Builder
	for _, g := range grids {
		g.print(&out)
	}
	return out.String()
}

// run tries every row on both sides of one sandbox.
func (h *host) run(t *testing.T, title string, rows []row) {
	t.Helper()
	g := gridOf(title)
	for _, r := range rows {
		t.Run(strings.ReplaceAll(r.name, "/", "."), func(t *testing.T) {
			within := cell{Text: "hole", Kind: hole}
			without := g.Without[r.name][h.Who]
			defer func() {
				if t.Failed() {
					within.Kind = hole
				}
				g.add(r.name, h.column, without, within)
			}()
			if without == "" {
				without = h.without(t, r)
			}
			within = h.within(t, r)
		})
	}
}
