package redact

import (
	"io"

	"github.com/paddock-dev/paddock/policy"
)

// Writer replaces values in a stream. It is for one goroutine.
type Writer struct {
	set    *Set
	dst    io.Writer // the filter if there is one, which then writes to the destination
	filter *filter   // nil without rules

	state int32
	// held are the bytes from position base on that are neither written nor replaced
	// yet.
	held  []byte
	base  int64
	store [64]byte // for held, while that is short
	// spans are the parts of held that are to be replaced, in order. A span
	// may begin before base, in text that was replaced already.
	spans []span
	last  span // the span that was replaced last; it ends at base unless text came after it
	out   []byte
}

// span is a part of the stream, by positions.
type span struct {
	start, end int64
	value      int32 // the one value in it, -1 where several overlap
	joined     bool  // it continues the span that was replaced just before it
}

// NewWriter returns a writer that writes to dst what cannot be part of a value or a match,
// as soon as that is known. Close writes the rest.
func NewWriter(set *Set, dst io.Writer) *Writer {
	w := &Writer{set: set, dst: dst}
	if set != nil && len(set.rules) > 0 {
		w.filter = newFilter(set.rules, dst)
		w.dst = w.filter
	}
	return w
}

// Counts adds to counts how many matches each rule has had, by its name.
func (w *Writer) Counts(counts map[string]int64) {
	if w.filter == nil {
		return
	}
	for i, n := range w.filter.counts {
		if n > 0 {
			counts[w.filter.rules[i].Name] += n
		}
	}
}

// Matches returns how many matches all rules have had.
func (w *Writer) Matches() (n int64) {
	if w.filter != nil {
		for _, k := range w.filter.counts {
			n += k
		}
	}
	return n
}

// Blocked returns the name of the rule that ended the output, "" if none has. What is
// written afterwards is accepted and dropped.
func (w *Writer) Blocked() string {
	if w.filter == nil || w.filter.blocked < 0 {
		return ""
	}
	return w.filter.rules[w.filter.blocked].Name
}

// Use replaces the values of the writer; its rules stay unchanged. The new values apply from
// the held-back text on. If that text has a value of the old set, more than the value is
// replaced.
func (w *Writer) Use(set *Set) error {
	if n := len(w.spans); n > 0 {
		w.spans = []span{{start: w.base, end: w.spans[n-1].end, joined: w.spans[0].joined}}
		w.flush(w.base)
	}
	rest := w.held
	w.set, w.state, w.held = set, 0, nil
	if err := w.pass(); err != nil {
		return err
	}
	_, err := w.Write(rest)
	return err
}

// Write accepts all of p, or fails as dst does.
func (w *Writer) Write(p []byte) (int, error) {
	if !w.set.hasValues() {
		return w.dst.Write(p)
	}
	n := len(p)
	for len(p) > 0 {
		if w.state == 0 && len(w.held) == 0 {
			skip := w.set.skip(p)
			if skip == n { // nothing in all of it
				w.base += int64(n)
				return w.dst.Write(p)
			}
			w.out = append(w.out, p[:skip]...)
			w.base += int64(skip)
			p = p[skip:]
		}
		p = p[w.feed(p):]
	}
	return n, w.pass()
}

// feed takes bytes until nothing is held back, and returns how many.
func (w *Writer) feed(p []byte) int {
	for i, b := range p {
		w.held = append(w.held, b)
		w.state = w.set.step(w.state, b)
		pos := w.base + int64(len(w.held))
		for v := w.set.nodes[w.state].ends; v != 0 && !w.found(v, pos); v = w.set.shorter(v) {
		}
		w.flush(pos - int64(w.set.nodes[w.state].depth))
		if w.state == 0 && len(w.held) == 0 {
			return i + 1
		}
	}
	return len(p)
}

