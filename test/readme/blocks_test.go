//go:build linux

package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// command is one that a paper shows.
type command struct {
	text  string
	paper string
	line  int
	// shown is what the paper prints below it, in a block that shows both.
	shown []string
	// console is the number of that block, 0 for a command in another one; what
	// precedes it there has run in the same shell.
	console int
}

// block is one that holds no commands: a file in some language.
type block struct {
	text  string
	paper string
	line  int
}

// paper is the README or a page of docs.
type paper struct {
	commands []command
	blocks   []block
}

// generated is the page whose sentences are the help texts of operations. Of its
// commands only those in blocks are run.
const generated = "docs/mcp.md"

var (
	comment = regexp.MustCompile(`\s+# .*$`)
	span    = regexp.MustCompile("`((?:(?:\\./)?bin/)?paddock(?:-agent)? [^`]+|make [^`]+)`")
)

// read takes the README and the pages of docs apart: all blocks, and the commands
// in their sentences. What is shown twice counts once.
func read(t *testing.T) []paper {
	t.Helper()
	root := filepath.Join("..", "..")
	if inside {
		root = "/home/dev/paddock"
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("there are no pages in docs: %v", err)
	}
	seen := map[string]bool{}
	var papers []paper
	for _, page := range append([]string{filepath.Join(root, "README.md")}, pages...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, page)
		if err != nil {
			t.Fatal(err)
		}
		p, whole := apart(name, string(text), seen)
		if !whole || len(p.commands)+len(p.blocks) == 0 {
			t.Fatalf("the blocks of %s cannot be told apart", name)
		}
		papers = append(papers, p)
	}
	return papers
}

// apart takes a paper apart, and reports whether its last block ends. It adds to
// what was seen.
func apart(name, text string, seen map[string]bool) (p paper, whole bool) {
	add := func(c command) {
		if c.console > 0 || !seen[c.text] {
			p.commands = append(p.commands, c)
		}
		seen[c.text] = true
	}
	language, consoles := "", 0
	var file block
	for i, line := range strings.Split(text, "\n") {
		fenced, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && language == "":
			language, file = fenced, block{paper: name, line: i + 1}
			if language == "console" {
				consoles++
			}
		case fence:
			if file.text != "" && !seen[file.text] {
				p.blocks = append(p.blocks, file)
				seen[file.text] = true
			}
			language = ""
		case language == "sh":
			if line = comment.ReplaceAllString(line, ""); line != "" {
				add(command{text: line, paper: name, line: i + 1})
			}
		case language == "console":
			if typed, ok := strings.CutPrefix(line, "$ "); ok {
				add(command{text: typed, paper: name, line: i + 1, console: consoles})
			} else {
				last := &p.commands[len(p.commands)-1]
				last.shown = append(last.shown, line)
			}
		case language == "text": // of help texts
		case language != "":
			file.text += line + "\n"
		case name != generated:
			for _, m := range span.FindAllStringSubmatch(line, -1) {
				add(command{text: m[1], paper: name, line: i + 1})
			}
		}
	}
	return p, language == ""
}

// first is the first line of a block, by which its row knows it.
func (b block) first() string {
	line, _, _ := strings.Cut(b.text, "\n")
	return comment.ReplaceAllString(line, "")
}

// command is the block as its row is found by.
func (b block) command() command { return command{text: b.first(), paper: b.paper, line: b.line} }

var number = regexp.MustCompile(`\d+\\\.\d+s`)

// pattern is what a command must print where a paper shows this: … is
// anything, and a time is any.
func pattern(shown []string) string {
	text := regexp.QuoteMeta(strings.TrimSpace(strings.Join(shown, "\n")))
	text = strings.ReplaceAll(text, "…", `[\s\S]*`)
	return `^\s*` + number.ReplaceAllString(text, `\d+\.\d+s`) + `\s*$`
}

// Every command and every block of the papers has a row, and every row is of
// one that they have.
func TestRows(t *testing.T) {
	found := map[string]bool{}
	for _, p := range read(t) {
		for _, c := range p.commands {
			found[c.text] = true
			if _, ok := rowOf(c.text); !ok {
				t.Errorf("%s:%d: no row says what must be seen of %q", c.paper, c.line, c.text)
			}
		}
		for _, b := range p.blocks {
			if found[b.first()] {
				t.Errorf("%s:%d: two blocks begin with %q", b.paper, b.line, b.first())
			}
			found[b.first()] = true
			if _, ok := rowOf(b.first()); !ok {
				t.Errorf("%s:%d: no row says what is done with the block that begins with %q", b.paper, b.line, b.first())
			}
		}
	}
	known := map[string]bool{}
	for _, row := range rows() {
		if !found[row.of] {
			t.Errorf("no paper has %q: remove its row", row.of)
		}
		if known[row.of] {
			t.Errorf("two rows are of %q", row.of)
		}
		if (row.why == "") == (len(row.steps) == 0) {
			t.Errorf("the row of %q needs either steps or a reason why it is not run", row.of)
		}
		known[row.of] = true
	}
}
