package sha256

import (
	"bytes"
	"crypto/sha256"
	"testing"
)

// The standard library's sums are the same, however the text comes.
func TestSums(t *testing.T) {
	text := bytes.Repeat([]byte("All work and no play. "), 40)
	for n := range 300 {
		want := sha256.Sum256(text[:n])
		if got := Sum256(text[:n]); got != want {
			t.Fatalf("%d bytes: %x, want %x", n, got, want)
		}
		for _, cut := range []int{1, 7, 63, 64, 65} {
			d := New()
			for rest := text[:n]; len(rest) > 0; rest = rest[min(cut, len(rest)):] {
				_, _ = d.Write(rest[:min(cut, len(rest))])
			}
			if got := d.Sum([]byte{1}); !bytes.Equal(got[1:], want[:]) {
				t.Fatalf("%d bytes in pieces of %d: %x, want %x", n, cut, got[1:], want)
			}
		}
	}
}
