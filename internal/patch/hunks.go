package patch

import (
	"errors"
	"fmt"
	"strings"
)

// Placed says where a hunk was applied.
type Placed struct {
	// Line is of its first line in the file as it becomes, from 1.
	Line int
	// Offset is how far that is from where its header says.
	Offset int
}

// text applies the hunks to a text. Rejects say which do not apply.
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

// reject says what is there in place of the hunk.
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
		r.Reason = fmt.Sprintf("its lines are at line %d, and not at the %s of the file, where it must be for want of context", h.line, edge(h))
	case r.Found == "":
		r.Reason = fmt.Sprintf("line %d should be %s, and the file has %d lines", r.Line, quoted(r.Expected), len(m.lines))
	default:
		r.Reason = fmt.Sprintf("line %d should be %s, and is %s", r.Line, quoted(r.Expected), quoted(r.Found))
	}
	r.Hint = hint(h, m, names)
	return r
}

func edge(h hunk) string {
	if h.trailing {
		return "beginning"
	}
	return "end"
}

// quoted is a line as errors tell it.
func quoted(line string) string {
	const most = 160
	if len(line) > most {
		line = line[:most] + "…"
	}
	return fmt.Sprintf("%q", line)
}

// hint says what may have gone wrong, by looking for lines like the hunk's.
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