// found notes that a value ends at pos. It reports false if it overlaps the same value,
// which has been found before it.
func (w *Writer) found(value int32, pos int64) bool {
	s := span{start: pos - int64(w.set.nodes[value].depth), end: pos, value: value}
	for n := len(w.spans); n > 0 && w.spans[n-1].end > s.start; n-- {
		other := w.spans[n-1]
		if other.value == value {
			return false
		}
		if other.start < s.start { // otherwise it lies within the new one
			s.start, s.value = other.start, -1
		}
		s.joined = other.joined
		w.spans = w.spans[:n-1]
	}
	if s.start < w.base { // in what was replaced last
		if w.last.value == value {
			return false
		}
		if w.last.start < s.start {
			s.value = -1
		}
		s.joined = true
	}
	w.spans = append(w.spans, s)
	return true
}

// flush releases text that no later byte can change: every value that is still to be found
// begins at safe or after it.
func (w *Writer) flush(safe int64) {
	done := w.base
	for len(w.spans) > 0 && w.spans[0].start <= safe {
		s := w.spans[0]
		w.spans = w.spans[1:]
		w.out = append(w.out, w.held[done-w.base:max(done, s.start)-w.base]...)
		if !s.joined {
			w.out = append(w.out, Placeholder...)
		}
		done, w.last = s.end, s
	}
	if done < safe { // the remaining spans begin after it
		w.out = append(w.out, w.held[done-w.base:safe-w.base]...)
		done = safe
	}
	w.held = w.held[done-w.base:]
	w.base = done
	if len(w.held) == 0 {
		w.held = w.store[:0]
	}
}

// pass writes what is ready to dst.
func (w *Writer) pass() error {
	if len(w.out) == 0 {
		return nil
	}
	_, err := w.dst.Write(w.out)
	if w.out = w.out[:0]; cap(w.out) > maxKept {
		w.out = nil
	}
	return err
}

// maxKept is how much memory a writer keeps between writes, in bytes.
const maxKept = 64 << 10

// Close writes what was held back. It does not close dst.
func (w *Writer) Close() error {
	if w.set.hasValues() {
		w.flush(w.base + int64(len(w.held)))
		w.state = 0
	}
	err := w.pass()
	if w.filter != nil && err == nil {
		err = w.filter.Close()
	}
	return err
}

func (s *Set) hasValues() bool { return s != nil && len(s.nodes) > 1 }

// maxRegion bounds the text that a replacement is made from, in bytes. The rest of a longer
// region is removed.
const maxRegion = 4 << 10

// filter replaces the matches of rules in a stream.
type filter struct {
	rules   []rule
	dst     io.Writer
	sources []source
	w       window
	sent    int64 // everything before it was written or replaced
	out     []byte

	region  region
	used    []int64 // by rule: where its matches end that were used
	counts  []int64 // by rule
	blocked int     // the rule that ended the stream, -1 if none has
}

// source is a scanner and its matches.
type source struct {
	rule int
	scan scanner
	matches
	safe int64
}

// region is a part of the stream whose matches overlap, and are replaced
// together.
type region struct {
	start, end int64
	rule       int  // whose replacement is used
	several    bool // it is more than one match of one rule
	open       bool // there is a region
}

func newFilter(rules []rule, dst io.Writer) *filter {
	f := &filter{rules: rules, dst: dst, used: make([]int64, len(rules)), counts: make([]int64, len(rules)), blocked: -1}
	for i := range rules {
		for _, s := range newScanners(&rules[i]) {
			f.sources = append(f.sources, source{rule: i, scan: s})
		}
	}
	return f
}

// maxStep is how much of a long write is processed at once, so that it stays in the
// processor's cache between rules.
const maxStep = 32 << 10

// Write accepts all of p, or fails as dst does.
func (f *filter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && f.blocked < 0 {
		k := min(len(p), maxStep)
		f.w.b = append(f.w.b, p[:k]...)
		p = p[k:]
		f.step()
	}
	return n, f.pass()
}

// Close writes what was held back. It does not close dst.
func (f *filter) Close() error {
	if f.blocked < 0 && !f.w.last {
		f.w.last = true
		f.step()
	}
	return f.pass()
}

