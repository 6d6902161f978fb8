package paddock

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCapture(t *testing.T) {
	tests := []struct {
		name   string
		max    int64
		writes []string
		want   string
	}{
		{"nothing", 4, nil, ""},
		{"all of it", 4, []string{"a", "bc", "d"}, "abcd"},
		{"one more", 4, []string{"abcde"}, "ab\n... 1 bytes left out ...\nde"},
		{"by single bytes", 4, strings.Split("abcdefghijk", ""), "ab\n... 7 bytes left out ...\njk"},
		{"a bound of one", 1, []string{"abc"}, "a\n... 2 bytes left out ...\n"},
		{"an odd bound", 3, []string{"ab", "cde"}, "ab\n... 2 bytes left out ...\ne"},
		{"runes are not cut", 4, []string{"aäöüz"}, "a\n... 6 bytes left out ...\nz"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &Capture{Max: tt.max}
			total := 0
			for _, w := range tt.writes {
				n, err := c.Write([]byte(w))
				if n != len(w) || err != nil {
					t.Fatalf("Write(%q) = %d, %v", w, n, err)
				}
				total += n
			}
			if got := string(c.Bytes()); got != tt.want {
				t.Errorf("Bytes() = %q, want %q", got, tt.want)
			}
			if c.Total() != int64(total) || c.Truncated() != (int64(total) > tt.max) {
				t.Errorf("Total() = %d, Truncated() = %v", c.Total(), c.Truncated())
			}
		})
	}
}

// TestCaptureIsTheHeadAndTheTail compares with the whole for many shapes.
func TestCaptureIsTheHeadAndTheTail(t *testing.T) {
	var whole []byte
	for i := range 200 {
		whole = fmt.Appendf(whole, "%d,", i)
	}
	for size := 1; size < 70; size += 3 {
		c := &Capture{Max: 50}
		for rest := whole; len(rest) > 0; {
			n := min(size, len(rest))
			_, _ = c.Write(rest[:n])
			rest = rest[n:]
		}
		got := c.Bytes()
		if !bytes.HasPrefix(got, whole[:25]) || !bytes.HasSuffix(got, whole[len(whole)-25:]) {
			t.Errorf("in writes of %d: %q", size, got)
		}
	}
}

func TestCaptureHasADefaultBound(t *testing.T) {
	c := &Capture{}
	_, _ = c.Write(bytes.Repeat([]byte("ä"), 1<<20))
	if got := c.Bytes(); len(got) < 1<<20 || len(got) > 1<<20+64 || !utf8.Valid(got) {
		t.Errorf("%d bytes are kept", len(got))
	}
}
