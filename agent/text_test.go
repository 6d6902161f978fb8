package agent

import (
	"bytes"
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

// What Python's incremental decoder makes of the same bytes.
func TestDecoder(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"plain é😀":                 "plain é😀",
		"\xff\xfe":                 "��",
		"a\xe2\x82b":               "a�b",
		"\xe2\x82":                 "�",
		"\xf0\x9f\x98":             "�",
		"\xf0\x9f\x98x\xf0\x9f":    "�x�",
		"\xc0\xaf\xed\xa0\x80":     "�����",
		"\xf4\x90\x80\x80":         "����",
		"\xe0\x80\x80":             "���",
		"\x80\xbfz":                "��z",
		"\xe2\x82\xe2\x82\xac\xc3": "�€�",
	} {
		for n := 1; n <= len(in)+1; n++ {
			var out bytes.Buffer
			d := &decoder{dst: &out}
			for rest := in; rest != ""; {
				k := min(n, len(rest))
				_, _ = d.Write([]byte(rest[:k]))
				rest = rest[k:]
			}
			_ = d.Close()
			if out.String() != want {
				t.Errorf("%q in pieces of %d: %q, want %q", in, n, out.String(), want)
			}
		}
	}
}

func TestPyRepr(t *testing.T) {
	for in, want := range map[string]string{
		"a": `'a'`, "it's": `"it's"`, `a"b`: `'a"b'`, `'"`: `'\'"'`, "\\\n\t\r": `'\\\n\t\r'`, "\x00\x7f": `'\x00\x7f'`, "é 😀": `'é 😀'`, "\u2028": `'\u2028'`,
	} {
		if got := pyRepr(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
