package redact

import (
	"io"

	"github.com/paddock-dev/paddock/policy"
)

// maxRegion is how much of what is replaced together is looked at for the
// replacement, in bytes. What goes on it is replaced by nothing more.
const maxRegion = 4 << 10

// filter replaces the matches of rules in a stream.
type filter struct {
	rules   []rule
	dst     io.Writer
	sources []source
	w       window
	sent    int64 // before it, everything was passed on or replaced
	out     []byte

	region  region
	used    []int64 // by rule: where the matches end that were used
	counts  []int64 // by rule
	blocked int     // the rule that ended the stream, -1 while it goes on
}

// source is a scanner and what it found.
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
	rule       int  // whose replacement stands for it
	several    bool // it is not one match of one rule
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

// maxStep is how much of a long write is taken at once, so that it stays in
// the processor's cache between rules.
const maxStep = 32 << 10

// Write takes all of p, or fails as dst does.
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

// Close passes on what was held back. It does not close dst.
func (f *filter) Close() error {
	if f.blocked < 0 && !f.w.last {
		f.w.last = true
		f.step()
	}
	return f.pass()
}

// step looks for matches in what came, and gives out what no later byte can
// change.
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
	if f.give(safe); f.blocked >= 0 {
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

// give gives out what begins before safe: no match that is still to be found
// begins there.
func (f *filter) give(safe int64) {
	for {
		s := f.first()
		if s == nil || s.list[0].start >= safe && !f.w.last {
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
	if f.region.open {
		safe = f.region.start
	}
	f.plain(safe)
}

// first is the source with the first match; of those with several there, the
// one whose rule comes first.
func (f *filter) first() (s *source) {
	for i := range f.sources {
		c := &f.sources[i]
		if len(c.list) > 0 && (s == nil || c.list[0].start < s.list[0].start || c.list[0].start == s.list[0].start && c.list[0].more && !s.list[0].more) {
			s = c
		}
	}
	return s
}

// use takes a match, the first of those that are left.
func (f *filter) use(rule int, m match) {
	more := m.more || m.start < f.used[rule]
	f.used[rule] = max(f.used[rule], m.end)
	if !more {
		f.counts[rule]++
	}
	r := &f.region
	if r.open && m.more { // how much comes at once must make no difference
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
	default: // it goes on what was replaced
		f.plain(m.start)
		f.sent = max(f.sent, m.end)
	}
}

// replace gives out the region's replacement.
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

// plain passes on what there is before a position.
func (f *filter) plain(upto int64) {
	if upto > f.sent && f.blocked < 0 {
		f.out = append(f.out, f.w.b[f.sent-f.w.base:upto-f.w.base]...)
		f.sent = upto
	}
}

// pass gives dst what is ready.
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
