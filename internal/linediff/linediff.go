// Package linediff compares two texts by lines. Time and memory are bounded for all texts:
// where the shortest difference would cost too much, it returns a longer one.
package linediff

import (
	"bytes"
	"math"
)

// Text is a text that is split into lines, each with its line feed.
type Text struct {
	text []byte
	ends []uint32
}

// Split splits a text of less than 4 GiB.
func Split(text []byte) Text {
	t := Text{text: text, ends: make([]uint32, 0, bytes.Count(text, []byte("\n"))+1)}
	for at := 0; at < len(text); {
		n := bytes.IndexByte(text[at:], '\n') + 1
		if n == 0 {
			n = len(text) - at
		}
		at += n
		t.ends = append(t.ends, uint32(at))
	}
	return t
}

// Bytes returns the whole text.
func (t Text) Bytes() []byte { return t.text }

// Len returns the number of lines.
func (t Text) Len() int { return len(t.ends) }

// Line returns a line with its line feed, which the last one may lack.
func (t Text) Line(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = t.ends[i-1]
	}
	return t.text[start:t.ends[i]]
}

// Edit says that lines of the old text are replaced by lines of the new one. Either may be
// none.
type Edit struct{ OldStart, OldEnd, NewStart, NewEnd int }

// mostLines is how many lines that differ are compared: more are replaced as a whole.
const mostLines = 1 << 20

// Diff returns the edits that make the old text the new one, in order.
func Diff(a, b Text) []Edit {
	start, aEnd, bEnd := 0, a.Len(), b.Len()
	for start < aEnd && start < bEnd && bytes.Equal(a.Line(start), b.Line(start)) {
		start++
	}
	for start < aEnd && start < bEnd && bytes.Equal(a.Line(aEnd-1), b.Line(bEnd-1)) {
		aEnd--
		bEnd--
	}
	edit := Edit{start, aEnd, start, bEnd}
	olds, news := aEnd-start, bEnd-start
	switch {
	case olds == 0 && news == 0:
		return nil
	case olds == 0, news == 0, olds > mostLines, news > mostLines:
		return []Edit{edit}
	}
	return compare(a, b, start, aEnd, bEnd)
}

// compare compares lines from start on.
func compare(a, b Text, start, aEnd, bEnd int) []Edit {
	numbers := make(map[string]int32)
	var inOld, inNew []bool // by number
	number := func(t Text, end int, here, there *[]bool) []int32 {
		all := make([]int32, 0, end-start)
		for i := start; i < end; i++ {
			n, ok := numbers[string(t.Line(i))]
			if !ok {
				n = int32(len(numbers))
				numbers[string(t.Line(i))] = n
				*here, *there = append(*here, false), append(*there, false)
			}
			(*here)[n] = true
			all = append(all, n)
		}
		return all
	}
	olds := number(a, aEnd, &inOld, &inNew)
	news := number(b, bEnd, &inNew, &inOld)
	// A line that only one side has is never part of what is common.
	only := func(lines []int32, there []bool) (kept []int32, at []int, changed []bool) {
		changed = make([]bool, len(lines))
		for i, n := range lines {
			if there[n] {
				kept, at = append(kept, n), append(at, i)
			} else {
				changed[i] = true
			}
		}
		return kept, at, changed
	}
	var s search
	s.a, s.aAt, s.aChanged = only(olds, inNew)
	s.b, s.bAt, s.bChanged = only(news, inOld)
	s.diagonals = len(s.b) + 1
	s.forward = make([]int, len(s.a)+len(s.b)+3)
	s.backward = make([]int, len(s.a)+len(s.b)+3)
	s.most = max(16, min(4096, 1<<27/(len(s.a)+len(s.b)+1)))
	s.compare(0, len(s.a), 0, len(s.b))
	return edits(s.aChanged, s.bChanged, start)
}

// edits returns runs of changed lines.
func edits(olds, news []bool, start int) (all []Edit) {
	for i, j := 0, 0; i < len(olds) || j < len(news); {
		oldStart, newStart := i, j
		for i < len(olds) && olds[i] {
			i++
		}
		for j < len(news) && news[j] {
			j++
		}
		if i > oldStart || j > newStart {
			all = append(all, Edit{start + oldStart, start + i, start + newStart, start + j})
			continue
		}
		i++
		j++
	}
	return all
}

