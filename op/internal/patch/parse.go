package patch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/paddock-dev/paddock/internal/lazyregexp"
)

// Patch is a patch that was read.
type Patch struct {
	files []*change
}

// change is what a patch does to one file. old and name are the paths before and after; they are
// the same unless it is renamed or copied.
type change struct {
	old, name                   string
	create, remove, move, clone bool
	mode                        uint32 // as git writes it; 0 if it stays
	hunks                       []hunk
	binary                      *gitdiff.BinaryFragment
	before, after               string // beginnings of git's hashes of the contents, for binary data
}

// Paths returns the files that the patch names, each once, in the order of their names.
func (p *Patch) Paths() []string {
	var all []string
	for _, c := range p.files {
		all = append(all, c.old, c.name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// parser reads a patch line by line. It skips lines outside of headers and hunks: models write
// prose and code fences around their patches.
type parser struct {
	Options
	lines []string // each with its end
	at    int      // the present line
	crlf  bool     // every line ends with CRLF, headers too
	files []*change
	hunks int
	open  *change // the file that a hunk belongs to if it begins here, or nil
}

// Parse reads a patch. An error is a *SyntaxError.
func Parse(text []byte, o Options) (*Patch, error) {
	if len(text) > MaxText {
		return nil, &SyntaxError{Reason: fmt.Sprintf("it is longer than %d bytes", MaxText), Hint: "apply it in parts"}
	}
	all := string(text)
	if !strings.HasSuffix(all, "\n") {
		all += "\n" // else the last line of a file would have no end
	}
	p := &parser{Options: o, lines: strings.SplitAfter(all, "\n")}
	p.lines = p.lines[:len(p.lines)-1]
	p.crlf = strings.Count(all, "\r\n") == len(p.lines)
	for p.at < len(p.lines) {
		if err := p.next(); err != nil {
			return nil, err
		}
	}
	if len(p.files) == 0 {
		return nil, &SyntaxError{Reason: "it changes no file", Hint: "it must be a unified diff: the lines --- a/PATH and +++ b/PATH, and hunks that begin with @@ -START,COUNT +START,COUNT @@"}
	}
	if o.Reverse {
		slices.Reverse(p.files)
	}
	return &Patch{p.files}, nil
}

func (p *parser) fail(reason, hint string) error {
	return &SyntaxError{Line: p.at + 1, Reason: reason, Hint: hint}
}

// line returns the line n lines after the present one, with its end; "" after the last.
func (p *parser) line(n int) string {
	if p.at+n < len(p.lines) {
		return p.lines[p.at+n]
	}
	return ""
}

// text returns the same line without its end.
func (p *parser) text(n int) string {
	text := strings.TrimSuffix(p.line(n), "\n")
	if p.crlf {
		text = strings.TrimSuffix(text, "\r")
	}
	return text
}

// next reads a header, a hunk, or a line outside of both.
func (p *parser) next() error {
	switch text := p.text(0); {
	case strings.HasPrefix(text, "diff --git "):
		return p.gitHeader(text)
	case strings.HasPrefix(text, "--- ") && strings.HasPrefix(p.line(1), "+++ "):
		h := header{line: p.at + 1}
		if err := p.names(&h); err != nil {
			return err
		}
		return p.file(h)
	case strings.HasPrefix(text, "@@"):
		return p.hunk(text)
	}
	p.open = nil
	p.at++
	return nil
}

// header is what comes before the hunks of a file, as it was written.
type header struct {
	git                         bool
	line                        int    // where it begins, from 1
	first, second               string // of "diff --git"
	before, after               string // of --- and +++
	fresh, gone                 bool   // by the times in those lines, the file did not exist, or will not
	from, to                    string // of renames and copies, which have no prefix
	create, remove, move, clone bool
	oldMode, newMode            uint32
	oldID, newID                string // of "index"
}

// headerLine matches the lines of git's header but for the first.
var headerLine = lazyregexp.New(`^(index|---|\+\+\+|(?:old|new|deleted file|new file) mode|(?:dis)?similarity index|(?:rename|copy) (?:from|to)|rename (?:old|new)) (.*)$`)

// gitHeader reads the header of a file as git writes it, up to the first line that is not one of
// a header.
func (p *parser) gitHeader(text string) error {
	h := header{git: true, line: p.at + 1}
	if len(text) > maxHeader {
		return p.fail("it is too long for a header", "")
	}
	h.first, h.second = gitNames(strings.TrimPrefix(text, "diff --git "))
	if isAbsolute(h.first) || isAbsolute(h.second) {
		return p.fail("a path is absolute", pathHint)
	}
	for p.at++; ; p.at++ {
		m := headerLine().FindStringSubmatch(p.text(0))
		if m == nil {
			return p.file(h)
		}
		key, value := m[1], m[2]
		var err error
		switch key {
		case "old mode", "deleted file mode":
			h.oldMode, err = p.mode(value)
			h.remove = h.remove || key == "deleted file mode"
		case "new mode", "new file mode":
			h.newMode, err = p.mode(value)
			h.create = h.create || key == "new file mode"
		case "rename from", "rename old", "copy from":
			h.from, err = p.path(value)
		case "rename to", "rename new", "copy to":
			h.to, err = p.path(value)
		case "index":
			err = p.index(&h, value)
		case "---":
			if strings.HasPrefix(p.line(1), "+++ ") {
				if err = p.names(&h); err == nil {
					err = p.file(h)
				}
				return err
			}
			h.before, _, err = p.timed(value)
		case "+++":
			h.after, _, err = p.timed(value)
		}
		h.move = h.move || strings.HasPrefix(key, "rename")
		h.clone = h.clone || strings.HasPrefix(key, "copy")
		if err != nil {
			return err
		}
	}
}

func (p *parser) mode(value string) (uint32, error) {
	mode, err := strconv.ParseUint(strings.TrimSpace(value), 8, 32)
	if err != nil {
		return 0, p.fail("invalid mode of a file", "")
	}
	return uint32(mode), nil
}

func (p *parser) index(h *header, value string) error {
	ids, mode, hasMode := strings.Cut(value, " ")
	var ok bool
	if h.oldID, h.newID, ok = strings.Cut(ids, ".."); !ok {
		return p.fail("invalid index line", "")
	}
	if !hasMode {
		return nil
	}
	var err error
	h.oldMode, err = p.mode(mode)
	if h.newMode == 0 {
		h.newMode = h.oldMode // it is written here only if it stays
	}
	return err
}

// names reads the two lines that name a file before and after.
func (p *parser) names(h *header) (err error) {
	if !strings.HasPrefix(p.line(2), "@@") {
		p.at += 2
		return p.fail("no hunk follows the names of the files", "a hunk begins with @@ -START,COUNT +START,COUNT @@")
	}
	if h.before, h.fresh, err = p.timed(p.text(0)[len("--- "):]); err != nil {
		return err
	}
	p.at++
	h.after, h.gone, err = p.timed(p.text(0)[len("+++ "):])
	p.at++
	return err
}

// timed reads a path, which a tab and a time may follow. missing says that the time is the
// beginning of 1970, which diff -N writes for a file that does not exist.
func (p *parser) timed(text string) (path string, missing bool, err error) {
	when := ""
	if !strings.HasPrefix(text, `"`) {
		text, when, _ = strings.Cut(text, "\t")
	}
	if n := len(when); n >= 3 && when[n-3] == ':' {
		when = when[:n-3] + when[n-2:] // +00:00
	}
	t, terr := time.Parse("2006-01-02 15:04:05.9 -0700", when)
	path, err = p.path(text)
	return path, terr == nil && t.Unix() == 0, err
}

// The kinds of files in a mode as git writes it.
const (
	modeType    = 0o170000
	modeRegular = 0o100000
	modeLink    = 0o120000
)

// file uses a header that was read. Hunks or binary data of its file may follow.
func (p *parser) file(h header) error {
	if len(p.files) == MaxFiles {
		return &SyntaxError{Line: h.line, Reason: fmt.Sprintf("it changes more than %d files", MaxFiles), Hint: "apply it in parts"}
	}
	c := &change{create: h.create, remove: h.remove, move: h.move, clone: h.clone, before: h.oldID, after: h.newID}
	if h.git {
		if reason := c.nameByGit(h, p.Strip); reason != "" {
			return &SyntaxError{Line: h.line, Reason: reason}
		}
	} else {
		c.nameByDiff(h, p.Strip)
	}
	for _, name := range []*string{&c.old, &c.name} {
		clean, reason := cleanPath(*name)
		if reason != "" {
			return &SyntaxError{Reason: fmt.Sprintf("cannot use the file %.200q: %s", *name, reason), Hint: pathHint}
		}
		*name = clean
	}
	if p.Reverse {
		if c.clone {
			return &SyntaxError{Reason: "cannot reverse the copy to " + c.name, Hint: "delete the copy instead"}
		}
		c.old, c.name, c.create, c.remove, c.before, c.after = c.name, c.old, c.remove, c.create, c.after, c.before
		h.oldMode, h.newMode = h.newMode, h.oldMode
	}
	if h.newMode != h.oldMode {
		c.mode = h.newMode
	}
	for _, mode := range []uint32{h.oldMode, h.newMode} {
		if kind := mode & modeType; mode != 0 && kind != modeRegular {
			what := "neither a regular file nor a link"
			if kind == modeLink {
				what = "a symbolic link"
			}
			return &SyntaxError{Reason: fmt.Sprintf("%s is %s, and patches change regular files alone", c.name, what), Hint: "use a command for it: ln -s, git submodule"}
		}
	}
	p.files, p.open = append(p.files, c), c
	if h.git {
		return p.binary(c)
	}
	return nil
}

// binaryLine matches the line in errors of the decoder of binary data.
var binaryLine = lazyregexp.New(`^gitdiff: line ([0-9]+): `)

// binary reads the binary data that may follow git's header.
func (p *parser) binary(c *change) error {
	marker := p.text(0)
	without := strings.HasSuffix(marker, " differ") && (strings.HasPrefix(marker, "Binary files ") || strings.HasPrefix(marker, "Files "))
	if marker != "GIT binary patch" && !without {
		return nil
	}
	data, from := "diff --git a/x b/x\nGIT binary patch\n", p.at
	for p.at++; strings.HasPrefix(p.text(0), "literal ") || strings.HasPrefix(p.text(0), "delta "); {
		for end := false; !end && p.at < len(p.lines); p.at++ {
			data += p.text(0) + "\n"
			end = p.text(0) == ""
		}
	}
	p.open = nil
	if !without {
		files, _, err := gitdiff.Parse(strings.NewReader(data))
		if err != nil {
			e := &SyntaxError{Reason: strings.TrimPrefix(err.Error(), "gitdiff: ")}
			if m := binaryLine().FindStringSubmatch(err.Error()); m != nil {
				line, _ := strconv.Atoi(m[1])
				e.Line, e.Reason = from+line-1, err.Error()[len(m[0]):]
			}
			return e
		}
		c.binary = files[0].BinaryFragment
		if p.Reverse {
			c.binary = files[0].ReverseBinaryFragment
		}
	}
	switch {
	case c.binary == nil:
		return &SyntaxError{Reason: "it has no data for the binary file " + c.name, Hint: "make the patch with git diff --binary"}
	case c.binary.Size > MaxFile:
		return &SyntaxError{Reason: fmt.Sprintf("%s is longer than %d bytes", c.name, MaxFile)}
	}
	return nil
}

// hunk is a place in a file, and the lines that are to be there.
type hunk struct {
	header   string
	line     int  // where it should be, after earlier hunks have changed the file; from 1
	first    bool // it is at the beginning of the file
	trailing bool // it has context after its changes
	old, new []string
	// added and removed count the lines that are not context.
	added, removed int
}

// hunkHeader matches the header of a hunk.
var hunkHeader = lazyregexp.New(`^@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@`)

// extent is how many lines a hunk has of the old file and of the new one.
type extent struct{ old, new int }

// hunk reads a hunk. It must be as long as its header says: lines that a model has miscounted
// would get lost.
func (p *parser) hunk(text string) error {
	m := hunkHeader().FindStringSubmatch(text)
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
	next := p.kind(count + 1)
	longer := next == '+' || next == '-' || next == ' ' && strings.TrimSpace(p.line(count+1)) != ""
	if longer || h.size() != told {
		h, count = p.body(told, true)
		size := h.size()
		if !p.Recount {
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

// lineKind returns the kind of a line in a hunk: ' ', '-', '+', '\\' after a line without an end,
// '\n' for an empty line, which is context, and 0 if it is not a line of a hunk.
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

// body reads the lines of a hunk, whose header is the present line: as many as the header says, or
// with recount all that look as if they belong to it, but for empty ones at the end. count is how
// many lines of the patch they are.
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

// kind is [lineKind] for a line that the header does not count: the signature of a mail, as git
// ends it, and the names of the next file are not lines of the hunk.
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
