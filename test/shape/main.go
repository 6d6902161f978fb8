// Shape prints how much of the product a reader has to hold in mind, beside the
// same figures of code that others like to live in: "make shape".
//
// They are signs, not the aim: nothing is merged, renamed or deleted to move a
// number that does not also read better. What is counted, and how, is told in
// test/shape/tree.
//
// With -times it also measures a cold build, which takes minutes. With -write it
// writes the lists of the walks in ARCHITECTURE.md anew, and with -list it names
// the files and functions that the figures count.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/paddock-dev/paddock/test/shape/tree"
)

func main() {
	root := flag.String("root", ".", "the `directory` of the module")
	write := flag.Bool("write", false, "write the lists of the walks in ARCHITECTURE.md anew")
	list := flag.Bool("list", false, "name what is counted")
	times := flag.Bool("times", false, "measure a cold build, too")
	flag.Parse()
	if err := run(*root, *write, *list, *times); err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(1)
	}
}

func run(root string, write, list, times bool) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	m, err := measure(root)
	if err != nil {
		return err
	}
	if write {
		return m.write()
	}
	if err := m.table(); err != nil {
		return err
	}
	if list {
		m.list()
	}
	if times {
		return coldBuild(root)
	}
	return nil
}

// measures are what the table is made of.
type measures struct {
	root          string
	shape         tree.Shape
	walks         map[string][]string
	limit         []string // files that know a limit
	field, answer []string // files that know a field of one result, and one of every answer
	arrows        map[string][2][]tree.Arrow
}

func measure(root string) (*measures, error) {
	m := &measures{root: root, walks: map[string][]string{}, arrows: map[string][2][]tree.Arrow{}}
	var err error
	if m.shape, err = tree.Measure(root); err != nil {
		return nil, err
	}
	if m.limit, err = tree.Mentions(root, "MemoryHigh", "memory_high", "memory-high", "memory.high"); err != nil {
		return nil, err
	}
	// A field that is added is a field of one result, as throttled_ms is of a command's.
	// survivors_killed is the word for one thing in six answers, which the contract fixes.
	if m.field, err = tree.Mentions(root, "ThrottledMS", "throttled_ms"); err != nil {
		return nil, err
	}
	if m.answer, err = tree.Mentions(root, "SurvivorsKilled", "survivors_killed"); err != nil {
		return nil, err
	}
	t, err := tree.Load(root)
	if err != nil {
		return nil, err
	}
	for _, w := range tree.Walks {
		if m.walks[w.Name], err = t.Files(w); err != nil {
			return nil, err
		}
	}
	for _, path := range []string{"op", "agent"} {
		all, upward := t.Arrows(path)
		m.arrows[path] = [2][]tree.Arrow{all, upward}
	}
	return m, nil
}

// table prints the figures beside those of the commit that the work on them began
// with, 097759f, measured by this program, and beside those of four code bases,
// which a script of the same meaning measured in November 2026.
func (m *measures) table() error {
	readme, err := lines(filepath.Join(m.root, "README.md"))
	if err != nil {
		return err
	}
	mcp, err := lines(filepath.Join(m.root, "docs", "mcp.md"))
	if err != nil {
		return err
	}
	s := m.shape
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	row := func(cells ...any) {
		for i, cell := range cells {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, cell)
		}
		fmt.Fprintln(w)
	}
	row("", "now", "at first", "at most", "go-sandbox", "pebble", "age", "restic")
	row("product lines", thousands(s.Lines), "96,719", "88,719", "9,000", "34,800", "6,900", "50,900")
	row("files", len(s.Files), "685", "", "92", "170", "33", "339")
	row("lines of a file: median, of nine in ten", both(s.Files), "128, 249", "", "59, 234", "126, 478", "152, 458", "81, 363")
	row("lines of a function: median, of nine in ten", both(s.Functions), "11, 27", "", "8, 32", "11, 40", "10, 42", "9, 41")
	row("unexported functions with one caller, of all functions", fmt.Sprintf("%.1f %%", 100*float64(len(s.OneCaller))/float64(len(s.Functions))), "32.0 %", "22 %", "21 %", "19 %", "18 %", "22 %")
	for _, at := range walkBounds {
		row("files from "+at.title, len(m.walks[at.name]), at.first, at.most)
	}
	row("files that know a limit; a field of one result; one of six answers", fmt.Sprintf("%d; %d; %d", len(m.limit), len(m.field), len(m.answer)), "17; 6; 21", "5; 5")
	for _, path := range []string{"op", "agent"} {
		row("arrows between files that run upward in "+path, fmt.Sprintf("%d of %d", len(m.arrows[path][1]), len(m.arrows[path][0])), firstArrows[path], "few")
	}
	row("files of the largest package", fmt.Sprintf("%d (%s)", s.LargestFiles, s.Largest), "115 (op)", "30")
	row("lines of README.md; docs/mcp.md", fmt.Sprintf("%d; %s", readme, thousands(mcp)), "477; 2,423", "180; 1,300")
	return w.Flush()
}

