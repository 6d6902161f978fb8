package codex

import (
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
		{nil, "", "must not be null"},
		{[]any{nil}, "", "must not be null"},
		{math.NaN(), "", "cannot render it: json: unsupported value: NaN"},
		{func() {}, "", "cannot render it: json: unsupported type: func()"},
		{deep(8), strings.Repeat("[", 8) + "1" + strings.Repeat("]", 8), ""},
		{deep(9), "", "must not be nested deeper than 8 levels"},
	} {
		got, err := renderValue(tt.value)
		if errText(err) != tt.err || err == nil && got != tt.want {
			t.Errorf("%v: got %s, %q; want %s, %q", tt.value, got, errText(err), tt.want, tt.err)
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
