package shell

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// A ring reads as the whole text would, from the first character it keeps on.
func TestTextRing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		ring := textRing{limit: 1 + rnd.IntN(20_000)}
		var all []rune
		for range 60 {
			piece := strings.Repeat([]string{"a", "é", "😀", "\n"}[rnd.IntN(4)], rnd.IntN(1500))
			_, _ = ring.Write([]byte(piece))
			all = append(all, []rune(piece)...)
			if ring.end != int64(len(all)) || ring.size > ring.limit+2*chunkSize {
				t.Fatalf("end %d of %d, %d bytes of %d", ring.end, len(all), ring.size, ring.limit)
			}
			from, limit := int64(rnd.IntN(len(all)+2)-1), int64(rnd.IntN(9000))
			text, at := ring.read(from, limit)
			if want := min(max(from, ring.start()), ring.end); at != want {
				t.Fatalf("read from %d is at %d, want %d", from, at, want)
			}
			if want := string(all[at:min(at+limit, int64(len(all)))]); text != want {
				t.Fatalf("read(%d, %d) of %d: %d bytes, want %d", from, limit, len(all), len(text), len(want))
			}
		}
		if kept := ring.end - ring.start(); int(kept) < min(len(all), ring.limit/8) {
			t.Fatalf("only %d of %d characters are kept", kept, len(all))
		}
	}
}
