package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLooseRequest(t *testing.T) {
	seconds := func(s float64) *float64 { return &s }
	tests := []struct {
		name, line string
		want       ExecRequest
	}{
		{"nulls", `{"env":null,"timeout_seconds":null}`, ExecRequest{}},
		{"an empty env", `{"env":{}}`, ExecRequest{Env: map[string]string{}}},
		{
			"values of every kind",
			`{"env":{"S":"x","N":-1.50,"T":true,"F":false}}`,
			ExecRequest{Env: map[string]string{"S": "x", "N": "-1.50", "T": "True", "F": "False"}},
		},
		{"a number as a string", `{"timeout_seconds":"30"}`, ExecRequest{TimeoutSeconds: seconds(30)}},
		{"a number", `{"timeout_seconds":2.5}`, ExecRequest{TimeoutSeconds: seconds(2.5)}},
		{"a negative number, for the agent to refuse", `{"timeout_seconds":-1}`, ExecRequest{TimeoutSeconds: seconds(-1)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got ExecRequest
			if err := DecodeRequest([]byte(tt.line), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestLooseRequestErrors(t *testing.T) {
	for line, want := range map[string]string{
		`{"env":{"A":null}}`:              "a value of exec env must be a string",
		`{"env":{"A":[]}}`:                "a value of exec env must be a string",
		`{"env":"A=1"}`:                   "exec env must be a JSON object",
		`{"timeout_seconds":"soon"}`:      "timeout_seconds must be a number",
		`{"timeout_seconds":""}`:          "timeout_seconds must be a number",
		`{"timeout_seconds":"NaN"}`:       "timeout_seconds must be a number",
		`{"timeout_seconds":"Infinity"}`:  "timeout_seconds must be a number",
		`{"timeout_seconds":"0x10"}`:      "timeout_seconds must be a number",
		`{"timeout_seconds":"null"}`:      "timeout_seconds must be a number",
		`{"timeout_seconds":1e999}`:       "timeout_seconds must be a number",
		`{"timeout_seconds":{"s":1}}`:     "timeout_seconds must be a number",
		`{"timeout_seconds":"\"5\""}`:     "timeout_seconds must be a number",
		`{"timeout_seconds":true}`:        "timeout_seconds must be a number",
		`{"timeout_seconds":"1","tty":5}`: "tty must be a JSON object",
	} {
		err := DecodeRequest([]byte(line), new(ExecRequest))
		wantError(t, err, CodeBadRequest, want)
	}
}
