package ignore

import "strings"

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
