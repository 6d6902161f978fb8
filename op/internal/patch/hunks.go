package patch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/internal/text"
)

// Placed is where a hunk was applied.
type Placed struct {
	// Line is the number of its first line in the changed file, from 1.
	Line int
	// Offset is how far that is from where its header says.
	Offset int
}

// text applies the hunks to the content of a file. rejects are those that do not apply.
func (c *change) text(content []byte, w *work) (_ []byte, placed []Placed, rejects []Reject, _ error) {
	names := &words{numbers: make(map[string]int32)}
	m := &image{lines: names.number(lines(content)), work: w}
	m.touched = make([]bool, len(m.lines))
	for i, h := range c.hunks {
		old := names.number(h.old)
		at, err := m.place(h, old)
		if err == nil && at >= 0 {
			err = m.replace(at, len(old), names.number(h.new))
		}
		if err != nil {
			return nil, nil, nil, err
		}
		if at < 0 {
			r := c.reject(h, m, names)
			r.Hunk = i + 1
			rejects = append(rejects, r)
			continue
		}
		placed = append(placed, Placed{Line: at + 1, Offset: at + 1 - h.line})
	}
	size := 0
	for _, n := range m.lines {
		size += len(names.texts[n])
	}
	if size > MaxFile {
		return nil, nil, nil, fmt.Errorf("it would be longer than %d bytes", MaxFile)
	}
	out := make([]byte, 0, size)
	for _, n := range m.lines {
		if len(out) > 0 && out[len(out)-1] != '\n' {
			return nil, nil, nil, errors.New("a line without an end would not be its last")
		}
		out = append(out, names.texts[n]...)
	}
	return out, placed, rejects, nil
}

// reject returns why a hunk does not apply: the different text in the file.
func (c *change) reject(h hunk, m *image, names *words) Reject {
	r := Reject{Path: c.old, Header: h.header, Line: h.line}
	there := func(i int) string {
		if i < len(m.lines) {
			return names.texts[m.lines[i]]
		}
		return ""
	}
	if len(h.old) == 0 {
		r.Reason = "it only adds lines, without context, and the file is not empty"
		r.Hint = "give lines of context around what is added"
		return r
	}
	at := min(h.line-1, len(m.lines))
	for i, want := range h.old {
		if found := there(at + i); found != want || m.touched[at+i] {
			r.Line, r.Expected, r.Found = at+i+1, want, found
			break
		}
	}
	switch {
	case r.Expected == "":
		edge := "end"
		if h.trailing {
			edge = "beginning"
		}
		r.Reason = fmt.Sprintf("its lines are at line %d, and not at the %s of the file, where it must be for want of context", h.line, edge)
	case r.Found == "":
		r.Reason = fmt.Sprintf("line %d should be %s, and the file has %d lines", r.Line, quoted(r.Expected), len(m.lines))
	default:
		r.Reason = fmt.Sprintf("line %d should be %s, and is %s", r.Line, quoted(r.Expected), quoted(r.Found))
	}
	r.Hint = hint(h, m, names)
	return r
}

// quoted returns a line as errors show it.
func quoted(line string) string { return strconv.Quote(text.Truncate(line, 160)) }

// hint returns a likely reason, which it finds by looking for lines like the hunk's.
func hint(h hunk, m *image, names *words) string {
	if m.work.hints < 0 {
		return ""
	}
	all := make([]string, len(m.lines))
	for i, n := range m.lines {
		all[i] = names.texts[n]
	}
	in := func(side []string, same func(string) string) int {
		if m.work.hints -= 2 * len(all); m.work.hints < 0 || len(side) == 0 {
			return 0
		}
		have := "\x00" + strings.Join(mapped(all, same), "\x00") + "\x00"
		i := strings.Index(have, "\x00"+strings.Join(mapped(side, same), "\x00")+"\x00")
		if i < 0 {
			return 0
		}
		return strings.Count(have[:i], "\x00") + 1
	}
	asIs := func(text string) string { return text }
	if at := in(h.new, asIs); at > 0 && len(h.new) >= len(h.old) {
		return fmt.Sprintf("it seems to be applied already, at line %d", at)
	}
	if at := in(h.old, asIs); at > 0 {
		return fmt.Sprintf("its lines are at line %d, more than once or changed by another hunk: give more context", at)
	}
	if at := in(h.old, func(text string) string { return strings.TrimRight(text, "\r\n") }); at > 0 {
		return fmt.Sprintf("at line %d its lines differ in their ends alone: the file's end in %s", at, ending(all[at-1]))
	}
	if at := in(h.old, func(text string) string { return strings.Join(strings.Fields(text), " ") }); at > 0 {
		return fmt.Sprintf("at line %d its lines differ in white space alone", at)
	}
	return "read the file again, and make the patch from what it holds now"
}

func mapped(side []string, same func(string) string) []string {
	out := make([]string, len(side))
	for i, text := range side {
		out[i] = same(text)
	}
	return out
}

