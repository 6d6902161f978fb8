package text

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

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
			d := &Decoder{Dst: &out}
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

// TestJSONSize compares with what Go's encoders write.
func TestJSONSize(t *testing.T) {
	for r := range rune(0x3000) {
		checkJSONSize(t, "a"+string(r)+"b")
	}
	for _, s := range []string{"", "\xff", "a\xe2\x82", "\uFFFD", "😀"} {
		checkJSONSize(t, s)
	}
}

func checkJSONSize(t *testing.T, s string) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		t.Fatal(err)
	}
	if want := b.Len() - len("\"\"\n"); JSONSize(s) != want {
		t.Errorf("%q has size %d, want %d", s, JSONSize(s), want)
	}
	for room := range 12 {
		end := TailWithinJSON(s, room)
		if !strings.HasSuffix(s, end) || JSONSize(end) > room || room >= JSONSize(s) && end != s {
			t.Errorf("%q within %d is %q", s, room, end)
		}
	}
}

func TestPrefixWithin(t *testing.T) {
	for _, s := range []string{"", "abc", "<&>\"\\", "é\n\x00\u2028"} {
		for cost := range 24 {
			got := PrefixWithin(s, cost)
			if !strings.HasPrefix(s, got) || Cost(got) > cost || cost >= Cost(s) && got != s {
				t.Errorf("%q within %d is %q", s, cost, got)
			}
		}
	}
}
