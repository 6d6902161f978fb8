package redact

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func mustSet(t testing.TB, values ...string) *Set {
	t.Helper()
	s, err := NewSet(values)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// R stands for the placeholder.
func short(text string) string { return strings.ReplaceAll(text, Placeholder, "R") }

func TestText(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []string
		text   string
		want   string
	}{
		{"nothing to look for", nil, "abc", "abc"},
		{"empty values", []string{"", ""}, "abc", "abc"},
		{"one", []string{"secret"}, "a secret, secret!", "a R, R!"},
		{"not there", []string{"secret"}, "a secre", "a secre"},
		{"longest first", []string{"ab", "abc"}, "abcab", "RR"},
		{"one within another", []string{"b", "abc"}, "abc b ab", "R R aR"},
		{"over itself", []string{"aa"}, "a aa aaa aaaa", "a R Ra RR"},
		{"over itself, longer", []string{"abab"}, "ababab", "Rab"},
		{"two that overlap", []string{"abc", "cde"}, "abcde.cde", "R.R"},
		{"a chain that overlaps", []string{"ab", "ba"}, "xababababx", "xRx"},
		{"a shorter one where the longer does not fit", []string{"aa", "a"}, "aaa", "RR"},
		{"begins like another", []string{"abcd", "bcx"}, "abcx", "aR"},
		{"lines on a terminal", []string{"one\ntwo"}, "one\ntwo one\r\ntwo", "R R"},
		{"bytes that are no text", []string{"\xff\x00"}, "a\xff\x00b\xff", "aRb\xff"},
		{"the placeholder itself", []string{"[REDACTED]"}, "[REDACTED]x", "Rx"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set := mustSet(t, tt.values...)
			if got := short(set.Text(tt.text)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if got := short(pieces(t, set, tt.text, 1)); got != tt.want {
				t.Errorf("byte by byte: got %q, want %q", got, tt.want)
			}
		})
	}
}

// pieces writes a text in pieces of n bytes.
func pieces(t testing.TB, set *Set, text string, n int) string {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(set, &out)
	for len(text) > 0 {
		k := min(n, len(text))
		if got, err := w.Write([]byte(text[:k])); got != k || err != nil {
			t.Fatalf("Write: %d, %v", got, err)
		}
		text = text[k:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// What cannot begin a value is passed on at once, and what may is not.
func TestHeldBack(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(mustSet(t, "secret", "creep"), &out)
	for _, step := range []struct{ in, want string }{
		{"a se", "a "}, {"cre", "a "}, {"e", "a se"}, {"x", "a secreex"}, {"sec", "a secreex"}, {"ret", "a secreex" + Placeholder},
	} {
		_, _ = w.Write([]byte(step.in))
		if out.String() != step.want {
			t.Fatalf("after %q: %q, want %q", step.in, out.String(), step.want)
		}
	}
}

func TestUse(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(nil, &out)
	_, _ = w.Write([]byte("first "))
	_ = w.Use(mustSet(t, "first"))
	_, _ = w.Write([]byte("first fir"))
	_ = w.Use(mustSet(t, "first", "second"))
	_, _ = w.Write([]byte("st second sec"))
	_ = w.Use(nil)
	_, _ = w.Write([]byte("ond"))
	_ = w.Close()
	if got, want := short(out.String()), "first R R R second"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBounds(t *testing.T) {
	for name, values := range map[string][]string{
		"too many":     make([]string, MaxValues+1),
		"too long":     {strings.Repeat("x", MaxValue+1)},
		"too much all": {strings.Repeat("a", MaxValue), strings.Repeat("b", MaxValue), strings.Repeat("c", MaxValue), strings.Repeat("d", MaxValue), strings.Repeat("e", MaxValue), strings.Repeat("f", MaxValue), "g"},
	} {
		if _, err := NewSet(values); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The worst text for the worst value takes no more than a few looks a byte.
func TestLinear(t *testing.T) {
	set := mustSet(t, strings.Repeat("a", MaxValue-1)+"b")
	text := strings.Repeat("a", 8<<20)
	began := time.Now()
	if got := pieces(t, set, text, 32<<10); got != text {
		t.Fatal("the text was changed")
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("%v for %d bytes", took, len(text))
	}
}

// reference replaces as the contract says, one value after the other.
func reference(values []string, text string) string {
	for _, v := range values { // longest first
		text = strings.ReplaceAll(text, v, "\x00")
	}
	return strings.ReplaceAll(text, "\x00", Placeholder)
}

// Values that cannot overlap are replaced as by one search after the other.
func TestAgainstReference(t *testing.T) {
	values := []string{"xaaax", "yby", "zz"}
	set := mustSet(t, values...)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var b strings.Builder
		for range rnd.IntN(40) {
			b.WriteString([]string{"xaaax", "yby", "z", "x", "a", "aa", "yb", "b", " "}[rnd.IntN(9)])
		}
		text := b.String()
		if strings.Contains(text, "xaaaxaaax") || strings.Contains(text, "ybyby") {
			continue // these do
		}
		if got, want := set.Text(text), reference(values, text); got != want {
			t.Fatalf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzWriter(f *testing.F) {
	f.Add("secret", "cret s", "a secret s ecret", 1)
	f.Add("ab", "ba", "ababab", 2)
	f.Add("aa", "a", "aaaaa", 3)
	f.Add("x\ny", "y\r", "x\r\ny\r", 1)
	f.Fuzz(func(t *testing.T, a, b, text string, n int) {
		set, err := NewSet([]string{a, b})
		if err != nil {
			return
		}
		whole := set.Text(text)
		if got := pieces(t, set, text, max(1, n%7)); got != whole {
			t.Fatalf("in pieces %q, whole %q", got, whole)
		}
		// Without placeholders nothing was replaced, so nothing was there.
		for _, v := range []string{a, b} {
			if v != "" && !strings.Contains(whole, Placeholder) && strings.Contains(text, v) {
				t.Fatalf("%q is left in %q", v, whole)
			}
		}
	})
}

func BenchmarkWriter(b *testing.B) {
	text := []byte(strings.Repeat("The quick brown fox jumps over the lazy dog. 0123456789\n", 1200))
	for name, values := range map[string][]string{
		"none":  nil,
		"three": {"sk-live-0123456789abcdef", "ghp_aaaaaaaaaaaaaaaa", "hunter2hunter2"},
	} {
		b.Run(name, func(b *testing.B) {
			set := mustSet(b, values...)
			w := NewWriter(set, discard{})
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, _ = w.Write(text)
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
