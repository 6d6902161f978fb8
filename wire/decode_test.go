package wire

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeRequest(t *testing.T) {
	var got ExecRequest
	line := `{"action":"exec","command":"a\u0000b","env":{"A":"1"},"timeout_seconds":1.5,"tty":null,"no_such_field":[1]}`
	if err := DecodeRequest([]byte(line), &got); err != nil {
		t.Fatal(err)
	}
	timeout := 1.5
	want := ExecRequest{Action: "exec", Command: "a\x00b", Env: map[string]string{"A": "1"}, TimeoutSeconds: &timeout}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestDecodeRequestErrors(t *testing.T) {
	const notObject = "request must be a JSON object"
	tests := []struct{ name, line, want, object string }{
		{name: "empty", line: "", want: "cannot read the request: the line is empty"},
		{name: "array", line: `[{"action":"exec"}]`, want: notObject},
		{name: "string", line: `"exec"`, want: notObject},
		{name: "number", line: `1`, want: notObject},
		{name: "null", line: `null`, want: notObject},
		{name: "half an object", line: `{"action":`, want: "cannot read the request: unexpected end of JSON input"},
		{name: "half a string", line: `"exe`, want: "cannot read the request: unexpected end of JSON input"},
		{name: "two objects", line: `{}{}`, want: "cannot read the request: invalid character '{'"},
		{name: "NUL bytes", line: "{}\x00", want: "cannot read the request: invalid character '\\x00'"},
		{name: "not UTF-8", line: "{\"command\":\"\xff\"}", want: "cannot read the request: it is not valid UTF-8"},
		{name: "very deep", line: strings.Repeat(`{"a":`, 20_000), want: "exceeded max depth"},
		{name: "env a list", line: `{"env":[]}`, want: "exec env must be a JSON object", object: "env"},
		{name: "argv a string", line: `{"argv":"ls"}`, want: "argv must be a list", object: "argv"},
		{name: "command a list", line: `{"command":["ls"]}`, want: "command must be a string", object: "command"},
		{name: "timeout a list", line: `{"timeout_seconds":[]}`, want: "timeout_seconds must be a number", object: "timeout_seconds"},
		{name: "output bound a text", line: `{"max_output_bytes":"many"}`, want: "max_output_bytes must be a whole number", object: "max_output_bytes"},
		{name: "negative limit", line: `{"limits":{"open_files":-1}}`, want: "limits.open_files must be a whole number, not negative", object: "limits.open_files"},
		{name: "rows out of range", line: `{"tty":{"rows":70000}}`, want: "tty.rows must be a whole number from 0 to 65535", object: "tty.rows"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := DecodeRequest([]byte(tt.line), new(ExecRequest))
			wantError(t, err, CodeBadRequest, tt.want)
			var e *Error
			if !errors.As(err, &e) || e.Object != tt.object {
				t.Errorf("got %+v, want the object %q", e, tt.object)
			}
		})
	}
}

// A line of many values is refused before it takes many times its memory.
func TestDecodeRequestOfManyValues(t *testing.T) {
	list := func(n int) []byte { return []byte(`{"argv":["` + strings.Repeat(`","`, n-1) + `"]}`) }
	var q ExecRequest
	if err := DecodeRequest(list(MaxValues), &q); err != nil || len(q.Argv) != MaxValues {
		t.Errorf("%d values: %d, %v", MaxValues, len(q.Argv), err)
	}
	used := allocated(func() {
		wantError(t, DecodeRequest(list(4*MaxValues), &q), CodeTooLarge, "more than 262144 values")
	})
	if limit := uint64(10 * len(list(4*MaxValues))); used > limit {
		t.Errorf("refusing it took %d bytes, want at most %d", used, limit)
	}
	text := `{"stdin":"` + strings.Repeat(",", 4*MaxValues) + `"}`
	if err := DecodeRequest([]byte(text), &q); err != nil {
		t.Errorf("commas in a text: %v", err)
	}
}

