package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// open is a file that is only a text.
type open struct{ *bytes.Reader }

func (open) Close() error { return nil }

// expected are the lines that a query finds in a text, with those around them,
// by a look at each line.
func expected(t *testing.T, q Query, text string) []string {
	t.Helper()
	pattern := q.Pattern
	if q.IgnoreCase {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if nul := strings.IndexByte(text, 0); nul >= 0 {
		if nul < binaryHead {
			return nil
		}
		text = text[:strings.LastIndexByte(text[:nul], '\n')+1]
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if text == "" {
		lines = nil
	}
	told := map[int]string{}
	for i, line := range lines {
		short := strings.TrimSuffix(line, "\r")
		if !re.MatchString(short) && !re.MatchString(line) {
			continue
		}
		for j := max(0, i-q.Before); j <= min(len(lines)-1, i+q.After); j++ {
			if told[j] == "" {
				told[j] = fmt.Sprintf("%d-%s", j+1, strings.TrimSuffix(lines[j], "\r"))
			}
		}
		told[i] = fmt.Sprintf("%d:%s", i+1, short)
	}
	var all []string
	for i := range lines {
		if told[i] != "" {
			all = append(all, told[i])
		}
	}
	return all
}

// foundIn searches with a buffer of a size.
func foundIn(t *testing.T, q Query, text string, size int) []string {
	t.Helper()
	q.Limit, q.LineBytes, q.Room = 1<<30, 1<<20, 1<<30
	s, err := Compile(q)
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{search: s, result: &Result{}, room: s.Room, reader: newReader(s.matcher)}
	c.reader.buf = make([]byte, size)
	if err := c.file(context.Background(), item{[]string{"f"}, open{bytes.NewReader([]byte(text))}}); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range c.result.Files {
		for _, l := range f.Lines {
			mark := ":"
			if l.Column == 0 {
				mark = "-"
			}
			all = append(all, fmt.Sprint(l.Number, mark, l.Text))
		}
	}
	return all
}

func compare(t *testing.T, q Query, text string, size int) {
	t.Helper()
	want := expected(t, q, text)
	got := foundIn(t, q, text, size)
	if q.Before+q.After > 0 && size <= len(text) {
		// A small buffer does not hold all lines before; those that match are there.
		got, want = matching(got), matching(want)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q in %q, buffer %d:\n got %q\nwant %q", q.Pattern, text, size, got, want)
	}
}

func matching(lines []string) (only []string) {
	for _, line := range lines {
		if strings.Contains(strings.TrimLeft(line, "0123456789")[:1], ":") {
			only = append(only, line)
		}
	}
	return only
}

var patterns = []string{
	"foo", "fo+", "foo|bar", "(foo|b)a*r", "^foo", "foo$", "^$", "^", "a", "[^a]o", `\s+foo`, `\bfoo\b`, "f.*r", "é", "[é-ü]x?", `x\r`, `\r`, "", "o{2,}",
	`(?s)f.r`, `\x{FFFD}`, ".", `\w+_\d`, `[[:upper:]]+\(`, `foo\z`, `\Afoo`, "K", "s",
}

// What is found does not depend on how a text is read, and is what a look at
// each line finds.
func TestAgainstReference(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	pieces := []string{"foo", "bar", "o", "a", "\n", "\n", "\r\n", "\r", " ", "é", "\xff", "_1", "FOO(", "ſ", "K", "x"}
	for range 3000 {
		var text strings.Builder
		for range rnd.IntN(60) {
			text.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		q := Query{Pattern: patterns[rnd.IntN(len(patterns))], IgnoreCase: rnd.IntN(3) == 0, Before: rnd.IntN(3), After: rnd.IntN(3)}
		if q.Pattern == "" {
			continue
		}
		for _, size := range []int{16, 40, bufferSize} {
			compare(t, q, text.String(), size)
		}
		if t.Failed() {
			return
		}
	}
}

// Lines that are too long are counted, and those around them searched, with their
// numbers.
func TestTooLong(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	const most = 20
	for range 2000 {
		var text strings.Builder
		var want []string
		var tooLong int64
		n := 0
		for lines := rnd.IntN(12); n < lines; {
			n++
			line := strings.Repeat("x", rnd.IntN(4)*rnd.IntN(20))
			if rnd.IntN(2) == 0 {
				line += "foo"
			}
			switch {
			case len(line) > most:
				tooLong++
			case strings.Contains(line, "foo"):
				want = append(want, fmt.Sprint(n, ":", line))
			}
			text.WriteString(line)
			if n < lines || rnd.IntN(2) == 0 {
				text.WriteByte('\n')
			}
		}
		s, err := Compile(Query{Pattern: "foo", Limit: 1 << 30, LineBytes: 100, Room: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		c := &collector{search: s, result: &Result{}, room: s.Room, reader: newReader(s.matcher)}
		c.reader.buf, c.reader.maxLine = make([]byte, 1+rnd.IntN(most+1)), most
		if err := c.file(context.Background(), item{[]string{"f"}, open{bytes.NewReader([]byte(text.String()))}}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range c.result.Files {
			for _, l := range f.Lines {
				got = append(got, fmt.Sprint(l.Number, ":", l.Text))
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") || c.result.TooLong != tooLong || c.result.Searched != 1 {
			t.Fatalf("%q:\n got %q, %d too long\nwant %q, %d", text.String(), got, c.result.TooLong, want, tooLong)
		}
	}
}

func TestBinary(t *testing.T) {
	head := strings.Repeat("foo\n", binaryHead)
	for _, text := range []string{"\x00foo\n", "foo\n\x00", head + "foo\x00\nfoo\n", head + strings.Repeat("x", 100) + "\x00"} {
		for _, size := range []int{binaryHead, bufferSize} {
			compare(t, Query{Pattern: "foo"}, text, size)
		}
	}
}

func TestWindow(t *testing.T) {
	line := []byte(strings.Repeat("é", 100) + "needle" + strings.Repeat("ü", 100))
	for most := 16; most < 300; most++ {
		low, high := window(line, 200, 206, most)
		if low > 200 || high < 206 || high-low > most || !utf8.Valid(line[low:high]) {
			t.Errorf("%d: %q", most, line[low:high])
		}
	}
	if low, high := window(line, 0, 5, 1000); low != 0 || high != len(line) {
		t.Error(low, high)
	}
	if low, high := window([]byte("0123456789"), 2, 10, 4); low != 2 || high != 6 {
		t.Error("a match that is too long: ", low, high)
	}
}

func TestPatternErrors(t *testing.T) {
	for _, tt := range []struct {
		pattern string
		fixed   bool
		want    string
	}{
		{"a(b", false, "missing closing )"}, {"ab)", false, "unexpected )"}, {"xx[a", false, "missing closing ]: [a, at byte 3"}, {`a\`, false, `trailing backslash at end of expression`},
		{"a{1001}", false, "invalid repeat count: {1001}, at byte 2"}, {"a\nb", true, "it has a line feed, and lines are searched one by one, at byte 2"}, {`a\n+`, false, "it has a line feed, and lines are searched one by one"},
		{"\xff", false, "it is not valid UTF-8"}, {strings.Repeat("(a{0,99})", 100), false, "it is too large"},
	} {
		_, err := NewMatcher(tt.pattern, tt.fixed, false, false)
		var wrong *PatternError
		if !errors.As(err, &wrong) || err.Error() != tt.want {
			t.Errorf("%.40q: %v, want %q", tt.pattern, err, tt.want)
		}
	}
}

func FuzzSearch(f *testing.F) {
	for i, pattern := range patterns {
		f.Add(pattern, "foo\nbar foo\r\n\nFOO(_1 é\xff\nx", uint8(i), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, pattern, text string, size uint8, ignoreCase bool) {
		if len(pattern) > 30 || len(text) > 300 || pattern == "" {
			return
		}
		if _, err := NewMatcher(pattern, false, ignoreCase, false); err != nil {
			return
		}
		text = strings.ReplaceAll(text, "\x00", "0") // such a buffer is smaller than what is looked at first
		compare(t, Query{Pattern: pattern, IgnoreCase: ignoreCase}, text, 16+int(size))
	})
}
