package patch

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxHeader bounds a line that names files, in bytes: two paths, quoted. The
// time to take one apart grows with the square of its length.
const maxHeader = 4 << 10

// hunkHeader is the header of a hunk.
var hunkHeader = regexp.MustCompile(`^@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@`)

// scanner goes through a patch before it is parsed, and writes it as the parser
// wants it: with paths that have no prefix but the one that the parser takes
// away, and lengths of hunks that are true. What the parser would pass over in
// silence, such as lines of a hunk beyond its length, is an error here.
type scanner struct {
	Options
	lines []string // each with its end
	at    int
	out   strings.Builder
	crlf  bool // every line ends so, headers too
	open  bool // a hunk may follow
	git   bool // the header is git's
	strip int  // of the present header
	files int
	hunks int
}

// prepare is the text as the parser wants it.
func prepare(text string, o Options) (string, error) {
	if len(text) > MaxText {
		return "", &SyntaxError{Reason: fmt.Sprintf("it is longer than %d bytes", MaxText), Hint: "apply it in parts"}
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n" // or its last line would be one without an end
	}
	s := &scanner{Options: o, lines: strings.SplitAfter(text, "\n")}
	s.lines = s.lines[:len(s.lines)-1]
	s.crlf = strings.Count(text, "\r\n") == len(s.lines)
	for s.at < len(s.lines) {
		if err := s.next(); err != nil {
			return "", err
		}
	}
	return s.out.String(), nil
}

func (s *scanner) fail(reason, hint string) error {
	return &SyntaxError{Line: s.at + 1, Reason: reason, Hint: hint}
}

// line is the one that is n further, "" behind the end.
func (s *scanner) line(n int) string {
	if s.at+n < len(s.lines) {
		return s.lines[s.at+n]
	}
	return ""
}

// header is a line without its end.
func (s *scanner) header(n int) string {
	text := strings.TrimSuffix(s.line(n), "\n")
	if s.crlf {
		text = strings.TrimSuffix(text, "\r")
	}
	return text
}

// put writes a line in place of the present one.
func (s *scanner) put(text string) {
	s.out.WriteString(text + "\n")
	s.at++
}

// next takes a line outside hunks, or a whole hunk.
func (s *scanner) next() error {
	text := s.header(0)
	switch {
	case strings.HasPrefix(text, "diff --git "):
		return s.gitHeader(text)
	case strings.HasPrefix(text, "--- ") && strings.HasPrefix(s.line(1), "+++ "):
		return s.names(text, s.header(1))
	case strings.HasPrefix(text, "@@"):
		return s.hunk(text)
	}
	if name, rest, ok := cutHeader(text); ok && s.git {
		if len(text) > maxHeader {
			return s.fail("it is too long for a header", "")
		}
		if isAbsolute(rest) {
			return s.fail("a path is absolute", absoluteHint)
		}
		s.put(name + stripName(rest, s.strip-1))
		return nil
	}
	s.put(text)
	return nil
}

// cutHeader takes apart a header of git's that names a file without a prefix.
func cutHeader(text string) (name, rest string, ok bool) {
	for _, name := range []string{"rename from ", "rename to ", "copy from ", "copy to ", "rename old ", "rename new "} {
		if rest, ok := strings.CutPrefix(text, name); ok {
			return name, rest, true
		}
	}
	return "", "", false
}

// gitHeader takes the first line of a file's header.
func (s *scanner) gitHeader(text string) error {
	if err := s.begin(text); err != nil {
		return err
	}
	names := strings.TrimPrefix(text, "diff --git ")
	first, second := halves(names)
	s.git, s.strip = true, gitStrip(s.Strip, first, second)
	if first == "" && s.Strip == nil {
		s.strip = s.movedStrip()
	}
	if first != "" {
		if isAbsolute(first) || isAbsolute(second) {
			return s.fail("a path is absolute", absoluteHint)
		}
		one, other := stripName(first, s.strip), stripName(second, s.strip)
		text = "diff --git " + addPrefix(one, "a/") + " " + addPrefix(other, "b/")
	}
	s.put(text)
	return nil
}

// movedStrip is how many names the paths of a file that is moved lose: of two
// lines that name the old file one has no prefix.
func (s *scanner) movedStrip() int {
	moved := ""
	for n := 1; n < 12; n++ {
		name, rest, ok := cutHeader(s.header(n))
		if ok && strings.HasSuffix(name, "from ") {
			moved = rest
		}
		if before, ok := strings.CutPrefix(s.header(n), "--- "); ok {
			before, _, _ = strings.Cut(before, "\t")
			return map[bool]int{true: 0, false: 1}[moved != "" && before == moved]
		}
	}
	return 1
}

// begin begins a file.
func (s *scanner) begin(text string) error {
	if s.files++; s.files > MaxFiles {
		return s.fail(fmt.Sprintf("it changes more than %d files", MaxFiles), "apply it in parts")
	}
	if len(text) > maxHeader {
		return s.fail("it is too long for a header", "")
	}
	s.open = true
	return nil
}

