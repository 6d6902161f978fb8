package wire

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
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

// What other clients write is read as they mean it, with the defaults of
// what they do not write.
func TestLooseFields(t *testing.T) {
	cut := int64(3)
	for line, want := range map[string]any{
		`{}`: &ReadShellRequest{MaxChars: 65536},
		`{"cursor":"12","max_chars":2.9,"shell_id":7}`:              &ReadShellRequest{ShellID: "7", Cursor: 12, MaxChars: 2},
		`{"cursor":" +5 ","max_chars":null,"shell_id":true}`:        &ReadShellRequest{ShellID: "True", Cursor: 5, MaxChars: 65536},
		`{"path":"x","recursive":"false"}`:                          &ListRequest{Path: "x", Recursive: true},
		`{"path":"x","recursive":0}`:                                &ListRequest{Path: "x"},
		`{"recursive":[]}`:                                          &ListRequest{Path: "/workspace"},
		`{"service_name":"a","tail_lines":"3"}`:                     &LogsServiceRequest{ServiceName: "a", TailLines: &cut},
		`{"shell_id":"a","redact_values":[1,"b",true],"cols":"80"}`: &OpenShellRequest{ShellID: "a", Cwd: "/workspace", Cols: 80, Rows: 30, RedactValues: []string{"1", "b", "True"}},
		`{"archive_size":"1_000"}`:                                  &ExtractRequest{ArchiveSize: 1000, Destination: "/workspace"},
		`{"archive_size":-0.5}`:                                     &ExtractRequest{Destination: "/workspace"},
	} {
		got := reflect.New(reflect.TypeOf(want).Elem()).Interface()
		if err := DecodeRequest([]byte(line), got); err != nil {
			t.Errorf("%s: %v", line, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
	for line, want := range map[string]struct {
		request any
		text    string
	}{
		`{"archive_size":1e999}`:       {new(ExtractRequest), "archive_size must be a whole number"},
		`{"archive_size":"3.0"}`:       {new(ExtractRequest), "archive_size must be a whole number"},
		`{"archive_size":"soon"}`:      {new(ExtractRequest), "archive_size must be a whole number"},
		`{"redact_values":"x"}`:        {new(OpenShellRequest), "redact_values must be a list"},
		`{"env":[]}`:                   {new(OpenShellRequest), "shell env must be a JSON object"},
		`{"env":5,"service_name":"x"}`: {new(StartServiceRequest), "service env must be a JSON object"},
		`{"cols":{}}`:                  {new(OpenShellRequest), "cols must be a whole number"},
		`{"shell_id":{}}`:              {new(OpenShellRequest), "shell_id must be a string"},
	} {
		wantError(t, DecodeRequest([]byte(line), want.request), CodeBadRequest, want.text)
	}
}

// A field that is null is absent, in every request.
func TestNullIsAbsent(t *testing.T) {
	for _, request := range []any{
		new(ExecIDRequest), new(ReadExecRequest), new(SignalExecRequest), new(ListExecsRequest),
		new(ConnectRequest), new(ExecRequest), new(ListRequest), new(ReadWorkspaceFileRequest),
		new(WriteWorkspaceFileRequest), new(DeleteRequest), new(ReadFileRequest), new(WriteFileRequest),
		new(StatRequest), new(MkdirRequest), new(MoveRequest), new(ExtractRequest),
		new(InstallSecretsRequest), new(ExportRequest), new(SearchRequest), new(SetSecretsRequest),
		new(ListSecretsRequest), new(DeleteSecretsRequest), new(RedactTextsRequest), new(StartServiceRequest),
		new(ServiceRequest), new(LogsServiceRequest), new(ReadServiceRequest), new(ListServicesRequest),
		new(OpenSessionRequest), new(RunSessionRequest), new(SessionRequest), new(ListSessionsRequest),
		new(OpenShellRequest), new(ShellRequest), new(ReadShellRequest), new(WriteShellRequest),
		new(SignalShellRequest), new(ResizeShellRequest), new(ListShellsRequest), new(UsageRequest),
		new(SignalRequest), new(KillRequest), new(ShutdownRequest), new(HelloRequest),
	} {
		kind := reflect.TypeOf(request).Elem()
		fields := map[string]any{"action": nil, "keep_alive": nil, "token": nil}
		for i := range kind.NumField() {
			if name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ","); name != "" {
				fields[name] = nil
			}
		}
		line, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		absent := reflect.New(kind).Interface()
		if err := errors.Join(DecodeRequest([]byte("{}"), absent), DecodeRequest(line, request)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if q, ok := request.(*StartServiceRequest); ok && string(q.Readiness) == "null" {
			q.Readiness = nil // which is any JSON
		}
		if diff := cmp.Diff(absent, request); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

func TestLooseRequestErrors(t *testing.T) {
	for line, want := range map[string]string{
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
		`{"timeout_seconds":"1","tty":5}`: "tty must be a JSON object",
	} {
		err := DecodeRequest([]byte(line), new(ExecRequest))
		wantError(t, err, CodeBadRequest, want)
	}
}

// A field is its exact name: other readers of the protocol see it so.
func TestKeysAreExact(t *testing.T) {
	for line, want := range map[string]ExecRequest{
		`{"command":"x","Command":"y","ENV":{"A":"1"}}`: {Command: "x"},
		`{"COMMAND":"y"}`:      {},
		`{"comm\u0061nd":"x"}`: {Command: "x"},
		`{"\u0043ommand":"y","command":"a\\","stdin":"\"Q\"{,"}`: {Command: `a\`, Stdin: `"Q"{,`},
		`{"env":{"Command":"y","X":"\\\""},"command":"x"}`:       {Command: "x", Env: map[string]string{"Command": "y", "X": `\"`}},
		"{\"command\":\"x\",\"ſtdin\":\"y\"}":                    {Command: "x"}, // a long s folds to s
	} {
		var got ExecRequest
		if err := DecodeRequest([]byte(line), &got); err != nil {
			t.Errorf("%s: %v", line, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}