// step finds matches in new text, and releases text that no later byte can change.
func (f *filter) step() {
	safe := f.w.end()
	for i := range f.sources {
		s := &f.sources[i]
		s.safe = s.scan.scan(&f.w, &s.matches)
		safe = min(safe, s.safe)
	}
	if f.w.last {
		safe = f.w.end()
	}
	for {
		s := f.first()
		if s == nil || s.list[0].start >= safe && !f.w.last { // no match that is still to be found begins before safe
			break
		}
		m := s.list[0]
		if s.list = s.list[1:]; len(s.list) == 0 {
			s.list = nil
		}
		f.use(s.rule, m)
	}
	if r := f.region; r.open && (r.end <= safe || r.start+maxRegion <= safe || f.w.last) {
		f.replace()
	}
	ready := safe
	if f.region.open {
		ready = f.region.start
	}
	if f.plain(ready); f.blocked >= 0 {
		return
	}
	keep := safe
	if f.region.open {
		keep = min(keep, f.region.start)
	}
	if drop := keep - lookBehind - f.w.base; drop > 0 {
		f.w.b = append(f.w.b[:0], f.w.b[drop:]...)
		f.w.base += drop
	}
}

// first returns the source with the first match; of several at one place, the one whose
// rule comes first.
func (f *filter) first() (s *source) {
	for i := range f.sources {
		c := &f.sources[i]
		if len(c.list) > 0 && (s == nil || c.list[0].start < s.list[0].start || c.list[0].start == s.list[0].start && c.list[0].more && !s.list[0].more) {
			s = c
		}
	}
	return s
}

// use adds a match, the first of the remaining ones, to the region, or begins another.
func (f *filter) use(rule int, m match) {
	more := m.more || m.start < f.used[rule]
	f.used[rule] = max(f.used[rule], m.end)
	if !more {
		f.counts[rule]++
	}
	r := &f.region
	if r.open && m.more { // how the output is cut into writes must make no difference
		end := r.end
		r.end = min(end, m.start)
		f.replace()
		f.sent = max(f.sent, end)
	}
	if r.open && m.start >= r.end {
		f.replace()
	}
	if f.blocked >= 0 {
		return
	}
	block := f.rules[rule].Strategy == policy.StrategyBlock
	if r.open && block && !m.more && m.start >= r.start+maxRegion && f.rules[r.rule].Strategy != policy.StrategyBlock {
		f.replace() // what follows so long a region is not part of it, but ends the stream
	}
	switch {
	case r.open:
		r.end = max(r.end, m.end)
		if m.start >= r.start+maxRegion || more && rule == r.rule {
			return
		}
		r.several = true
		if block && f.rules[r.rule].Strategy != policy.StrategyBlock {
			r.rule = rule
		}
	case block && !m.more, m.start >= f.sent && !m.more:
		*r = region{max(m.start, f.sent), m.end, rule, false, true}
	default: // it continues what was replaced
		f.plain(m.start)
		f.sent = max(f.sent, m.end)
	}
}

// replace writes the region's replacement, and ends the region.
func (f *filter) replace() {
	r := f.region
	f.region.open = false
	f.plain(r.start)
	if rule := &f.rules[r.rule]; rule.Strategy == policy.StrategyBlock {
		f.out = append(f.out, BlockedText(rule.Name)...)
		f.blocked = r.rule
		f.w.b, f.sources = nil, nil
		return
	}
	text := f.w.b[r.start-f.w.base : min(r.end, r.start+maxRegion)-f.w.base]
	f.out = f.rules[r.rule].replacement(f.out, text, r.several)
	f.sent = r.end
}

// plain writes the text before a position unchanged.
func (f *filter) plain(upto int64) {
	if upto > f.sent && f.blocked < 0 {
		f.out = append(f.out, f.w.b[f.sent-f.w.base:upto-f.w.base]...)
		f.sent = upto
	}
}

// pass writes what is ready to dst.
func (f *filter) pass() error {
	if len(f.out) == 0 {
		return nil
	}
	_, err := f.dst.Write(f.out)
	if f.out = f.out[:0]; cap(f.out) > maxKept {
		f.out = nil
	}
	return err
}
