package redact

import "unicode/utf8"

// runes makes instructions that take the encoding of one of some runes, and
// go on at next. Where the runes are all but some, those of "." and "[^a]",
// they take any single byte beyond ASCII, too, because it may be no UTF-8.
func (b *builder) runes(pairs []rune, next int32) (first int32, err error) {
	first = -1
	add := func(i inst) error {
		at, err := b.put(i)
		if err == nil && first >= 0 {
			at, err = b.put(inst{op: opSplit, next: at, other: first})
		}
		first = at
		return err
	}
	for i := 0; i+1 < len(pairs) && err == nil; i += 2 {
		lo, hi := pairs[i], pairs[i+1]
		if lo <= utf8.RuneError && hi == utf8.MaxRune {
			err = add(inst{op: opByte, lo: 0x80, hi: 0xff, next: next})
		}
		for n := 1; n <= utf8.UTFMax && err == nil; n++ {
			from, to := max(lo, lowest[n]), min(hi, lowest[n+1]-1)
			if from <= to {
				err = b.sequences(encode(from, n), encode(to, n), next, add)
			}
		}
	}
	if first < 0 && err == nil {
		err = add(inst{op: opFail})
	}
	return first, err
}

// lowest is the first rune with an encoding of so many bytes.
var lowest = [...]rune{0, 0, 0x80, 0x800, 0x10000, utf8.MaxRune + 1}

// encode gives n bytes, also for what are no characters: halves of such.
func encode(r rune, n int) []byte {
	if n == 1 {
		return []byte{byte(r)}
	}
	text := make([]byte, n)
	for i := n - 1; i > 0; i-- {
		text[i] = 0x80 | byte(r&0x3f)
		r >>= 6
	}
	text[0] = byte(uint(0xf00)>>n&0xff) | byte(r)
	return text
}

// sequences adds instructions for all encodings from lo to hi, which are of
// the same length.
func (b *builder) sequences(lo, hi []byte, next int32, add func(inst) error) error {
	// The longest common start is taken apart where the rest is not whole.
	for k := 1; k < len(lo); k++ {
		if string(lo[:k]) == string(hi[:k]) {
			continue
		}
		// They differ before k: what follows must be all of 80 to BF.
		if !all(lo[k:], 0x80) {
			mid := join(lo[:k], len(lo)-k, 0xbf)
			if err := b.sequences(lo, mid, next, add); err != nil {
				return err
			}
			return b.sequences(after(mid), hi, next, add)
		}
		if !all(hi[k:], 0xbf) {
			mid := join(hi[:k], len(hi)-k, 0x80)
			if err := b.sequences(lo, before(mid), next, add); err != nil {
				return err
			}
			return b.sequences(mid, hi, next, add)
		}
		break
	}
	for i := len(lo) - 1; i > 0; i-- {
		at, err := b.put(inst{op: opByte, lo: lo[i], hi: hi[i], next: next})
		if err != nil {
			return err
		}
		next = at
	}
	return add(inst{op: opByte, lo: lo[0], hi: hi[0], next: next})
}

func all(text []byte, want byte) bool {
	for _, b := range text {
		if b != want {
			return false
		}
	}
	return true
}

// join is a text that goes on with n times the same byte.
func join(text []byte, n int, b byte) []byte {
	out := append(make([]byte, 0, len(text)+n), text...)
	for range n {
		out = append(out, b)
	}
	return out
}

// after is the next encoding of the same length, before the one before it.
func after(text []byte) []byte {
	out := join(text, 0, 0)
	for i := len(out) - 1; ; i-- {
		if out[i]++; i == 0 || out[i] <= 0xbf {
			return out
		}
		out[i] = 0x80
	}
}

func before(text []byte) []byte {
	out := join(text, 0, 0)
	for i := len(out) - 1; ; i-- {
		if out[i]--; i == 0 || out[i] >= 0x80 {
			return out
		}
		out[i] = 0xbf
	}
}