// names takes the two lines that name a file before and after.
func (s *scanner) names(before, after string) error {
	if !s.git {
		if err := s.begin(before); err != nil {
			return err
		}
	}
	if len(before) > maxHeader || len(after) > maxHeader {
		return s.fail("it is too long for a header", "")
	}
	if !strings.HasPrefix(s.line(2), "@@") {
		s.at += 2
		return s.fail("no hunk follows the names of the files", "a hunk begins with @@ -START,COUNT +START,COUNT @@")
	}
	one, other := before[len("--- "):], after[len("+++ "):]
	if isAbsolute(one) || isAbsolute(other) {
		return s.fail("a path is absolute", absoluteHint)
	}
	if !s.git {
		s.strip = plainStrip(s.Strip, one, other)
	}
	one, other = stripName(one, s.strip), stripName(other, s.strip)
	if s.git {
		one, other = addPrefix(one, "a/"), addPrefix(other, "b/")
	}
	s.put("--- " + one)
	s.put("+++ " + other)
	s.git = false // what follows its hunks is another header
	return nil
}

// extent is how many lines a hunk has of the old file and of the new one.
type extent struct{ old, new int }

// hunk takes a hunk.
func (s *scanner) hunk(text string) error {
	m := hunkHeader.FindStringSubmatch(text)
	switch s.hunks++; {
	case m == nil:
		return s.fail(fmt.Sprintf("%.60q is not the header of a hunk", text), "write @@ -START,COUNT +START,COUNT @@, with the numbers of lines")
	case !s.open:
		return s.fail("a hunk follows neither the header of a file nor a hunk", "begin each file with the lines --- a/PATH and +++ b/PATH")
	case s.hunks > MaxHunks:
		return s.fail(fmt.Sprintf("it has more than %d hunks", MaxHunks), "apply it in parts")
	}
	told := extent{number(m[2], 1), number(m[4], 1)}
	size, ok := s.counted(told)
	if !ok {
		found, all := s.measure()
		right := fmt.Sprintf("@@ -%s,%d +%s,%d @@", m[1], found.old, m[3], found.new)
		if !s.Recount {
			return s.fail(fmt.Sprintf("the header says that the hunk has %d old and %d new lines, and it has %d and %d", told.old, told.new, found.old, found.new),
				"write "+right+", or set recount")
		}
		size, text = all, right+text[len(m[0]):]
	}
	if size == 0 {
		return s.fail("the hunk is empty", "")
	}
	s.put(text)
	for range size {
		s.out.WriteString(s.line(0))
		s.at++
	}
	s.git = false
	s.betweenHunks()
	return nil
}

// betweenHunks passes over empty lines before another hunk.
func (s *scanner) betweenHunks() {
	n := 0
	for s.header(n) == "" && s.line(n) != "" {
		n++
	}
	if s.open = strings.HasPrefix(s.line(n), "@@"); s.open {
		s.at += n
	}
}

// counted is how many lines of the patch a hunk takes, by what was told of it,
// and whether that is what follows: no less, and no more.
func (s *scanner) counted(told extent) (size int, ok bool) {
	n := 1
	for ; told.old > 0 || told.new > 0; n++ {
		switch line := s.line(n); {
		case line == "":
			return 0, false
		case line[0] == ' ' || line == "\n" || line == "\r\n":
			told.old--
			told.new--
		case line[0] == '-':
			told.old--
		case line[0] == '+':
			told.new--
		case line[0] != '\\':
			return 0, false
		}
	}
	if strings.HasPrefix(s.line(n), `\ `) {
		n++
	}
	return n - 1, told == extent{} && !s.goesOn(n)
}

// measure counts all lines that look as if they were of the hunk whose header
// is the present line. Empty ones at its end are none. size is how many lines
// that takes in the patch.
func (s *scanner) measure() (found extent, size int) {
	for n, blank := 1, 0; ; n++ {
		kind := s.kind(n)
		if kind == 0 {
			return extent{found.old - blank, found.new - blank}, n - 1 - blank
		}
		if blank++; kind != '\n' {
			blank = 0
		}
		if kind == ' ' || kind == '\n' || kind == '-' {
			found.old++
		}
		if kind == ' ' || kind == '\n' || kind == '+' {
			found.new++
		}
	}
}

// goesOn says whether a line that should be behind a hunk is one of its own.
func (s *scanner) goesOn(n int) bool {
	switch s.kind(n) {
	case '+', '-':
		return true
	case ' ':
		return strings.TrimSpace(s.line(n)) != ""
	}
	return false
}

// kind is what a line is in a hunk, 0 where it is not of one.
func (s *scanner) kind(n int) byte {
	line := s.line(n)
	switch {
	case line == "":
		return 0
	case line == "\r\n":
		return '\n'
	case line == "-- \n" || line == "-- \r\n": // the signature of a mail, as git ends it
		if s.line(n+1) == "" || len(s.line(n+1)) < 20 && s.line(n + 1)[0] >= '0' && s.line(n + 1)[0] <= '9' {
			return 0
		}
	case strings.HasPrefix(line, "--- ") && strings.HasPrefix(s.line(n+1), "+++ ") && strings.HasPrefix(s.line(n+2), "@@"):
		return 0
	}
	switch line[0] {
	case ' ', '\n', '-', '+', '\\':
		return line[0]
	}
	return 0
}

func number(text string, absent int) int {
	if text == "" {
		return absent
	}
	n, _ := strconv.Atoi(text) // nine digits
	return n
}
