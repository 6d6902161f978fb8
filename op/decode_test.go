package op

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

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
		{"null", `{"short":null}`, "short must not be a JSON null"},
		{"null for a notation", `{"size":null}`, "size must not be a JSON null"},
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

// FuzzDecode: what is read is read the same way again once it was written.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"inner":{"list":[{"Name":"x"}],"small":1},"size":"1MiB","any":{"a":[1,null]}}`))
	f.Add([]byte(`{"any":"\ud83d\ude00"}`))
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
