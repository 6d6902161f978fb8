package osstring

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"
)

func TestString(t *testing.T) {
	for path, want := range map[String]string{
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
		var back String
		if err := json.Unmarshal(text, &back); err != nil || back != path {
			t.Errorf("%s is %q, %v", text, back, err)
		}
	}
	for text, want := range map[string]String{
		`"\ud83d\ude00\udc80"`: "😀\x80",
		`"\\udcff"`:            `\udcff`,
		`"\u00e9\uDCFF"`:       "é\xff",
		`"\ud800\udcff"`:       "\U000100ff",
		`"\udc00"`:             "�",
	} {
		var got String
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{`5`, `["x"]`, `{}`} {
		if err := json.Unmarshal([]byte(text), new(String)); err == nil {
			t.Errorf("%s is a string", text)
		}
	}
}

func FuzzString(f *testing.F) {
	f.Add("a\xff\\udcff\"")
	f.Fuzz(func(t *testing.T, s string) {
		text, err := json.Marshal(String(s))
		if err != nil {
			t.Fatal(err)
		}
		var back String
		if err := json.Unmarshal(text, &back); err != nil || string(back) != s {
			t.Fatalf("%q became %s and %q, %v", s, text, back, err)
		}
	})
}

func TestCollections(t *testing.T) {
	for want, v := range map[string]any{
		`{"list":null,"map":null}`: struct {
			List List `json:"list"`
			Map  Map  `json:"map"`
		}{},
		`{"list":[],"map":{}}`: struct {
			List List `json:"list"`
			Map  Map  `json:"map"`
		}{List{}, Map{}},
		`{"list":["ls","caf\udce9","\udcff","é"],"map":{"A\udcff":"","B":"\udce9\n","C":"😀"}}`: struct {
			List List `json:"list"`
			Map  Map  `json:"map"`
		}{List{"ls", "caf\xe9", "\xff", "é"}, Map{"A\xff": "", "B": "\xe9\n", "C": "😀"}},
	} {
		text, err := json.Marshal(v)
		if err != nil || string(text) != want {
			t.Errorf("%+v is %s, %v; want %s", v, text, err, want)
		}
		back := reflect.New(reflect.TypeOf(v))
		if err := json.Unmarshal(text, back.Interface()); err != nil || !reflect.DeepEqual(back.Elem().Interface(), v) {
			t.Errorf("%s is %+v, %v; want %+v", text, back.Elem(), err, v)
		}
	}
	for _, text := range []string{`5`, `"\u0041"`, `[5]`, `{"\u0041":5}`, `["\u0041",5]`, `{"a":["\u0041"]}`, `[["\u0041"]]`} {
		if err := json.Unmarshal([]byte(text), new(List)); err == nil {
			t.Errorf("%s is a list", text)
		}
		if err := json.Unmarshal([]byte(text), new(Map)); err == nil {
			t.Errorf("%s is an environment", text)
		}
	}
}

func FuzzMap(f *testing.F) {
	f.Add("a\xff", "\\udcff\"", "é")
	f.Fuzz(func(t *testing.T, name, value, other string) {
		m := Map{name: value, other: other}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var back Map
		if err := json.Unmarshal(text, &back); err != nil || !maps.Equal(m, back) {
			t.Fatalf("%q became %s and %q, %v", m, text, back, err)
		}
	})
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":"é"}`: `{"a":"é"}`,
		`{"a\udc80":["\udcff\\udcff","\ud83d\udcaf"],"b":"\uDC00"}`: `{"a\ufffd":["\ufffd\\udcff","\ud83d\udcaf"],"b":"\uDC00"}`,
	} {
		if got := Plain([]byte(text)); string(got) != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}
