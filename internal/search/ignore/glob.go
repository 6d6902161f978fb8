package ignore

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Glob is a pattern for paths, taken apart at its slashes.
type Glob struct {
	parts []part
}

// part matches one name, or where it is deep any number of them.
type part struct {
	deep  bool
	units []unit
}

// unit matches one byte or character, or where it is many any number of them.
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

// compile reads a pattern. Characters says that ? stands for a character of
// UTF-8, where git has it stand for a byte.
func compile(pattern string, characters bool) (*Glob, error) {
	g := &Glob{}
	c := compiler{text: pattern, characters: characters}
	for {
		units, more, err := c.name()
		if err != nil {
			return nil, err
		}
		p := part{units: units}
		if len(units) > 1 && allMany(units) {
			p = part{deep: true}
		}
		p.units = merged(p.units)
		// Several in a row match no more than one does.
		if n := len(g.parts); !p.deep || n == 0 || !g.parts[n-1].deep {
			g.parts = append(g.parts, p)
		}
		if !more {
			return g, nil
		}
	}
}

func allMany(units []unit) bool {
	for _, u := range units {
		if u.kind != unitMany {
			return false
		}
	}
	return true
}

// merged makes one of stars that follow each other.
func merged(units []unit) []unit {
	kept := units[:0]
	for _, u := range units {
		if n := len(kept); u.kind != unitMany || n == 0 || kept[n-1].kind != unitMany {
			kept = append(kept, u)
		}
	}
	return kept
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
	backP, backN := -1, 0 // where to go on when the last deep part takes one more name
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

// matchName matches one name. Only the last star ever needs to take more.
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

// match returns how many bytes a unit takes of a text that is not empty, or 0.
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
	case unitMany: // its caller's
	}
	return 0
}

// next reads a byte of a set, which must go on.
func (c *compiler) next() (byte, error) {
	if c.at >= len(c.text) {
		return 0, errUnclosed
	}
	c.at++
	return c.text[c.at-1], nil
}

// set reads what follows a "[". It is of bytes, as git has it.
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

// class reads what follows a "[" within a set; where that is no class, the
// bracket stands for itself.
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
