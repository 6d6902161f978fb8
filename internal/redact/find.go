package redact

// Finder looks for matches of an expression in lines, faster than an expression
// that also says where they begin. It is for one goroutine.
type Finder struct{ table *table }

// NewFinder compiles an expression in RE2 syntax, of which ^ and $ mean lines. It
// refuses one that is too large, that matches where nothing is, or that asks for
// the begin or the end of the text.
func NewFinder(pattern string) (*Finder, error) {
	p, err := compile("(?m:" + pattern + ")")
	if err != nil {
		return nil, err
	}
	return &Finder{newTable(p)}, nil
}

// End is where the first match to end in a text ends, -1 where there is none. The
// text begins and ends with lines. Matches may go over the end of a line. ok is
// false once the expression leads to too many states; then nothing is known.
func (f *Finder) End(text []byte) (end int, ok bool) {
	state, n, _, found := f.table.run(f.table.idle('\n'), text)
	if !found {
		_, _, _, found = f.table.run(state, lineFeed)
	}
	if f.table.made > maxTables {
		return -1, false
	}
	if !found {
		n = -1
	}
	return n, true
}

var lineFeed = []byte{'\n'}
