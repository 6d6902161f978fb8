// Package redact replaces secret values, and matches of rules, in a text or a stream,
// also where they are split over writes.
//
//	rules, err := redact.Compile(nil, []policy.Redaction{{Type: "email"}})
//	set, err := redact.NewSet([]string{"s3cret", "other"})
//	w := redact.NewWriter(set.With(rules), os.Stdout)
//	w.Write(output); w.Close()
//
// # What is replaced
//
// Every value becomes [Placeholder]. From the left, the longest value at a place wins, and
// a value that overlaps itself is replaced as often as it fits side by side, as if each
// value were searched for and replaced in turn, the longest first. Different values that
// overlap are replaced together, by one placeholder, so that nothing of either is left. A
// value with line feeds is also found if a terminal has printed them as carriage return
// and line feed.
//
// A rule ([Rules]) replaces text of a type, or matches of a pattern. Rules apply to the text
// after values were replaced. All matches of a pattern are replaced. Matches that overlap are
// replaced together, by the strategy of the first one, or of one that blocks. wire/WIRE.md
// describes the types and the strategies.
//
// # What is held back
//
// A writer holds back the longest end of the stream that may begin a value or a match, and
// nothing else; no timer releases half of one. A match is at most 4 KiB, depending on its
// type, and twice that together with overlapping ones. The time is linear in the text,
// whatever the text and the values are (Aho and Corasick, 1975); for patterns it is
// multiplied, at worst, by the length of their programs.
package redact

import (
	"fmt"
	"slices"
	"strings"
)

// Placeholder stands where a value was.
const Placeholder = "[REDACTED]"

// Bounds of a set.
const (
	MaxValues = 1536
	MaxValue  = 64 << 10  // of one value, in bytes
	MaxTotal  = 384 << 10 // of all values, in bytes
)

// Set is a set of values, and of rules. It is immutable and safe for concurrent
// use. The nil Set is empty.
type Set struct {
	nodes  []node
	start  [256]bool // the bytes that values begin with
	shifts *shifts   // nil without values, and if one is very short
	rules  []rule
}

// node is a state of the automaton: a prefix of some value. Node 0 is the
// empty prefix.
type node struct {
	child, sibling int32 // the first longer prefix, and the next one beside it
	fail           int32 // the longest proper suffix that is a node
	ends           int32 // the longest suffix that is a value: this node or a shorter one, 0 for none
	depth          int32 // the prefix's length
	label          byte  // its last byte
}

// NewSet returns a set of values; empty values and doubles are ignored. Its only
// errors are that values are beyond the bounds.
func NewSet(values []string) (*Set, error) {
	total := 0
	for _, v := range values {
		if total += len(v); len(v) > MaxValue {
			return nil, fmt.Errorf("a value has more than %d bytes", MaxValue)
		}
	}
	switch {
	case len(values) > MaxValues:
		return nil, fmt.Errorf("more than %d values", MaxValues)
	case total > MaxTotal:
		return nil, fmt.Errorf("all values together have more than %d bytes", MaxTotal)
	}
	if values = variants(values); len(values) == 0 {
		return nil, nil
	}
	s := &Set{nodes: make([]node, 1, total+1), shifts: newShifts(values)}
	for _, v := range values {
		s.add(v)
	}
	s.link()
	return s, nil
}

// With returns the set with rules, in place of those that it has.
func (s *Set) With(rules *Rules) *Set {
	if rules == nil {
		return s
	}
	with := &Set{}
	if s != nil {
		*with = *s
	}
	with.rules = rules.list
	return with
}

// variants returns each value once, and once more as a terminal prints it.
func variants(values []string) []string {
	var all []string
	for _, v := range values {
		if v != "" {
			all = append(all, v)
		}
		if strings.Contains(v, "\n") {
			all = append(all, strings.ReplaceAll(strings.ReplaceAll(v, "\r\n", "\n"), "\n", "\r\n"))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// add adds a node for each prefix of a value.
func (s *Set) add(value string) {
	at := int32(0)
	for i := range len(value) {
		next := s.child(at, value[i])
		if next == 0 {
			next = int32(len(s.nodes))
			s.nodes = append(s.nodes, node{sibling: s.nodes[at].child, depth: int32(i + 1), label: value[i]})
			s.nodes[at].child = next
		}
		at = next
	}
	s.nodes[at].ends = at
	s.start[value[0]] = true
}

// child returns the node that is one byte longer, or 0.
func (s *Set) child(at int32, b byte) int32 {
	for c := s.nodes[at].child; c != 0; c = s.nodes[c].sibling {
		if s.nodes[c].label == b {
			return c
		}
	}
	return 0
}

// link sets the failure links, shorter prefixes first.
func (s *Set) link() {
	queue := make([]int32, 1, len(s.nodes)) // of nodes whose children are to be linked
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for c := s.nodes[at].child; c != 0; c = s.nodes[c].sibling {
			if at != 0 {
				s.nodes[c].fail = s.step(s.nodes[at].fail, s.nodes[c].label)
			}
			if s.nodes[c].ends == 0 {
				s.nodes[c].ends = s.nodes[s.nodes[c].fail].ends
			}
			queue = append(queue, c)
		}
	}
}

// step returns the state after one more byte.
func (s *Set) step(at int32, b byte) int32 {
	for {
		if next := s.child(at, b); next != 0 || at == 0 {
			return next
		}
		at = s.nodes[at].fail
	}
}

// shorter returns the next shorter value that ends where value does, or 0.
func (s *Set) shorter(value int32) int32 { return s.nodes[s.nodes[value].fail].ends }

// Text replaces every value in a whole text.
func (s *Set) Text(text string) string {
	if s == nil {
		return text
	}
	var b strings.Builder
	w := NewWriter(s, &b)
	_, _ = w.Write([]byte(text)) // a Builder does not fail
	_ = w.Close()
	return b.String()
}

// shifts says how many bytes a search may skip, by the last two bytes of the place where a
// value may begin (Wu and Manber, 1994).
type shifts struct {
	length int // of the shortest value, and at most maxShift
	by     [1 << 12]uint8
}

const maxShift = 64

// pair returns the index of two bytes in the table.
func pair(a, b byte) int { return (int(a)<<5 ^ int(b)) & (1<<12 - 1) }

// newShifts returns the table for values, nil if one is too short for it.
func newShifts(values []string) *shifts {
	s := &shifts{length: maxShift}
	for _, v := range values {
		s.length = min(s.length, len(v))
	}
	if s.length < 3 {
		return nil
	}
	for i := range s.by {
		s.by[i] = uint8(s.length - 1)
	}
	for _, v := range values {
		for i := 1; i < s.length; i++ {
			at := pair(v[i-1], v[i])
			s.by[at] = min(s.by[at], uint8(s.length-1-i))
		}
	}
	return s
}

// skip returns how many bytes of p begin no value.
func (s *shifts) skip(p []byte) int {
	i := s.length - 1
	for i < len(p) {
		shift := s.by[pair(p[i-1], p[i])]
		if shift == 0 {
			break
		}
		i += int(shift)
	}
	return max(0, min(i-s.length+1, len(p)))
}

// skip returns how many bytes at the start of p cannot begin a value.
func (s *Set) skip(p []byte) (n int) {
	for {
		if s.shifts != nil {
			n += s.shifts.skip(p[n:])
		}
		for n < len(p) && !s.start[p[n]] {
			n++
			if s.shifts != nil && len(p)-n >= s.shifts.length {
				break
			}
		}
		if n == len(p) || s.start[p[n]] {
			return n
		}
	}
}