// walkBounds are the rows of the walks.
var walkBounds = []struct{ name, title, first, most string }{
	{"memory", "--memory to memory.max", "30", "24"},
	{"exec", "an MCP exec to execve", "46", "30"},
	{"redaction", "a redaction rule to bytes", "38", "14"},
}

var firstArrows = map[string]string{"op": "106 of 627", "agent": "53 of 410"}

// both are the median, and what nine in ten do not exceed.
func both(ordered []int) string {
	return fmt.Sprintf("%d, %d", tree.Quantile(ordered, 0.5), tree.Quantile(ordered, 0.9))
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

func lines(file string) (int, error) {
	text, err := os.ReadFile(file)
	return bytes.Count(text, []byte("\n")), err
}

// list names what the figures count.
func (m *measures) list() {
	for _, w := range tree.Walks {
		fmt.Printf("\n%s:\n  %s\n", w.Title, strings.Join(m.walks[w.Name], "\n  "))
	}
	fmt.Printf("\nfiles that know the limit memory_high:\n  %s\n", strings.Join(m.limit, "\n  "))
	fmt.Printf("\nfiles that know a command's throttled_ms:\n  %s\n", strings.Join(m.field, "\n  "))
	fmt.Printf("\nfiles that know the survivors_killed of six answers:\n  %s\n", strings.Join(m.answer, "\n  "))
	for _, path := range []string{"op", "agent"} {
		fmt.Printf("\narrows that run upward in %s:\n", path)
		for _, a := range m.arrows[path][1] {
			fmt.Println(" ", a.From, "->", a.To)
		}
	}
	fmt.Println("\nunexported functions with one caller:")
	for _, f := range m.shape.OneCaller {
		fmt.Printf("  %s:%d %s (%d lines)\n", f.File, f.Line, f.Name, f.Lines)
	}
}

// write writes the lists of the walks in ARCHITECTURE.md.
func (m *measures) write() error {
	file := filepath.Join(m.root, "ARCHITECTURE.md")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	paper := string(text)
	for _, w := range tree.Walks {
		if paper, err = tree.Write(paper, w, m.walks[w.Name]); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return os.WriteFile(file, []byte(paper), 0o644)
}

// coldBuild measures how long compiling takes where nothing has been compiled:
// the command line and the agent, and then everything.
func coldBuild(root string) error {
	dir, err := os.MkdirTemp("", "shape-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	from := time.Now()
	for _, of := range []struct {
		name string
		args []string
	}{
		{"the command line and the agent", []string{"-o", dir + "/bin/", "./cmd/paddock", "./cmd/paddock-agent"}},
		{"everything", []string{"./..."}},
	} {
		cmd := exec.Command("go", append([]string{"build"}, of.args...)...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOCACHE="+dir+"/cache")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("cannot build: %w\n%s", err, out)
		}
		fmt.Printf("cold build of %s: %v\n", of.name, time.Since(from).Round(time.Second))
	}
	return nil
}
