package patch

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// hunk is a place in a file, and what is to be there.
type hunk struct {
	header   string
	line     int // where it should be, among lines of the old file that earlier hunks have changed; from 1
	first    bool
	trailing bool // there are lines behind what it changes
	old, new []string
	// added and removed are how many of these are no context.
	added, removed int
}

// hunkHeader is the header of a hunk.
var hunkHeader = regexp.MustCompile(`^@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@`)

// extent is how many lines a hunk has of the old file and of the new one.
type extent struct{ old, new int }

// hunk reads a hunk. Its length must be what its header says, no less and no
// more: lines that models miscount would get lost.
func (p *parser) hunk(text string) error {
	m := hunkHeader.FindStringSubmatch(text)
	switch p.hunks++; {
	case m == nil:
		return p.fail(fmt.Sprintf("%.60q is not the header of a hunk", text), "write @@ -START,COUNT +START,COUNT @@, with the numbers of lines")
	case p.open == nil:
		return p.fail("a hunk follows neither the header of a file nor a hunk", "begin each file with the lines --- a/PATH and +++ b/PATH")
	case p.hunks > MaxHunks:
		return p.fail(fmt.Sprintf("it has more than %d hunks", MaxHunks), "apply it in parts")
	}
	number := func(text string) int {
		if text == "" {
			return 1 // a count that is left out
		}
		n, _ := strconv.Atoi(text) // nine digits
		return n
	}
	oldStart, newStart, told := number(m[1]), number(m[3]), extent{number(m[2]), number(m[4])}
	h, count := p.body(told, false)
	if size := h.size(); size != told || p.goesOn(count+1) {
		h, count = p.body(told, true)
		if size = h.size(); !p.Recount {
			return p.fail(fmt.Sprintf("the header says that the hunk has %d old and %d new lines, and it has %d and %d", told.old, told.new, size.old, size.new),
				fmt.Sprintf("write @@ -%s,%d +%s,%d @@, or set recount", m[1], size.old, m[3], size.new))
		}
	}
	switch {
	case count == 0:
		return p.fail("the hunk is empty", "")
	case h.added+h.removed == 0:
		return p.fail("fragment contains no changes", "")
	}
	c, size := p.open, h.size()
	h.header = fmt.Sprintf("@@ -%d,%d +%d,%d @@", oldStart, size.old, newStart, size.new)
	made, deleted := c.create, c.remove
	if p.Reverse {
		made, deleted = deleted, made
	}
	switch {
	case made && len(h.old) > 0:
		return p.fail("new file depends on old contents", "")
	case deleted && len(h.new) > 0:
		return p.fail("deleted file still has contents", "")
	}
	if p.Reverse {
		h.old, h.new, h.added, h.removed, oldStart, newStart = h.new, h.old, h.removed, h.added, newStart, oldStart
	}
	h.line, h.first = max(1, newStart), oldStart <= 1
	for _, side := range [][]string{h.old, h.new} {
		for i, line := range side {
			if i < len(side)-1 && !strings.HasSuffix(line, "\n") {
				return &SyntaxError{Reason: c.name + ": " + h.header + ": a line without an end is not the last of the file"}
			}
		}
	}
	c.hunks = append(c.hunks, h)
	p.at += 1 + count
	blank := 0 // models put empty lines between hunks
	for p.line(blank) != "" && p.text(blank) == "" {
		blank++
	}
	if p.open = nil; strings.HasPrefix(p.line(blank), "@@") {
		p.open = c
		p.at += blank
	}
	return nil
}

// lineKind returns what a line is in a hunk: ' ', '-', '+', '\\' behind a line
// without an end, '\n' for an empty line, which is context, and 0 for no line
// of a hunk.
func lineKind(line string) byte {
	switch {
	case line == "":
		return 0
	case line == "\n" || line == "\r\n":
		return '\n'
	case line[0] == ' ' || line[0] == '-' || line[0] == '+' || strings.HasPrefix(line, `\ `):
		return line[0]
	}
	return 0
}

// body reads lines of a hunk behind its header, which is the present line: as
// many as the header tells, or with recount all that look as if they belong to
// it, but for empty ones at the end. count is how many lines of the patch that
// takes.
func (p *parser) body(told extent, recount bool) (h hunk, count int) {
	context, blank := 0, 0 // at the end
	for n := 1; ; n++ {
		line, kind := p.line(n), lineKind(p.line(n))
		if recount {
			kind = p.kind(n)
		}
		if kind == 0 || !recount && kind != '\\' && len(h.old) >= told.old && len(h.new) >= told.new {
			count = n - 1
			break
		}
		if context, blank = context+1, blank+1; kind != '\n' {
			line, blank = line[1:], 0
		}
		switch kind {
		case '-':
			h.old = append(h.old, line)
			h.removed++
			context = 0
		case '+':
			h.new = append(h.new, line)
			h.added++
			context = 0
		case '\\': // the line before has no end
			context--
			before := lineKind(p.line(n - 1))
			if n := len(h.old); n > 0 && before != '+' {
				h.old[n-1] = strings.TrimSuffix(h.old[n-1], "\n")
			}
			if n := len(h.new); n > 0 && before != '-' {
				h.new[n-1] = strings.TrimSuffix(h.new[n-1], "\n")
			}
		default:
			h.old, h.new = append(h.old, line), append(h.new, line)
		}
	}
	if recount {
		h.old, h.new = h.old[:len(h.old)-blank], h.new[:len(h.new)-blank]
		context, count = context-blank, count-blank
	}
	h.trailing = context > 0
	return h, count
}

func (h hunk) size() extent { return extent{len(h.old), len(h.new)} }

// goesOn reports whether a line that should be behind a hunk is one of its own.
func (p *parser) goesOn(n int) bool {
	kind := p.kind(n)
	return kind == '+' || kind == '-' || kind == ' ' && strings.TrimSpace(p.line(n)) != ""
}

// kind is lineKind for a line that no count promises: the signature of a mail,
// as git ends it, and the names of the next file are none of the hunk's.
func (p *parser) kind(n int) byte {
	line, next := p.line(n), p.line(n+1)
	switch {
	case line == "-- \n" || line == "-- \r\n":
		if next == "" || len(next) < 20 && next[0] >= '0' && next[0] <= '9' {
			return 0
		}
	case strings.HasPrefix(line, "--- ") && strings.HasPrefix(next, "+++ ") && strings.HasPrefix(p.line(n+2), "@@"):
		return 0
	}
	return lineKind(line)
}
