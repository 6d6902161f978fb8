package cgroup

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// reader reads files and keeps the first error. A file that is not there is none.
type reader struct {
	group *Group
	err   error
}

func (r *reader) read(file string) (string, bool) {
	text, err := r.group.read(file)
	switch {
	case err == nil:
		return text, true
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP): // of a kernel that was started without pressure
	case r.err == nil:
		r.err = err
	}
	return "", false
}

func (r *reader) malformed(file, text string) {
	if r.err == nil {
		r.err = r.group.malformed(file, text)
	}
}

// number reads a file that holds one number.
func (r *reader) number(file string) *uint64 {
	text, ok := r.read(file)
	if !ok {
		return nil
	}
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		r.malformed(file, text)
		return nil
	}
	return &n
}

// size is number for what a signed one holds.
func (r *reader) size(file string) *int64 {
	n := r.number(file)
	if n == nil {
		return nil
	}
	size := int64(min(*n, math.MaxInt64))
	return &size
}

// keyed reads a file of keys and numbers, of which some must be there.
func (r *reader) keyed(file string, must ...string) (map[string]uint64, bool) {
	text, ok := r.read(file)
	if !ok {
		return nil, false
	}
	values := keyed(text)
	for _, key := range must {
		if _, ok := values[key]; !ok {
			r.malformed(file, text)
			return nil, false
		}
	}
	return values, true
}

// optional is the value of a key that not every kernel has.
func optional(values map[string]uint64, key string) *uint64 {
	if n, ok := values[key]; ok {
		return &n
	}
	return nil
}
