package redact

import (
	"errors"
	"slices"

	"github.com/paddock-dev/paddock/policy"
)

// Bounds of the patterns of rules.
const (
	MaxProgram  = 4 << 10  // instructions of a pattern, each for a range of bytes
	MaxPrograms = 16 << 10 // of all patterns of one set of rules together
	MaxMatch    = 4 << 10  // bytes of a match of a pattern; of a longer one the end is found
)

// Rules are compiled rules. They are immutable and safe for concurrent use. nil
// has none.
type Rules struct{ list []rule }

// rule is a complete, compiled rule.
type rule struct {
	policy.Redaction
	program *program // of a pattern
}

// Compile returns the rules of base, followed by more. A rule that is identical to one of
// base is left out. If another rule of more is invalid, or cannot be used together with
// base, the error is a [*policy.RedactionError] with the rule's index in more.
func Compile(base *Rules, more []policy.Redaction) (*Rules, error) {
	if len(more) == 0 {
		return base, nil
	}
	var all []policy.Redaction
	var size int
	r := &Rules{}
	if base != nil {
		r.list = slices.Clone(base.list)
	}
	for _, old := range r.list {
		all = append(all, old.Redaction)
		size += old.size()
	}
	var indices []int // in more, of the rules that are added
	for i, added := range more {
		added = added.Complete()
		if !slices.Contains(all[:len(r.list)], added) {
			all, indices = append(all, added), append(indices, i)
		}
	}
	if len(indices) == 0 {
		return base, nil
	}
	err := policy.CheckRedactions(all)
	for i := len(r.list); i < len(all) && err == nil; i++ {
		c := rule{Redaction: all[i]}
		if c.Type == policy.RedactCustom {
			if c.program, err = compile(c.Pattern); err == nil && size+c.size() > MaxPrograms {
				err = errors.New("makes all expressions together too large")
			}
			if err != nil {
				err = &policy.RedactionError{Index: i, Field: "pattern", Reason: err.Error()}
			}
		}
		size += c.size()
		r.list = append(r.list, c)
	}
	var bad *policy.RedactionError
	if n := len(all) - len(indices); errors.As(err, &bad) {
		bad.Index = indices[bad.Index-n]
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Check returns what makes rules unusable, as a [*policy.RedactionError].
func Check(rules []policy.Redaction) error {
	_, err := Compile(nil, rules)
	return err
}

// Names returns the names of the rules.
func (r *Rules) Names() (names []string) {
	if r != nil {
		for i := range r.list {
			names = append(names, r.list[i].Name)
		}
	}
	return names
}

// size returns how many instructions the rule's pattern takes.
func (r *rule) size() int {
	if r.program == nil {
		return 0
	}
	return len(r.program.insts)
}

// lookBehind is how many bytes stay in memory before the bytes that are still to be
// scanned, because scanners look back. The one for mail addresses looks back furthest.
const lookBehind = 72

// window is the part of a stream that scanners can see.
type window struct {
	b    []byte
	base int64 // the position of b[0]
	last bool  // nothing comes after b
}

func (w *window) end() int64 { return w.base + int64(len(w.b)) }

// at returns the byte at an index, 0 outside.
func (w *window) at(i int) byte {
	if i < 0 || i >= len(w.b) {
		return 0
	}
	return w.b[i]
}

// scanner looks for the matches of one rule, or of one form of it.
type scanner interface {
	// scan reads what it has not read yet, and adds matches to m. It returns the
	// position from which on it may still find matches: the window from there on, and
	// lookBehind before it, must stay. What it finds depends on the text alone, never on
	// where windows end.
	scan(w *window, m *matches) (safe int64)
}

// match is a part of the stream. If a match is too long to be held in memory, its rest
// follows as another match, with more set.
type match struct {
	start, end int64
	more       bool
}

// matches are the matches of one scanner that are not used yet, in order, without
// overlaps.
type matches struct{ list []match }

// add adds a match, and joins it with those that it overlaps.
func (m *matches) add(start, end int64) {
	for n := len(m.list); n > 0 && m.list[n-1].end > start && !m.list[n-1].more; n-- {
		start, end = min(start, m.list[n-1].start), max(end, m.list[n-1].end)
		m.list = m.list[:n-1]
	}
	m.list = append(m.list, match{start: start, end: end})
}

// newScanners returns the scanners of a rule.
func newScanners(r *rule) []scanner {
	switch r.Type {
	case policy.RedactEmail:
		return []scanner{&emails{}}
	case policy.RedactCreditCard:
		return []scanner{&cards{}}
	case policy.RedactIP:
		return []scanner{&ipv4s{}, &ipv6s{}}
	case policy.RedactMACAddress:
		return []scanner{&macs{separator: ':', digits: 2}, &macs{separator: '-', digits: 2}, &macs{separator: '.', digits: 4}}
	case policy.RedactURL:
		return []scanner{&urls{}}
	default:
		return []scanner{newMatcher(r.program)}
	}
}

// Classes of bytes.
const (
	digit byte = 1 << iota
	hexLetter
	letter
	underscore
	mailMark   // besides letters and digits in the name of a mail address
	hostMark   // besides those in a host's name
	schemeMark // besides those in the scheme of a URL
	urlStop    // ends a URL
)

var class = func() (t [256]byte) {
	mark := func(text string, c byte) {
		for i := range len(text) {
			t[text[i]] |= c
		}
	}
	for b := range 256 {
		switch {
		case '0' <= b && b <= '9':
			t[b] |= digit
		case 'a' <= b|0x20 && b|0x20 <= 'z':
			t[b] |= letter
			if b|0x20 <= 'f' {
				t[b] |= hexLetter
			}
		case b >= 0x80:
			t[b] |= mailMark | hostMark
		case b <= ' ' || b == 0x7f:
			t[b] |= urlStop
		}
	}
	mark("_", underscore)
	mark("._%+-", mailMark)
	mark(".-", hostMark)
	mark("+.-", schemeMark)
	mark("\"<>\\^`{|}", urlStop)
	return t
}()

func isDigit(b byte) bool  { return b-'0' <= 9 }
func isHex(b byte) bool    { return class[b]&(digit|hexLetter) != 0 }
func isLetter(b byte) bool { return class[b]&letter != 0 }

// isWord reports whether a byte continues a word, so that the text before it is no address.
func isWord(b byte) bool { return class[b]&(digit|letter|underscore) != 0 }
