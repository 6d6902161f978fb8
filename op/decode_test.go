package op

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/policy"
)

type strictInput struct {
	Inner struct {
		List  []struct{ Name string } `json:"list,omitempty"`
		Small int8                    `json:"small,omitempty"`
	} `json:"inner"`
	Map   map[string]int  `json:"map,omitempty"`
	Size  *policy.Size    `json:"size,omitempty"`
	Any   any             `json:"any,omitempty"`
	Span  policy.Duration `json:"span,omitempty"`
	Short string          `json:"short,omitempty" min:"2" max:"4"`
	Few   []string        `json:"few,omitempty" max:"2"`
	Count int             `json:"count,omitempty" min:"1" max:"5"`
	Rate  float64         `json:"rate,omitempty" max:"1"`
	Bytes []byte          `json:"bytes,omitempty"`
	Raw   json.RawMessage `json:"raw,omitempty"`
	Path  osstring.String `json:"path,omitempty" max:"9"`
	Argv  osstring.List   `json:"argv,omitempty"`
	Env   Variables       `json:"env,omitempty"`
}

func TestDecode(t *testing.T) {
	tests := []struct{ name, input, wantErr string }{
		{"all of it", `{"inner":{"list":[{"Name":"x"}],"small":-128},"map":{"a b":1},"size":"1MiB","any":[null,{"x":1.5}],"short":"ab","few":["",""],"count":5,"rate":1,"bytes":"YQ==","raw":null}`, ""},
		{"a number of bytes", `{"size":512}`, ""},
		{"a pair of escapes", `{"any":"\ud83d\ude00 \\ud83d \u00e9"}`, ""},
		{"other letters", `{"Short":"ab"}`, `unknown field "Short": it is written "short"`},
		{"a field deep down", `{"inner":{"list":[{"Name":""},{"name":"x"}]}}`, `unknown field "inner.list[1].name": it is written "Name"`},
		{"twice", `{"count":1,"count":2}`, "the field count is given twice"},
		{"twice, escaped", `{"count":1,"\u0063ount":2}`, "the field count is given twice"},
		{"twice in anything", `{"any":[{"a":1,"a":1}]}`, "the field any[0].a is given twice"},
		{"twice in a map", `{"map":{"a b":1,"a b":1}}`, `the field map."a b" is given twice`},
		{"null in a list", `{"few":[null]}`, "few[0] must not be a JSON null"},
		{"null in a map", `{"map":{"a":null}}`, "map.a must not be a JSON null"},
		{"null, twice", `{"count":null,"count":1}`, "the field count is given twice"},
		{"null for the whole", `null`, "it must be an object, not a JSON null"},
		{"null for a field that is unknown", `{"other":null}`, `unknown field "other"`},
		{"a list for a notation", `{"size":[1]}`, "size must not be a JSON array"},
		{"a wrong notation", `{"size":"1M"}`, `cannot use size "1M": unit "M" is ambiguous`},
		{"a time without its unit", `{"span":30}`, `span must be a string with a unit, such as "30s"`},
		{"half a byte", `{"size":0.5}`, `cannot use size "0.5": a byte cannot be divided`},
		{"a wrong type deep down", `{"inner":{"list":[{"Name":1}]}}`, "inner.list[0].Name must not be a JSON number"},
		{"too large", `{"inner":{"small":128}}`, "inner.small must be a whole number from -128 to 127"},
		{"a fraction", `{"count":1.5}`, "count must be a whole number from -9223372036854775808 to 9223372036854775807"},
		{"a bool", `{"map":{"a":true}}`, "map.a must not be a JSON bool"},
		{"below the bound", `{"count":0}`, "count must be 1 at least"},
		{"above the bound", `{"rate":1.01}`, "rate must be 1 at most"},
		{"no number", `{"rate":1e999}`, "rate is too large a number"},
		{"too short", `{"short":"a"}`, "short must have at least 2 bytes"},
		{"too long", `{"short":"éée"}`, "short must have at most 4 bytes"},
		{"too many", `{"few":["","",""]}`, "few must have at most 2 elements"},
		{"no base64", `{"bytes":"?"}`, "bytes must be written in base64"},
		{"a list of bytes", `{"bytes":[1]}`, "bytes must not be a JSON array"},
		{"bad bytes", "{\"short\":\"\xff\"}", "it is not valid UTF-8"},
		{"half a character", `{"any":"\ud83d"}`, "an escape in it is half of a character"},
		{"the other half", `{"any":"\ude00"}`, "an escape in it is half of a character"},
		{"two first halves", `{"any":"\ud83d\ud83d"}`, "an escape in it is half of a character"},
		{"bytes in paths", `{"path":"caf\udce9","argv":["\udcff",""],"env":{"A":"\udc80"}}`, ""},
		{"bytes in variables as a list", `{"env":["A=\udc80"]}`, ""},
		{"bytes in the name of a variable", `{"env":{"A\udc80":""}}`, "an escape in it is half of a character"},
		{"bytes in a text", `{"short":"ab\udce9"}`, "an escape in it is half of a character"},
		{"bytes after a path", `{"path":"a","any":"\udce9"}`, "an escape in it is half of a character"},
		{"no byte", `{"path":"\udc7f"}`, "an escape in it is half of a character"},
		{"half a character in a path", `{"argv":["\ud83d"]}`, "an escape in it is half of a character"},
		{"a path that is too long", `{"path":"0123456789"}`, "path must have at most 9 bytes"},
		{"a number for a path", `{"path":1}`, "path must not be a JSON number"},
		{"a number in arguments", `{"argv":[1]}`, "argv[0] must not be a JSON number"},
		{"deep", `{"any":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, "it is nested deeper than 32"},
		{"many", `{"any":[` + strings.Repeat("1,", 1<<18) + `1]}`, "it holds more than 262144 values"},
		{"no JSON", `{"any":tru}`, "invalid character '}' in literal true (expecting 'e')"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var in strictInput
			err := decode("x", []byte(tt.input), &in)
			want := "cannot read the input of x: " + tt.wantErr
			if tt.wantErr == "" && err != nil || tt.wantErr != "" && fmt.Sprint(err) != want {
				t.Errorf("error is %v, want %s", err, tt.wantErr)
			}
		})
	}
}

// TestDecodeNull: a field that is null is absent, wherever it stands and whatever its type.
func TestDecodeNull(t *testing.T) {
	type inner struct {
		Need string  `json:"need"`
		Size *string `json:"size,omitempty"`
	}
	type nullInput struct {
		Text  string          `json:"text,omitempty" min:"1"`
		Kind  string          `json:"kind,omitempty" choices:"a,b"`
		Size  *policy.Size    `json:"size,omitempty"`
		Span  policy.Duration `json:"span,omitempty"`
		List  []inner         `json:"list,omitempty"`
		Inner inner           `json:"inner,omitzero"`
		Map   map[string]int  `json:"map,omitempty"`
		Env   Variables       `json:"env,omitempty"`
		Count int             `json:"count,omitempty" min:"1"`
		Yes   *bool           `json:"yes,omitempty"`
		Any   any             `json:"any,omitempty"`
		Raw   json.RawMessage `json:"raw,omitempty"`
		Bytes []byte          `json:"bytes,omitempty"`
	}
	for input, same := range map[string]string{
		`{"text":null}`: `{}`,
		`{"text":null,"kind":null,"size":null,"span":null,"list":null,"inner":null,"map":null,"env":null,"count":null,"yes":null,"any":null,"raw":null,"bytes":null}`: `{}`,
		` { "text" : null , "count" : 1 } `:                                       `{"count":1}`,
		`{"count":1,"text":null}`:                                                 `{"count":1}`,
		"{\"count\":1 ,\n\"text\":null\n,\t\"kind\":\"a\",\"yes\":null}":          `{"count":1,"kind":"a"}`,
		`{"text":null,"kind":null,"count":1,"span":null,"yes":false}`:             `{"count":1,"yes":false}`,
		`{"list":[{"size":null,"need":"x"},{"need":"y","size":null}],"raw":null}`: `{"list":[{"need":"x"},{"need":"y"}]}`,
		`{"any":{"a":null,"b":[null]},"raw":{"a":null}}`:                          `{"any":{"a":null,"b":[null]},"raw":{"a":null}}`,
		`{"inner":{"size":null,"need":"null,"},"text":"null"}`:                    `{"inner":{"need":"null,"},"text":"null"}`,
	} {
		var got, want nullInput
		if err := decode("x", []byte(input), &got); err != nil {
			t.Errorf("%s: %v", input, err)
		}
		if err := json.Unmarshal([]byte(same), &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, %s is %+v, %v", input, got, same, want, err)
		}
	}
	for input, want := range map[string]string{
		`{"list":[{"need":null}]}`:             "cannot use list[0].need: it is missing",
		`{"inner":{"need":null}}`:              "cannot use inner.need: it is missing",
		`{"text":null,"kind":"c"}`:             `cannot use kind "c": it must be "a" or "b"`,
		`{"text":null,}`:                       "cannot read the input of x: invalid character '}' looking for beginning of object key string",
		`{"text":null`:                         "cannot read the input of x: the JSON object is not complete",
		`{"text":nul}`:                         "cannot read the input of x: invalid character '}' in literal null (expecting 'l')",
		`{"text":null "count":1}`:              "cannot read the input of x: invalid character '\"' after object key:value pair",
		`{"text":null,"count":2,"count":null}`: "cannot read the input of x: the field count is given twice",
	} {
		if err := decode("x", []byte(input), new(nullInput)); fmt.Sprint(err) != want {
			t.Errorf("%s: %v\nwant %s", input, err, want)
		}
	}
}

// FuzzDecode: what is read is read the same way again once it was written.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"inner":{"list":[{"Name":"x"}],"small":1},"size":"1MiB","any":{"a":[1,null]}}`))
	f.Add([]byte(`{"any":"\ud83d\ude00"}`))
	f.Add([]byte(`{"short":null, "inner" : {"small":null,"list":[{"Name":null},{"Name":"x"}]},"count":1 , "map":null,"size":null}`))
	f.Fuzz(func(t *testing.T, input []byte) {
		var in, again strictInput
		if decode("x", input, &in) != nil {
			return
		}
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(input, &again); err != nil {
			t.Fatal(err)
		}
		if other, _ := json.Marshal(again); string(other) != string(text) {
			t.Errorf("%s was read as %s", input, text)
		}
	})
}
