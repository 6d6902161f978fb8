package ignore

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// Glob is a pattern for paths, taken apart at its slashes.
type Glob struct {
	parts []part
}

// part matches one name, or any number of them if it is deep ("**").
type part struct {
	deep  bool
	units []unit
}

// unit matches one byte or character, or any number of them if it is a star.
type unit struct {
	kind unitKind
	b    byte       // of a unitByte
	set  *[4]uint64 // of a unitSet: bits of bytes
}

type unitKind uint8

const (
	unitByte unitKind = iota
	unitAny           // one character
	unitSet
	unitMany
)

var (
	errUnclosed = errors.New("a [ is not closed")
	errClass    = errors.New("a [:class:] has a name that is none")
	errEscape   = errors.New("nothing follows the \\ at its end")
)

// compile reads a pattern. With characters, ? stands for a character of UTF-8; in git it stands
// for a byte.
func compile(pattern string, characters bool) (*Glob, error) {
	g := &Glob{}
	c := compiler{text: pattern, characters: characters}
	for {
		units, more, err := c.name()
		if err != nil {
			return nil, err
		}
		p := part{deep: len(units) > 1}
		for _, u := range units {
			p.deep = p.deep && u.kind == unitMany
		}
		// Several stars, or deep parts, in a row match no more than one does.
		if !p.deep {
			p.units = slices.CompactFunc(units, func(a, b unit) bool { return a.kind == unitMany && b.kind == unitMany })
		}
		if n := len(g.parts); !p.deep || n == 0 || !g.parts[n-1].deep {
			g.parts = append(g.parts, p)
		}
		if !more {
			return g, nil
		}
	}
}

// compiler reads a pattern from left to right.
type compiler struct {
	text       string
	at         int
	characters bool
}

// name reads up to a slash, or to the end.
func (c *compiler) name() (units []unit, more bool, err error) {
	for c.at < len(c.text) {
		b := c.text[c.at]
		c.at++
		switch b {
		case '/':
			return units, true, nil
		case '*':
			units = append(units, unit{kind: unitMany})
		case '?':
			if c.characters {
				units = append(units, unit{kind: unitAny})
			} else {
				units = append(units, unit{kind: unitSet, set: &[4]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}})
			}
		case '[':
			set, err := c.set()
			if err != nil {
				return nil, false, err
			}
			units = append(units, unit{kind: unitSet, set: set})
		case '\\':
			if c.at == len(c.text) {
				return nil, false, errEscape
			}
			b = c.text[c.at]
			c.at++
			if b == '/' {
				return units, true, nil
			}
			units = append(units, unit{b: b})
		default:
			units = append(units, unit{b: b})
		}
	}
	return units, false, nil
}

// Match reports whether the glob matches a path, given as its names. It takes
// time in proportion to the glob's length and the path's, multiplied.
func (g *Glob) Match(names []string) bool {
	p, n := 0, 0
	backP, backN := -1, 0 // where to go on if the last deep part matches one more name
	for n < len(names) {
		switch {
		case p < len(g.parts) && g.parts[p].deep:
			if p == len(g.parts)-1 {
				return true
			}
			p++
			backP, backN = p, n
		case p < len(g.parts) && matchName(g.parts[p].units, names[n]):
			p++
			n++
		case backP >= 0:
			backN++
			p, n = backP, backN
		default:
			return false
		}
	}
	return p == len(g.parts) // a deep part at the end matches something, never nothing
}

// matchName reports whether units match one name. Only the last star ever needs to match more.
func matchName(units []unit, name string) bool {
	u, n := 0, 0
	backU, backN := -1, 0
	for n < len(name) {
		if u < len(units) {
			if units[u].kind == unitMany {
				u++
				if u == len(units) {
					return true
				}
				backU, backN = u, n
				continue
			}
			if size := units[u].match(name[n:]); size > 0 {
				u++
				n += size
				continue
			}
		}
		if backU < 0 {
			return false
		}
		backN++
		u, n = backU, backN
	}
	for u < len(units) && units[u].kind == unitMany {
		u++
	}
	return u == len(units)
}

// match returns how many bytes a unit matches at the beginning of a text, which is not empty;
// 0 if it does not match.
func (u unit) match(text string) int {
	b := text[0]
	switch u.kind {
	case unitByte:
		if b == u.b {
			return 1
		}
	case unitSet:
		if u.set[b>>6]>>(b&63)&1 != 0 {
			return 1
		}
	case unitAny:
		_, size := utf8.DecodeRuneInString(text)
		return size
	case unitMany: // is the caller's duty
	}
	return 0
}

// next reads a byte of a set, which must not end here.
func (c *compiler) next() (byte, error) {
	if c.at >= len(c.text) {
		return 0, errUnclosed
	}
	c.at++
	return c.text[c.at-1], nil
}

// set reads what follows a "[": a set of bytes, as in git.
func (c *compiler) set() (*[4]uint64, error) {
	var s [4]uint64
	add := func(from, to byte) {
		for b := int(from); b <= int(to); b++ {
			s[b>>6] |= 1 << (b & 63)
		}
	}
	b, err := c.next()
	negated := b == '!' || b == '^'
	if negated {
		b, err = c.next()
	}
	before, from := false, byte(0) // what a range may begin with
	for first := true; first || b != ']'; first = false {
		escaped := b == '\\'
		if escaped {
			b, err = c.next()
		}
		switch rest := c.text[c.at:]; {
		case err != nil:
			return nil, err
		case !escaped && b == '-' && before && rest != "" && rest[0] != ']':
			if b, err = c.next(); err == nil && b == '\\' {
				b, err = c.next()
			}
			if err != nil {
				return nil, err
			}
			add(from, b)
			before = false
		case !escaped && b == '[' && strings.HasPrefix(rest, ":"):
			named, err := c.class(add)
			if err != nil {
				return nil, err
			}
			before, from = !named, '['
		default:
			add(b, b)
			before, from = true, b
		}
		if b, err = c.next(); err != nil {
			return nil, err
		}
	}
	if negated {
		for i := range s {
			s[i] = ^s[i]
		}
	}
	return &s, err
}

// class reads what follows a "[" within a set. If that is not a class, the bracket stands for
// itself.
func (c *compiler) class(add func(from, to byte)) (named bool, err error) {
	rest := c.text[c.at+1:]
	end := strings.IndexByte(rest, ']')
	switch {
	case end < 0:
		return false, errUnclosed
	case end == 0 || rest[end-1] != ':':
		add('[', '[')
		return false, nil
	}
	name := rest[:end-1]
	_, ranges, ok := strings.Cut(classes, "|"+name+":")
	if !ok || strings.Contains(name, "|") {
		return false, errClass
	}
	ranges, _, _ = strings.Cut(ranges, "|")
	for i := 0; i < len(ranges); i += 2 {
		add(ranges[i], ranges[i+1])
	}
	c.at += 1 + end + 1
	return true, nil
}

// classes are the classes of ASCII, as ranges.
const classes = "|alnum:09AZaz|alpha:AZaz|blank:\t\t  |cntrl:\x00\x1f\x7f\x7f|digit:09|graph:!~|lower:az|print: ~|punct:!/:@[`{~|" +
	"space:\t\r  |upper:AZ|xdigit:09AFaf|"