func ending(line string) string {
	switch {
	case strings.HasSuffix(line, "\r\n"):
		return "CRLF"
	case strings.HasSuffix(line, "\n"):
		return "LF"
	}
	return "nothing, at its end"
}

// lines splits a text, each line with its end.
func lines(content []byte) []string {
	if len(content) == 0 {
		return nil
	}
	all := strings.SplitAfter(string(content), "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// maxWork bounds the search for the places of hunks, in lines that are compared or moved: a second
// or two. It is a variable for tests. maxHints bounds the search for what may have gone wrong.
var maxWork = 1 << 30

const maxHints = 1 << 23

var errWork = errors.New("looking for the places of its hunks takes too long")

// image is a text that hunks are applied to. Its lines are numbers, the same for the same line, so
// that they are compared fast.
type image struct {
	lines   []int32
	touched []bool // made by a hunk, and not to be changed by another
	work    *work
}

// work bounds the work for a patch.
type work struct {
	ctx   context.Context
	left  int
	hints int // left for finding out what went wrong
}

func (w *work) spend(n int) error {
	before := w.left >> 20
	if w.left -= n; w.left < 0 {
		return errWork
	}
	if w.left>>20 != before {
		return w.ctx.Err()
	}
	return nil
}

// words gives numbers to lines.
type words struct {
	numbers map[string]int32
	texts   []string
}

func (w *words) number(all []string) []int32 {
	numbers := make([]int32, len(all))
	for i, text := range all {
		n, ok := w.numbers[text]
		if !ok {
			n = int32(len(w.texts)) // there are fewer lines than bytes in [MaxTotal]
			w.numbers[text] = n
			w.texts = append(w.texts, text)
		}
		numbers[i] = n
	}
	return numbers
}

// find looks for lines at a place, then ever further away from it, after and before it in turn,
// as git does. first and last mean that the lines must be at the beginning or the end.
func (m *image) find(old []int32, at int, first, last bool) (int, error) {
	switch {
	case first:
		at = 0
	case last:
		at = len(m.lines) - len(old)
	}
	if first || last {
		if at < 0 || last && at+len(old) != len(m.lines) {
			return -1, nil
		}
		ok, err := m.match(old, at)
		if !ok {
			at = -1
		}
		return at, err
	}
	at = min(at, len(m.lines))
	for away := 0; away <= len(m.lines); away++ {
		for _, try := range []int{at + away, at - away} {
			if try < 0 || try+len(old) > len(m.lines) || away == 0 && try != at {
				continue
			}
			if ok, err := m.match(old, try); ok || err != nil {
				return try, err
			}
		}
	}
	return -1, nil
}

func (m *image) match(old []int32, at int) (bool, error) {
	if at+len(old) > len(m.lines) {
		return false, nil
	}
	for i, n := range old {
		if m.lines[at+i] != n || m.touched[at+i] {
			return false, m.work.spend(i + 1)
		}
	}
	return true, m.work.spend(len(old) + 1)
}

// count returns how often the text has the lines; 2 stands for more than once.
func (m *image) count(old []int32) (times int, err error) {
	for at := 0; at+len(old) <= len(m.lines) && times < 2; at++ {
		ok, err := m.match(old, at)
		if err != nil {
			return 0, err
		}
		if ok {
			times++
		}
	}
	return times, nil
}

// place returns where a hunk belongs, -1 if it belongs nowhere. As in git, a hunk without context
// at one of its ends belongs to that end of the file. If it is not there, its lines must be exactly
// where the header says, or at one place only.
func (m *image) place(h hunk, old []int32) (int, error) {
	at := h.line - 1
	if len(old) == 0 && at != len(m.lines) {
		return -1, nil // git would put it at the end, whatever its header says
	}
	found, err := m.find(old, at, h.first, !h.trailing)
	if found >= 0 || err != nil || len(old) == 0 || !h.first && h.trailing {
		return found, err
	}
	if unfinished(h.old) || unfinished(h.new) {
		return -1, nil // it can only be at the end
	}
	if ok, err := m.match(old, at); ok || err != nil {
		return at, err
	}
	times, err := m.count(old)
	if times != 1 || err != nil {
		return -1, err
	}
	return m.find(old, at, false, false)
}

func unfinished(side []string) bool {
	return len(side) > 0 && !strings.HasSuffix(side[len(side)-1], "\n")
}

// replace replaces n lines.
func (m *image) replace(at, n int, by []int32) error {
	if err := m.work.spend((len(m.lines) - at + len(by)) / 8); err != nil {
		return err
	}
	made := make([]bool, len(by))
	for i := range made {
		made[i] = true
	}
	m.lines = splice(m.lines, at, n, by)
	m.touched = splice(m.touched, at, n, made)
	return nil
}

func splice[T any](all []T, at, n int, by []T) []T {
	tail := all[at+n:]
	if len(by) <= n {
		copy(all[at:], by)
		return append(all[:at+len(by)], tail...)
	}
	grown := append(all, by[:len(by)-n]...) // only makes room; the content is overwritten
	copy(grown[at+len(by):], tail)
	copy(grown[at:], by)
	return grown
}
