package install

import (
	"bytes"
	"strings"
)

// style is how a file is laid out, for what is added to look alike.
type style struct {
	text []byte
	unit string // of indentation; empty where all is on one line
	end  string // of a line
}

func styleOf(text []byte, root *object) style {
	s := style{text: text, end: "\n"}
	if bytes.Contains(text, []byte("\r\n")) {
		s.end = "\r\n"
	}
	if !bytes.Contains(text[root.open:root.end], []byte("\n")) && len(root.members) > 0 {
		return s
	}
	s.unit = "  "
	if len(root.members) > 0 {
		if own := s.lineIndent(root.members[0].at); own != "" && s.first(root.members[0].at) {
			s.unit = own
		}
	}
	return s
}

// lines gives a text the file's ends of lines.
func (s style) lines(text string) string { return strings.ReplaceAll(text, "\n", s.end) }

// lineIndent is the blanks that the line of a place begins with.
func (s style) lineIndent(at int) string {
	start := bytes.LastIndexByte(s.text[:at], '\n') + 1
	line := s.text[start:at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// first says whether nothing but blanks is before a place in its line.
func (s style) first(at int) bool {
	start := bytes.LastIndexByte(s.text[:at], '\n') + 1
	return len(bytes.TrimSpace(s.text[start:at])) == 0
}

// insert adds a member to an object that is so deep in the file, or an element to a
// list, after the last one and the comment in its line.
func (s style) insert(o *object, depth int, key string, value any) []byte {
	indent := s.lineIndent(o.open) + s.unit
	if n := len(o.members); n > 0 && s.first(o.members[n-1].at) {
		indent = s.lineIndent(o.members[n-1].at)
	}
	if depth == 0 && len(o.members) == 0 {
		indent = s.unit
	}
	text := ""
	switch {
	case o.list:
	case s.unit != "":
		text = encode(key, "", "") + ": "
	default:
		text = encode(key, "", "") + ":"
	}
	text += s.lines(encode(value, indent, s.unit))
	if len(o.members) == 0 {
		return s.fill(o, indent, text)
	}
	if o.list && s.unit != "" && o.comma < 0 && !bytes.Contains(s.text[o.open:o.end], []byte("\n")) {
		at := o.members[len(o.members)-1].to
		return splice(s.text, at, at, ", "+text)
	}
	return s.after(o, indent, text)
}

// fill adds the first member of an object, behind comments that are in it.
func (s style) fill(o *object, indent, text string) []byte {
	if s.unit == "" {
		return splice(s.text, o.open+1, o.end, text)
	}
	inner := strings.TrimRight(string(s.text[o.open+1:o.end]), " \t\r\n")
	closing := strings.TrimSuffix(indent, s.unit)
	return splice(s.text, o.open+1, o.end, inner+s.end+indent+text+s.end+closing)
}

func (s style) after(o *object, indent, text string) []byte {
	last := o.members[len(o.members)-1]
	at, comma := last.to, ","
	if o.comma >= 0 {
		at, comma = o.comma+1, ""
	}
	if s.unit == "" {
		return splice(s.text, at, at, comma+text)
	}
	behind := s.lineEnd(at)
	between := string(s.text[at:behind])
	return splice(s.text, at, behind, comma+between+s.end+indent+text+s.closing(o, behind))
}

// remove takes a member out of an object or a list, and the comma that parted it.
// plain is the text without comments. Comments that stand before it stay.
func (s style) remove(plain []byte, o *object, i int) []byte {
	m := o.members[i]
	if i+1 < len(o.members) {
		return splice(s.text, m.at, o.members[i+1].at, "")
	}
	to := m.to
	if o.comma >= 0 {
		to = o.comma + 1
	}
	from := len(bytes.TrimRight(s.text[:m.at], " \t\r\n"))
	if i == 0 {
		if from == o.open+1 && len(bytes.TrimSpace(s.text[to:o.end])) == 0 {
			to = o.end
		}
		return splice(s.text, from, to, "")
	}
	out := splice(s.text, from, to, "")
	if o.comma >= 0 {
		return out // the comma before it is the last one now
	}
	before := o.members[i-1].to
	comma := before + bytes.IndexByte(plain[before:m.at], ',')
	return splice(out, comma, comma+1, "")
}

// closing parts what was added from a bracket in the same line.
func (s style) closing(o *object, behind int) string {
	if bytes.IndexByte(s.text[behind:o.end], '\n') >= 0 {
		return ""
	}
	return s.end + s.lineIndent(o.open)
}

// lineEnd is behind the comments that follow a place in its line, or the place
// where something else does.
func (s style) lineEnd(at int) int {
	for i := at; i < len(s.text); {
		switch c := s.text[i]; {
		case c == '\n':
			if i > at && s.text[i-1] == '\r' {
				i--
			}
			return i
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '/' && commentEnd(s.text, i) > 0:
			i = commentEnd(s.text, i)
		default:
			return at
		}
	}
	return at
}
