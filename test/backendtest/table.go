//go:build linux

package backendtest

import (
	_ "embed"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// capabilities is the committed table: a row for each behaviour, a column for
// each wall. "yes|refused" is right either way: it depends on the host.
//
//go:embed capabilities.txt
var capabilities string

// parts are parted by two spaces at least.
var between = regexp.MustCompile(` {2,}`)

// table returns the right outcome, by behaviour and wall.
func table(text string) (walls, rows []string, right map[string]map[string]string) {
	right = map[string]map[string]string{}
	for line := range strings.Lines(text) {
		words := between.Split(strings.TrimSpace(line), -1)
		if walls == nil {
			walls = words[1:]
			continue
		}
		rows = append(rows, words[0])
		right[words[0]] = map[string]string{}
		for i, word := range words[1:] {
			right[words[0]][walls[i]] = word
		}
	}
	return walls, rows, right
}

// column is what came of one wall.
type column struct {
	name    string
	missing string
	got     map[string]string
	wrong   map[string]bool
}

type columns struct{ all []*column }

// grid is all that was run in this process.
var grid columns

func (g *columns) column(name string) *column {
	c := &column{name: name, got: map[string]string{}, wrong: map[string]bool{}}
	g.all = append(g.all, c)
	return c
}

// judge compares one outcome with the table.
func (c *column) judge(t *testing.T, name, got string, err error) {
	t.Helper()
	c.got[name] = got
	_, _, right := table(capabilities)
	want := right[name][c.name]
	switch {
	case *update:
		t.Logf("%s: %v", got, err)
	case want == "":
		c.wrong[name] = true
		t.Errorf("it is %s, and capabilities.txt does not have it for %s: %v", got, c.name, err)
	case !slices.Contains(strings.Split(want, "|"), got):
		c.wrong[name] = true
		t.Errorf("it is %s, and capabilities.txt says %s: %v", got, want, err)
	}
}

// report returns the grid for people: walls down, behaviours across would not fit,
// so behaviours go down.
func (g *columns) report() string {
	if len(g.all) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n  %-52s", "behaviour")
	for _, c := range g.all {
		fmt.Fprintf(&b, " %-16s", c.name)
	}
	b.WriteString("\n")
	for _, cl := range cells() {
		mark, line := " ", ""
		for _, c := range g.all {
			got := c.got[cl.name]
			switch {
			case c.missing != "":
				got = "-"
			case got == "":
				got = "not tried"
			}
			if c.wrong[cl.name] {
				mark = "!"
			}
			line += fmt.Sprintf(" %-16s", got)
		}
		fmt.Fprintf(&b, "%s %-52s%s\n", mark, cl.name, strings.TrimRight(line, " "))
	}
	for _, c := range g.all {
		if c.missing != "" {
			fmt.Fprintf(&b, "  %s: not run: %s\n", c.name, c.missing)
			continue
		}
		count := map[string]int{}
		for _, got := range c.got {
			count[got]++
		}
		fmt.Fprintf(&b, "  %s: %d yes, %d no, %d refused, %d other than the table says\n", c.name, count[yes], count[no], count[refused], len(c.wrong))
	}
	return b.String()
}

// write puts what was found into the file of the table. What was not run stays.
func (g *columns) write(file string) error {
	walls, _, right := table(capabilities)
	var rows []string
	for _, cl := range cells() {
		rows = append(rows, cl.name)
		if right[cl.name] == nil {
			right[cl.name] = map[string]string{}
		}
	}
	for _, c := range g.all {
		if !slices.Contains(walls, c.name) && c.missing == "" {
			walls = append(walls, c.name)
		}
		for name, got := range c.got {
			if !slices.Contains(strings.Split(right[name][c.name], "|"), got) {
				right[name][c.name] = got
			}
		}
	}
	var b strings.Builder
	line := func(name string, cells func(wall string) string) {
		text := fmt.Sprintf("%-52s", name)
		for _, wall := range walls {
			text += fmt.Sprintf("  %-*s", max(12, len(wall)), cells(wall))
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	line("behaviour", func(wall string) string { return wall })
	for _, name := range rows {
		line(name, func(wall string) string {
			if got := right[name][wall]; got != "" {
				return got
			}
			return "?"
		})
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
