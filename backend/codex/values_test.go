package codex

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestValues(t *testing.T) {
	for _, tt := range []struct {
		value     any
		want, err string
	}{
		{"workspace-write", `"workspace-write"`, ""},
		{`a"b\c` + "\n\t\x01\x7f", `"a\"b\\c\n\t\u0001\u007f"`, ""},
		{"é ✓ 😀 </>", `"\u00e9 \u2713 \U0001f600 </>"`, ""},
		{"", `""`, ""},
		{true, "true", ""},
		{0, "0", ""},
		{-5, "-5", ""},
		{2.5, "2.5", ""},
		{float64(7), "7", ""},
		{1e30, "1e+30", ""},
		{uint64(math.MaxUint64), "", "the number 18446744073709551615 has more than 64 bits"},
		{[]any{}, "[]", ""},
		{[]string{"a", "b"}, `["a", "b"]`, ""},
		{map[string]any{"b": 1, "a b": []any{true}}, `{"a b" = [true], "b" = 1}`, ""},
		{map[string]any{}, "{}", ""},
		{nil, "", "the CLI's settings know no null"},
		{[]any{nil}, "", "the CLI's settings know no null"},
		{math.NaN(), "", "it cannot be written down: json: unsupported value: NaN"},
		{func() {}, "", "it cannot be written down: json: unsupported type: func()"},
		{deep(8), strings.Repeat("[", 8) + "1" + strings.Repeat("]", 8), ""},
		{deep(9), "", "it goes deeper than 8 levels"},
	} {
		got, err := renderValue(tt.value)
		if text(err) != tt.err || err == nil && got != tt.want {
			t.Errorf("%v: got %s, %q; want %s, %q", tt.value, got, text(err), tt.want, tt.err)
		}
	}
}

func deep(levels int) any {
	var v any = 1
	for range levels {
		v = []any{v}
	}
	return v
}

func TestKeys(t *testing.T) {
	const field = `cannot use codex.config_overrides`
	for _, tt := range []struct{ key, err string }{
		{"model", ""},
		{"a.b_c-D.9", ""},
		{"permissions.own.filesystem.:minimal", ""},
		{"", field + `."": the key is empty`},
		{"a=b", field + `."a=b": a key has no '='`},
		{"a..b", field + `."a..b": a part of the key is empty`},
		{".a", field + `.".a": a part of the key is empty`},
		{"a.", field + `."a.": a part of the key is empty`},
		{"a b", field + `."a b": a key has no ' '`},
		{"a\n", field + `."a\n": a key has no '\n'`},
		{`a."b"`, field + `."a.\"b\"": a key has no '"'`},
		{"é", field + `."é": a key has no 'é'`},
		{strings.Repeat("k", maxKey+1), field + "." + strings.Repeat("k", 0)},
	} {
		_, err := readOverrides(map[string]any{tt.key: 1})
		if tt.err == "" && err != nil || !strings.HasPrefix(text(err), tt.err) || tt.err != "" && err == nil {
			t.Errorf("%q: got %q, want %q", tt.key, text(err), tt.err)
		}
	}
}

func TestOverrideBounds(t *testing.T) {
	many := map[string]any{}
	for i := range maxOverrides + 1 {
		many[fmt.Sprint("k", i)] = i
	}
	for _, tt := range []struct {
		written map[string]any
		err     string
	}{
		{many, "cannot use codex.config_overrides: there are 65 of them, and 64 are the most"},
		{map[string]any{"a": strings.Repeat("x", maxValue-2)}, ""},
		{map[string]any{"a": strings.Repeat("x", maxValue-1)}, "cannot use codex.config_overrides.a: its value takes 4097 bytes, and 4096 are the most"},
	} {
		if _, err := readOverrides(tt.written); text(err) != tt.err {
			t.Errorf("got %q, want %q", text(err), tt.err)
		}
	}
}
