package text

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTruncateCharacters(t *testing.T) {
	const cut = "\n... (truncated)"
	for _, tt := range []struct{ name, text, want string }{
		{"short", "abcd", "abcd"},
		{"as long as may be", "abcde", "abcde"},
		{"long", "abcdef", "abcde" + cut},
		{"runes", "äöüßéx", "äöüßé" + cut},
		{"a mark joins on", "abcde\u0301f", "abcd" + cut},
		{"a mark inside", "abcd\u0301ef", "abcd\u0301" + cut},
		{"a family", "abc👨\u200d👩\u200d👧", "abc" + cut},
		{"a skin tone", "abcd👍🏽", "abcd" + cut},
		{"a tone cut off", "abcd👍🏽x", "abcd" + cut},
		{"a variation", "abcd✈\ufe0fx", "abcd" + cut},
		{"a flag cut in two", "abcd🇩🇪x", "abcd" + cut},
		{"two flags", "abc🇩🇪🇫🇷", "abc🇩🇪" + cut},
		{"marks from the start", strings.Repeat("\u0301", 6), cut},
	} {
		if got := TruncateCharacters(tt.text, 5, cut); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	piled := "a" + strings.Repeat("\u0301", 20000)
	if got := TruncateCharacters(piled, 10000, cut); utf8.RuneCountInString(got) != 10000+utf8.RuneCountInString(cut) {
		t.Errorf("piled marks leave %d characters", utf8.RuneCountInString(got))
	}
}

// kept is what a writer should keep.
func kept(all []byte, limit int) (head, tail []byte) {
	head = all[:min(len(all), limit-limit/2)]
	rest := all[len(head):]
	return head, rest[len(rest)-min(len(rest), limit/2):]
}

// TestHeadTail writes every length around every small bound in
// pieces of every size, so that the ring wraps in all alignments.
func TestHeadTail(t *testing.T) {
	source := []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	for limit := 1; limit <= 9; limit++ {
		for total := range 3*limit + 4 {
			for piece := 1; piece <= total+1; piece++ {
				c := &HeadTail{Max: limit}
				for p := source[:total]; len(p) > 0; p = p[min(piece, len(p)):] {
					if n, err := c.Write(p[:min(piece, len(p))]); n != min(piece, len(p)) || err != nil {
						t.Fatalf("Write = %d, %v", n, err)
					}
				}
				checkHeadTail(t, c, source[:total], fmt.Sprintf("limit %d, total %d, pieces of %d", limit, total, piece))
			}
		}
	}
}

func TestHeadTailOfRandomPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		c := &HeadTail{Max: 1 + r.IntN(64)}
		var all []byte
		for range r.IntN(20) {
			p := make([]byte, r.IntN(40))
			for i := range p {
				p[i] = byte('a' + r.IntN(26))
			}
			all = append(all, p...)
			_, _ = c.Write(p)
		}
		checkHeadTail(t, c, all, fmt.Sprintf("limit %d, total %d", c.Max, len(all)))
	}
}

func checkHeadTail(t *testing.T, c *HeadTail, all []byte, what string) {
	t.Helper()
	head, tail := kept(all, c.Max)
	if got := c.Bytes(); !bytes.Equal(got, append(bytes.Clone(head), tail...)) {
		t.Fatalf("%s: kept %q, want %q and %q", what, got, head, tail)
	}
	if c.Total() != int64(len(all)) || c.Truncated() != (len(all) > c.Max) {
		t.Fatalf("%s: total %d, truncated %v", what, c.Total(), c.Truncated())
	}
}

// TestCuts cuts every text at every place, in its bytes and in its characters.
func TestCuts(t *testing.T) {
	for _, s := range []string{"", "a", "abc", "aé", "日本語", "👩‍👧", "a\nbc\né"} {
		for n := range len(s) + 2 {
			prefix, tail := Prefix(s, n), Tail(s, n)
			if !strings.HasPrefix(s, prefix) || !strings.HasSuffix(s, tail) || max(len(prefix), len(tail)) > n || !utf8.ValidString(prefix) || !utf8.ValidString(tail) {
				t.Errorf("%q at %d: %q and %q", s, n, prefix, tail)
			}
			if got := Truncate(s, n); n < len(s) && got != prefix+"…" || n >= len(s) && got != s {
				t.Errorf("%q at %d is cut to %q", s, n, got)
			}
			if count := utf8.RuneCountInString(s); n < count {
				middle := CutMiddle(s, n, "|")
				if utf8.RuneCountInString(middle) != n+1 || strings.Contains(Strip(middle), "\uFFFD") {
					t.Errorf("%q is cut to %q, want %d characters", s, middle, n)
				}
			}
		}
	}
	if got := Tail("one\ntwo three", 12); got != "two three" {
		t.Errorf("%q does not begin with a line", got)
	}
}

func TestHead(t *testing.T) {
	h := &Head{Max: 4}
	for _, s := range []string{"ab", "cd", ""} {
		if n, err := h.Write([]byte(s)); n != len(s) || err != nil || h.Truncated {
			t.Errorf("after %q: %d, %v, %v", s, n, err, h.Truncated)
		}
	}
	if n, err := h.Write([]byte("ef")); n != 2 || err != nil || h.String() != "abcd" || !h.Truncated {
		t.Errorf("%d, %v, %q, %v", n, err, h.String(), h.Truncated)
	}
}

// TestBoundsOfCopies copies to the writers as package os/exec does with what a program prints: a
// writer with a method ReadFrom would keep all of it.
func TestBoundsOfCopies(t *testing.T) {
	head, both := &Head{Max: 4}, &HeadTail{Max: 4}
	for _, w := range []io.Writer{head, both} {
		if _, err := io.Copy(w, io.LimitReader(zeros{}, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if len(head.Bytes()) != 4 || !head.Truncated || len(both.Bytes()) != 4 || !both.Truncated() {
		t.Errorf("%d and %d bytes are kept", len(head.Bytes()), len(both.Bytes()))
	}
}

// zeros is a reader without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