func TestHeadOf(t *testing.T) {
	for line, want := range map[string]string{
		`{}`:                            "exec",
		`{"action":null}`:               "exec",
		`{"action":"hello","x":[1,{}]}`: "hello",
		`{"action":""}`:                 "",
		`{"action":"no such"}`:          "no such",
	} {
		if got, err := HeadOf([]byte(line)); got.Action != want || err != nil {
			t.Errorf("HeadOf(%s) = %+v, %v; want %q", line, got, err, want)
		}
	}
	_, err := HeadOf([]byte(`{"action":[]}`))
	wantError(t, err, CodeBadRequest, "action must be a string")
	_, err = HeadOf([]byte(`[]`))
	wantError(t, err, CodeBadRequest, "request must be a JSON object")
}

func TestDecodeAnswer(t *testing.T) {
	var got ExecResult
	line := `{"stdout":"\"error\"","exit_code":3,"denials":[{"layer":"mount","rule":"ro"}],"later":1}`
	if err := DecodeAnswer([]byte(line), &got); err != nil {
		t.Fatal(err)
	}
	want := ExecResult{Stdout: `"error"`, ExitCode: 3, Denials: Denials{{Layer: "mount", Rule: "ro"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestDecodeAnswerErrors(t *testing.T) {
	tests := []struct {
		name, line string
		want       Error
	}{
		{
			name: "an error",
			line: `{"error":"cannot start x: no such file","code":"not_found","object":"x","hint":"look","errno":2}`,
			want: Error{Message: "cannot start x: no such file", Code: CodeNotFound, Object: "x", Hint: "look", Errno: 2},
		},
		{name: "only the message", line: `{"error":"m"}`, want: Error{Message: "m", Code: CodeInternal}},
		{name: "an empty message", line: `{"error":""}`, want: Error{Code: CodeInternal}},
		{name: "an unknown code", line: `{"error":"m","code":"later"}`, want: Error{Message: "m", Code: CodeInternal}},
		{
			name: "wrong types beside the message",
			line: `{"code":7,"errno":"x","hint":[],"error":"m","object":"o"}`,
			want: Error{Message: "m", Code: CodeInternal, Object: "o"},
		},
		{name: "a negative errno", line: `{"error":"m","code":"busy","errno":-5}`, want: Error{Message: "m", Code: CodeBusy}},
		{
			name: "escape sequences",
			line: `{"error":"a\u001b[2J\nb","code":"busy","hint":"\u202ex"}`,
			want: Error{Message: "a\ufffd[2J\ufffdb", Code: CodeBusy, Hint: "\ufffdx"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := DecodeAnswer([]byte(tt.line), new(ExecResult))
			if diff := cmp.Diff(error(&tt.want), err); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestDecodeAnswerThatIsNone(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"empty", ``, "it is not a JSON object"},
		{"text", `hello`, "it is not a JSON object"},
		{"array", `[]`, "it is not a JSON object"},
		{"null", `null`, "it is not a JSON object"},
		{"half an object", `{"stdout":"x`, "unexpected end"},
		{"wrong type", `{"exit_code":"0"}`, "exit_code"},
		{"overflow", `{"duration_ms":99999999999999999999}`, "duration_ms"},
		{"error a number", `{"error":5}`, "its error is not a string"},
		{"error null", `{"error":null}`, "its error is not a string"},
		{"denials an object", `{"denials":{}}`, "denials must be a list"},
		{"too many denials", `{"denials":[{}` + strings.Repeat(",{}", MaxDenials) + `]}`, "more than 1024 denials"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := DecodeAnswer([]byte(tt.line), new(ExecResult))
			wantError(t, err, CodeInternal, "cannot read the agent's answer: ")
			wantError(t, err, CodeInternal, tt.want)
		})
	}
}

func TestErrorTextIsBounded(t *testing.T) {
	line, _ := json.Marshal(Error{Message: strings.Repeat("é", 1<<20)})
	err := DecodeAnswer(line, new(ExecResult))
	if n := len(err.Error()); n != 2*maxText {
		t.Fatalf("message of %d bytes, want %d", n, 2*maxText)
	}
}

// A short denial takes many times its length in memory, so that a line within
// the bound could take half a gigabyte.
func TestDenialsDoNotAmplify(t *testing.T) {
	line := []byte(`{"denials":[{}` + strings.Repeat(",{}", 1<<20) + `]}`)
	used := allocated(func() { _ = DecodeAnswer(line, new(ExecResult)) })
	if used > uint64(4*len(line)) {
		t.Fatalf("decoding %d bytes allocated %d", len(line), used)
	}
}

func TestDecodeControl(t *testing.T) {
	got, err := DecodeControl([]byte(`{"type":"resize","rows":24,"cols":80}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Control{Type: "resize", Rows: 24, Cols: 80}); got != want {
		t.Fatalf("control %+v, want %+v", got, want)
	}
	for _, bad := range []string{``, `[]`, `null`, `{}`, `{"type":5}`, `{"type":"x"`, "\x00"} {
		c, err := DecodeControl([]byte(bad))
		wantError(t, err, CodeBadRequest, "cannot read the control frame: ")
		if c != (Control{}) {
			t.Errorf("%q is the control %+v", bad, c)
		}
	}
	// A request for something impossible is a valid control, too.
	for bad, want := range map[string]string{
		`{"type":"resize","rows":-1,"cols":1e9}`: "rows must be a whole number from 0 to 65535",
		`{"cols":65536,"type":"resize"}`:         "cols must be a whole number from 0 to 65535",
		`{"type":"signal","signal":9}`:           "signal must be a string",
	} {
		c, err := DecodeControl([]byte(bad))
		wantError(t, err, CodeBadRequest, want)
		if c.Type == "" || c.Rows != 0 || c.Cols != 0 {
			t.Errorf("%s is the control %+v", bad, c)
		}
	}
}

func TestTokenOf(t *testing.T) {
	tests := map[string]struct {
		line, want string
		found      bool
	}{
		"nothing":             {``, "", false},
		"alone":               {`{"token":"x"}`, "x", true},
		"in a line that ends": {` { "a" : [1,{"token":"y"}], "token" : "x" , "b":`, "x", true},
		"escapes":             {`{"token":"\u0061\"\\"`, `a"\`, true},
		"not whole":           {`{"token":"x`, "", false},
		"no colon":            {`{"token"`, "", false},
		"no text":             {`{"token":1,"token":"x"}`, "", false},
		"of another object":   {`{"a":{"token":"x"}}`, "", false},
		"a value":             {`{"a":"token","b":"x"}`, "", false},
		"in a text":           {`{"a":"\"token\":\"x\""}`, "", false},
		"another name":        {`{"Token":"x","token ":"x"}`, "", false},
		"of a list":           {`["token","x"]`, "", false},
	}
	for name, tt := range tests {
		if got, found := TokenOf([]byte(tt.line)); got != tt.want || found != tt.found {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, found, tt.want, tt.found)
		}
	}
}

// TokenOf finds the same token however the line continues.
func FuzzTokenOf(f *testing.F) {
	for _, seed := range []string{`{"token":"x"}`, `{"a":["token"],"token":"\u0061"}`, `{"token":`, `"token":"x"`, "\"\\"} {
		f.Add([]byte(seed), 5)
	}
	f.Fuzz(func(t *testing.T, line []byte, cut int) {
		whole, found := TokenOf(line)
		begun, early := TokenOf(line[:uint(cut)%uint(len(line)+1)])
		if early && (!found || begun != whole) {
			t.Fatalf("found %q at first, then %q, %v", begun, whole, found)
		}
	})
}
