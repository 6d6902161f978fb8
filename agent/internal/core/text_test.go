package core

import (
	"bytes"
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

func TestPyRepr(t *testing.T) {
	for in, want := range map[string]string{
		"a": `'a'`, "it's": `"it's"`, `a"b`: `'a"b'`, `'"`: `'\'"'`, "\\\n\t\r": `'\\\n\t\r'`, "\x00\x7f": `'\x00\x7f'`, "é 😀": `'é 😀'`, "\u2028": `'\u2028'`,
	} {
		if got := PyRepr(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
