package redact

// shifts says how far a search may go on at once, by the last two bytes of
// where a value may begin (Wu and Manber, 1994).
type shifts struct {
	length int // of the shortest value, and at most maxShift
	by     [1 << 12]uint8
}

const maxShift = 64

// pair is the place of two bytes in a table.
func pair(a, b byte) int { return (int(a)<<5 ^ int(b)) & (1<<12 - 1) }

// newShifts makes the table for values, nil where one is too short for it.
func newShifts(values []string) *shifts {
	s := &shifts{length: maxShift}
	for _, v := range values {
		s.length = min(s.length, len(v))
	}
	if s.length < 3 {
		return nil
	}
	for i := range s.by {
		s.by[i] = uint8(s.length - 1)
	}
	for _, v := range values {
		for i := 1; i < s.length; i++ {
			at := pair(v[i-1], v[i])
			s.by[at] = min(s.by[at], uint8(s.length-1-i))
		}
	}
	return s
}

// skip is how many bytes of p begin no value.
func (s *shifts) skip(p []byte) int {
	i := s.length - 1
	for i < len(p) {
		shift := s.by[pair(p[i-1], p[i])]
		if shift == 0 {
			break
		}
		i += int(shift)
	}
	return max(0, min(i-s.length+1, len(p)))
}

// skip is how many bytes of p cannot begin a value.
func (s *Set) skip(p []byte) (n int) {
	for {
		if s.shifts != nil {
			n += s.shifts.skip(p[n:])
		}
		for n < len(p) && !s.start[p[n]] {
			n++
			if s.shifts != nil && len(p)-n >= s.shifts.length {
				break
			}
		}
		if n == len(p) || s.start[p[n]] {
			return n
		}
	}
}
