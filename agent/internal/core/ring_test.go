package core

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// A ring reads as the whole stream would, from the first position it keeps on.
func TestRing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range 60 {
		ring := Ring{Limit: 1 + rnd.IntN(20_000), Characters: i%2 == 0}
		var all []string // by position
		for range 60 {
			piece := strings.Repeat([]string{"a", "é", "😀", "\n"}[rnd.IntN(4)], rnd.IntN(1500))
			_, _ = ring.Write([]byte(piece))
			if ring.Characters {
				all = append(all, strings.Split(piece, "")...)
			} else {
				for _, b := range []byte(piece) {
					all = append(all, string([]byte{b}))
				}
			}
			if ring.End() != int64(len(all)) || ring.Size() > ring.Limit+2*chunkSize {
				t.Fatalf("end %d of %d, %d bytes of %d", ring.End(), len(all), ring.Size(), ring.Limit)
			}
			if rnd.IntN(20) == 0 {
				ring.DropChunk()
			}
			from, limit := int64(rnd.IntN(len(all)+2)-1), int64(rnd.IntN(9000))
			part, at := ring.Read(from, limit)
			if want := min(max(from, ring.Start()), ring.End()); at != want {
				t.Fatalf("read from %d is at %d, want %d", from, at, want)
			}
			if want := strings.Join(all[at:min(at+limit, int64(len(all)))], ""); string(part) != want {
				t.Fatalf("read(%d, %d) of %d: %d bytes, want %d", from, limit, len(all), len(part), len(want))
			}
		}
		if kept := ring.End() - ring.Start(); ring.Size() > 0 && int(kept) < min(len(all), ring.Limit/8)-2*chunkSize {
			t.Fatalf("only %d of %d positions are kept", kept, len(all))
		}
		if ring.Drop(); ring.Size() != 0 || ring.Start() != int64(len(all)) {
			t.Fatalf("%d bytes from %d after everything was dropped", ring.Size(), ring.Start())
		}
	}
}
