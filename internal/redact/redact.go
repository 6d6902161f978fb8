// Package redact replaces secret values, and what rules say, in text that
// passes by, whole or as a stream, also where it is split over writes.
//
//	rules, err := redact.Compile(nil, []policy.Redaction{{Type: "email"}})
//	set, err := redact.NewSet([]string{"s3cret", "other"})
//	w := redact.NewWriter(set.With(rules), os.Stdout)
//	w.Write(output); w.Close()
//
// # What is replaced
//
// Every value becomes [Placeholder]. From the left, the longest value at a
// place wins, and a value that overlaps itself is replaced as often as it fits
// side by side, as if each value were searched for and replaced in turn,
// longest first. Different values that overlap are replaced together, by one
// placeholder, so that nothing of either is left. A value with line feeds is
// also found where a terminal has made them carriage return and line feed.
//
// A rule ([Rules]) replaces what is of a type, or what a pattern matches; rules see
// the text after values were replaced. Their matches are found by the text
// alone: what an expression matches anywhere is replaced, and matches that
// overlap are replaced together, as the first of them says, or the one that
// blocks. wire/WIRE.md says what each type and each strategy is.
//
// # What is held back
//
// A writer holds back the longest end of the stream that may begin a value or
// a match, and nothing else; no timer lets half of one go. Of a match the
// bounds are those of its type, 4 KiB at most, and with what overlaps it twice
// that. The time it takes is linear in the text, whatever text and values are
// (Aho and Corasick, 1975), for expressions at worst with the length of their
// programs as a factor.
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
	MaxValues = 1024
	MaxValue  = 64 << 10  // of one value, in bytes
	MaxTotal  = 256 << 10 // of all values, in bytes
)

// Set is a set of values, and of rules. It is immutable and safe for concurrent
// use. The nil Set is empty.
type Set struct {
	nodes  []node
	start  [256]bool // the bytes that values begin with
	shifts *shifts   // nil without values, and where one is very short
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

// variants gives each value once, and once more as a terminal prints it.
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

// add makes the prefixes of a value nodes.
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

// child is the node one byte longer, 0 where there is none.
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

// step is the state after one more byte.
func (s *Set) step(at int32, b byte) int32 {
	for {
		if next := s.child(at, b); next != 0 || at == 0 {
			return next
		}
		at = s.nodes[at].fail
	}
}

// shorter is the next shorter value that ends where value does, 0 for none.
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
