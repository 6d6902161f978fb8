package patch

import (
	"context"
	"errors"
	"strings"
)

// maxWork bounds the search for the places of hunks, in lines that are compared
// or moved: a second or two. It is a variable for tests. maxHints bounds finding out
// why they are not there.
var maxWork = 1 << 30

const maxHints = 1 << 23

var errWork = errors.New("looking for the places of its hunks takes too long")

// image is a text that hunks are applied to. Lines are numbers, the same for
// the same text, so that comparing them takes no time.
type image struct {
	lines   []int32
	touched []bool // made by a hunk, and not to be changed by another
	work    *work
}

// work counts what was done for a patch.
type work struct {
	ctx   context.Context
	left  int
	hints int // left for finding out what went wrong
}

func (w *work) spend(n int) error {
	before := w.left >> 20
	if w.left -= n; w.left < 0 {
		return errWork
	}
	if w.left>>20 != before {
		return w.ctx.Err()
	}
	return nil
}

// words numbers texts.
type words struct {
	numbers map[string]int32
	texts   []string
}

func (w *words) number(all []string) []int32 {
	numbers := make([]int32, len(all))
	for i, text := range all {
		n, ok := w.numbers[text]
		if !ok {
			n = int32(len(w.texts)) // there are fewer lines than bytes in [MaxTotal]
			w.numbers[text] = n
			w.texts = append(w.texts, text)
		}
		numbers[i] = n
	}
	return numbers
}

// find looks for lines at a place, then ever further away from it, behind and
// before it in turn, as git does. first and last say that they must be at the
// beginning, or the end.
func (m *image) find(old []int32, at int, first, last bool) (int, error) {
	switch {
	case first:
		at = 0
	case last:
		at = len(m.lines) - len(old)
	}
	if first || last {
		if at < 0 || last && at+len(old) != len(m.lines) {
			return -1, nil
		}
		ok, err := m.match(old, at)
		if !ok {
			at = -1
		}
		return at, err
	}
	at = min(at, len(m.lines))
	for away := 0; away <= len(m.lines); away++ {
		for _, try := range []int{at + away, at - away} {
			if try < 0 || try+len(old) > len(m.lines) || away == 0 && try != at {
				continue
			}
			if ok, err := m.match(old, try); ok || err != nil {
				return try, err
			}
		}
	}
	return -1, nil
}

func (m *image) match(old []int32, at int) (bool, error) {
	if at+len(old) > len(m.lines) {
		return false, nil
	}
	for i, n := range old {
		if m.lines[at+i] != n || m.touched[at+i] {
			return false, m.work.spend(i + 1)
		}
	}
	return true, m.work.spend(len(old) + 1)
}

// count says how often lines are there, 2 for more often than once.
func (m *image) count(old []int32) (times int, err error) {
	for at := 0; at+len(old) <= len(m.lines) && times < 2; at++ {
		ok, err := m.match(old, at)
		if err != nil {
			return 0, err
		}
		if ok {
			times++
		}
	}
	return times, nil
}

// place finds where a hunk belongs, -1 where it does not. Lines at the edge of
// a hunk that are no context say, as with git, that it is at the edge of the
// file; where it is not there, its lines must be at the very place, or there
// must be one such place alone.
func (m *image) place(h hunk, old []int32) (int, error) {
	at := h.line - 1
	if len(old) == 0 && at != len(m.lines) {
		return -1, nil // git would put it at the end, wherever it should be
	}
	found, err := m.find(old, at, h.first, !h.trailing)
	if found >= 0 || err != nil || len(old) == 0 || !h.first && h.trailing {
		return found, err
	}
	if unfinished(h.old) || unfinished(h.new) {
		return -1, nil // it can be at the end alone
	}
	if ok, err := m.match(old, at); ok || err != nil {
		return at, err
	}
	times, err := m.count(old)
	if times != 1 || err != nil {
		return -1, err
	}
	return m.find(old, at, false, false)
}

func unfinished(side []string) bool {
	return len(side) > 0 && !strings.HasSuffix(side[len(side)-1], "\n")
}

// replace puts lines in the place of others.
func (m *image) replace(at, n int, by []int32) error {
	if err := m.work.spend((len(m.lines) - at + len(by)) / 8); err != nil {
		return err
	}
	made := make([]bool, len(by))
	for i := range made {
		made[i] = true
	}
	m.lines = splice(m.lines, at, n, by)
	m.touched = splice(m.touched, at, n, made)
	return nil
}

func splice[T any](all []T, at, n int, by []T) []T {
	tail := all[at+n:]
	if len(by) <= n {
		copy(all[at:], by)
		return append(all[:at+len(by)], tail...)
	}
	grown := append(all, by[:len(by)-n]...) // makes room; what is in it is overwritten
	copy(grown[at+len(by):], tail)
	copy(grown[at:], by)
	return grown
}
