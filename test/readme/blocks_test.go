//go:build linux

package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// command is one that the README shows.
type command struct {
	text string
	line int
	// shown is what the README prints below it, in a block that shows both.
	shown []string
	// console is the number of that block, 0 for a command in another one; what
	// precedes it there has run in the same shell.
	console int
}

// block is one that holds no commands: a file in some language.
type block struct {
	text string
	line int
}

// readme is what the README holds for this test.
type readme struct {
	commands []command
	blocks   []block
}

var (
	comment = regexp.MustCompile(`\s+# .*$`)
	span    = regexp.MustCompile("`((?:(?:\\./)?bin/)?paddock(?:-agent)? [^`]+|make [^`]+)`")
)

// read takes the README apart: all blocks, and the commands in its sentences.
// A command that is shown twice counts once.
func read(t *testing.T) readme {
	t.Helper()
	path := filepath.Join("..", "..", "README.md")
	if inside {
		path = "/home/dev/paddock/README.md"
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r readme
	seen := map[string]bool{}
	add := func(c command) {
		if c.console > 0 || !seen[c.text] {
			r.commands = append(r.commands, c)
		}
		seen[c.text] = true
	}
	language, consoles := "", 0
	var file block
	for i, line := range strings.Split(string(text), "\n") {
		name, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && language == "":
			language, file = name, block{line: i + 1}
			if language == "console" {
				consoles++
			}
		case fence:
			if file.text != "" {
				r.blocks = append(r.blocks, file)
			}
			language = ""
		case language == "sh":
			if line = comment.ReplaceAllString(line, ""); line != "" {
				add(command{text: line, line: i + 1})
			}
		case language == "console":
			if typed, ok := strings.CutPrefix(line, "$ "); ok {
				add(command{text: typed, line: i + 1, console: consoles})
			} else {
				last := &r.commands[len(r.commands)-1]
				last.shown = append(last.shown, line)
			}
		case language != "":
			file.text += line + "\n"
		default:
			for _, m := range span.FindAllStringSubmatch(line, -1) {
				add(command{text: m[1], line: i + 1})
			}
		}
	}
	if language != "" || len(r.commands) == 0 || len(r.blocks) == 0 {
		t.Fatal("the README's blocks cannot be told apart")
	}
	return r
}

// first is the first line of a block, by which its row knows it.
func (b block) first() string {
	line, _, _ := strings.Cut(b.text, "\n")
	return comment.ReplaceAllString(line, "")
}

var number = regexp.MustCompile(`\d+\\\.\d+s`)

// pattern is what a command must print where the README shows this: … is
// anything, and a time is any.
func pattern(shown []string) string {
	text := regexp.QuoteMeta(strings.TrimSpace(strings.Join(shown, "\n")))
	text = strings.ReplaceAll(text, "…", `[\s\S]*`)
	return `^\s*` + number.ReplaceAllString(text, `\d+\.\d+s`) + `\s*$`
}

// Every command and every block of the README has a row, and every row is of
// one that the README has.
func TestRows(t *testing.T) {
	r := read(t)
	found := map[string]bool{}
	for _, c := range r.commands {
		found[c.text] = true
		if _, ok := rowOf(c.text); !ok {
			t.Errorf("README.md:%d: no row says what must be seen of %q", c.line, c.text)
		}
	}
	for _, b := range r.blocks {
		if found[b.first()] {
			t.Errorf("README.md:%d: two blocks begin with %q", b.line, b.first())
		}
		found[b.first()] = true
		if _, ok := rowOf(b.first()); !ok {
			t.Errorf("README.md:%d: no row says what is done with the block that begins with %q", b.line, b.first())
		}
	}
	known := map[string]bool{}
	for _, row := range rows() {
		if !found[row.of] {
			t.Errorf("the README has no %q any more: take its row away", row.of)
		}
		if known[row.of] {
			t.Errorf("two rows are of %q", row.of)
		}
		known[row.of] = true
	}
}
