package core

import "testing"

func TestPyRepr(t *testing.T) {
	for in, want := range map[string]string{
		"a": `'a'`, "it's": `"it's"`, `a"b`: `'a"b'`, `'"`: `'\'"'`, "\\\n\t\r": `'\\\n\t\r'`, "\x00\x7f": `'\x00\x7f'`, "é 😀": `'é 😀'`, "\u2028": `'\u2028'`,
	} {
		if got := PyRepr(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