// search is Myers' search for the shortest edit script, in linear space ("An O(ND) Difference
// Algorithm and Its Variations", 1986).
type search struct {
	a, b               []int32
	aAt, bAt           []int // which lines they are
	aChanged, bChanged []bool
	forward, backward  []int // how far each diagonal was followed, from both ends
	diagonals          int   // where diagonal 0 is in them
	most               int   // edits; what needs more is split where the search is then
}

// compare marks what differs between a part of a and a part of b.
func (s *search) compare(aStart, aEnd, bStart, bEnd int) {
	for {
		for aStart < aEnd && bStart < bEnd && s.a[aStart] == s.b[bStart] {
			aStart++
			bStart++
		}
		for aStart < aEnd && bStart < bEnd && s.a[aEnd-1] == s.b[bEnd-1] {
			aEnd--
			bEnd--
		}
		if aStart == aEnd || bStart == bEnd {
			for ; aStart < aEnd; aStart++ {
				s.aChanged[s.aAt[aStart]] = true
			}
			for ; bStart < bEnd; bStart++ {
				s.bChanged[s.bAt[bStart]] = true
			}
			return
		}
		x, y := s.split(aStart, aEnd, bStart, bEnd)
		s.compare(aStart, x, bStart, y)
		aStart, bStart = x, y
	}
}

// split returns a point on a short way from the start of both parts to their ends.
func (s *search) split(aStart, aEnd, bStart, bEnd int) (x, y int) {
	f := func(d int) *int { return &s.forward[d+s.diagonals] }
	b := func(d int) *int { return &s.backward[d+s.diagonals] }
	lowest, highest := aStart-bEnd, aEnd-bStart
	fMin, fMax := aStart-bStart, aStart-bStart
	bMin, bMax := aEnd-bEnd, aEnd-bEnd
	odd := (fMin-bMin)&1 != 0
	*f(fMin), *b(bMin) = aStart, aEnd
	for cost := 1; ; cost++ {
		fMin, fMax = widen(fMin, fMax, lowest, highest, f, -1)
		for d := fMax; d >= fMin; d -= 2 {
			x := max(*f(d - 1)+1, *f(d + 1))
			for x < aEnd && x-d < bEnd && s.a[x] == s.b[x-d] {
				x++
			}
			if *f(d) = x; odd && bMin <= d && d <= bMax && *b(d) <= x {
				return x, x - d
			}
		}
		bMin, bMax = widen(bMin, bMax, lowest, highest, b, math.MaxInt)
		for d := bMax; d >= bMin; d -= 2 {
			x := min(*b(d - 1), *b(d + 1)-1)
			for aStart < x && bStart < x-d && s.a[x-1] == s.b[x-d-1] {
				x--
			}
			if *b(d) = x; !odd && fMin <= d && d <= fMax && x <= *f(d) {
				return x, x - d
			}
		}
		if cost >= s.most {
			break
		}
	}
	// Whichever end came farther.
	fBest, bBest := -1, math.MaxInt
	var fx, bx int
	for d := fMax; d >= fMin; d -= 2 {
		x := min(*f(d), aEnd, bEnd+d)
		if sum := x + x - d; sum > fBest {
			fBest, fx = sum, x
		}
	}
	for d := bMax; d >= bMin; d -= 2 {
		x := max(*b(d), aStart, bStart+d)
		if sum := x + x - d; sum < bBest {
			bBest, bx = sum, x
		}
	}
	if aEnd+bEnd-bBest < fBest-aStart-bStart {
		return fx, fBest - fx
	}
	return bx, bBest - bx
}

// widen moves the bounds of the diagonals that are followed by one, within those that there
// are, and marks the ones beyond as not followed.
func widen(from, to, lowest, highest int, at func(int) *int, none int) (lo, hi int) {
	if from > lowest {
		from--
		*at(from - 1) = none
	} else {
		from++
	}
	if to < highest {
		to++
		*at(to + 1) = none
	} else {
		to--
	}
	return from, to
}
