package wire

import (
	"encoding/json"
	"testing"
)

func TestPath(t *testing.T) {
	for path, want := range map[Path]string{
		"":                     `""`,
		"/a b/é<&>":            `"/a b/é<&>"`,
		"caf\xe9":              `"caf\udce9"`,
		"\xff\xfe/x\n\"\\":     `"\udcff\udcfe/x\n\"\\"`,
		"\u2028\ufffd\xf0\x9f": `"\u2028�\udcf0\udc9f"`,
	} {
		text, err := json.Marshal(path)
		if err != nil {
			t.Errorf("%q: %v", path, err)
		}
		if got := string(text); got != want && path != "/a b/é<&>" { // package json escapes what matters in HTML
			t.Errorf("%q is %s, want %s", path, got, want)
		}
		var back Path
		if err := json.Unmarshal(text, &back); err != nil || back != path {
			t.Errorf("%s is %q, %v", text, back, err)
		}
	}
	for text, want := range map[string]Path{
		`"\ud83d\ude00\udc80"`: "😀\x80",
		`"\\udcff"`:            `\udcff`,
		`"\u00e9\uDCFF"`:       "é\xff",
		`"\ud800\udcff"`:       "\U000100ff",
		`"\udc00"`:             "�",
	} {
		var got Path
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{`5`, `["x"]`, `{}`} {
		if err := json.Unmarshal([]byte(text), new(Path)); err == nil {
			t.Errorf("%s is a path", text)
		}
	}
}

func FuzzPath(f *testing.F) {
	f.Add("a\xff\\udcff\"")
	f.Fuzz(func(t *testing.T, s string) {
		text, err := json.Marshal(Path(s))
		if err != nil {
			t.Fatal(err)
		}
		var back Path
		if err := json.Unmarshal(text, &back); err != nil || string(back) != s {
			t.Fatalf("%q became %s and %q, %v", s, text, back, err)
		}
	})
}
