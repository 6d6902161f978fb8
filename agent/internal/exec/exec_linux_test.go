package exec

import (
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/wire"
)

func seconds(n float64) *float64 { return &n }

func TestCheckExec(t *testing.T) {
	argv := []string{"true"}
	tests := map[string]struct {
		request wire.ExecRequest
		object  string // of the error; "" for none
		text    string
	}{
		"argv":                {wire.ExecRequest{Argv: argv}, "", ""},
		"command":             {wire.ExecRequest{Command: "true"}, "", ""},
		"an empty argument":   {wire.ExecRequest{Argv: []string{"echo", ""}}, "", ""},
		"both":                {wire.ExecRequest{Command: "true", Argv: argv}, "argv", "both command and argv are given"},
		"an empty name":       {wire.ExecRequest{Argv: []string{""}}, "argv", "its name is empty"},
		"NUL in argv":         {wire.ExecRequest{Argv: []string{"echo", "a\x00b"}}, "argv", "NUL"},
		"NUL in the command":  {wire.ExecRequest{Command: "a\x00b"}, "argv", "NUL"},
		"NUL in cwd":          {wire.ExecRequest{Argv: argv, Cwd: "a\x00b"}, "argv", "NUL"},
		"no timeout":          {wire.ExecRequest{Argv: argv, TimeoutSeconds: seconds(0)}, "", ""},
		"the longest timeout": {wire.ExecRequest{Argv: argv, TimeoutSeconds: seconds(math.MaxInt32)}, "", ""},
		"a negative timeout":  {wire.ExecRequest{Argv: argv, TimeoutSeconds: seconds(-1)}, "timeout_seconds", "from 0 to 2147483647"},
		"too long a timeout":  {wire.ExecRequest{Argv: argv, TimeoutSeconds: seconds(math.MaxInt32 + 1)}, "timeout_seconds", "from 0"},
		"no number":           {wire.ExecRequest{Argv: argv, TimeoutSeconds: seconds(math.NaN())}, "timeout_seconds", "from 0"},
		"negative output":     {wire.ExecRequest{Argv: argv, MaxOutputBytes: -1}, "max_output_bytes", "must not be negative"},
		"all the output":      {wire.ExecRequest{Argv: argv, MaxOutputBytes: MaxOutput}, "", ""},
		"too much output":     {wire.ExecRequest{Argv: argv, MaxOutputBytes: MaxOutput + 1}, "max_output_bytes", "at most 8388608"},
		"streamed output":     {wire.ExecRequest{Argv: argv, MaxOutputBytes: 1 << 40, Stream: true}, "", ""},
		"a terminal":          {wire.ExecRequest{Argv: argv, TTY: &wire.TTY{}, Stream: true}, "", ""},
		"an unseen terminal":  {wire.ExecRequest{Argv: argv, TTY: &wire.TTY{}}, "tty", "needs stream"},
		"stdin in frames":     {wire.ExecRequest{Argv: argv, Stdin: "x", Stream: true}, "stdin", "comes in frames"},
		"base64":              {wire.ExecRequest{Argv: argv, Encoding: "base64"}, "", ""},
		"another encoding":    {wire.ExecRequest{Argv: argv, Encoding: "hex"}, "encoding", `must be "base64"`},
		"= in a value":        {wire.ExecRequest{Argv: argv, Env: map[string]string{"A": "B=x"}}, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := checkExec(&tt.request)
			if tt.object == "" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			if err == nil || err.Code != wire.CodeBadRequest || err.Object != tt.object || !strings.Contains(err.Message, tt.text) {
				t.Errorf("got %+v, want bad_request about %s: %q", err, tt.object, tt.text)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	tests := map[string]struct {
		request wire.ExecRequest
		want    time.Duration
	}{
		"a command's own":     {wire.ExecRequest{Command: "true"}, 30 * time.Second},
		"a streamed command":  {wire.ExecRequest{Command: "true", Stream: true}, 0},
		"argv":                {wire.ExecRequest{Argv: []string{"true"}}, 0},
		"asked for":           {wire.ExecRequest{Command: "true", TimeoutSeconds: seconds(1.5)}, 1500 * time.Millisecond},
		"none asked for":      {wire.ExecRequest{Command: "true", TimeoutSeconds: seconds(0)}, 0},
		"the longest":         {wire.ExecRequest{TimeoutSeconds: seconds(math.MaxInt32)}, math.MaxInt32 * time.Second},
		"less than there are": {wire.ExecRequest{TimeoutSeconds: seconds(1e-12)}, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Timeout(&tt.request); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// Names are the contract's, unless the request brings the whole environment.
func TestEnvironment(t *testing.T) {
	a := &core.Sandbox{Env: map[string]string{"BASE": "1", "PATH": "/bin"}, Workspace: "/work"}
	for name, tt := range map[string]struct {
		env   map[string]string
		clear bool
		want  map[string]string
		err   string
	}{
		"base":             {nil, false, map[string]string{"BASE": "1", "PATH": "/bin", "PWD": "/work"}, ""},
		"over the base":    {map[string]string{"PATH\t": "/x", "_a9": ""}, false, map[string]string{"BASE": "1", "PATH": "/x", "PWD": "/work", "_a9": ""}, ""},
		"no name":          {map[string]string{" ": "x"}, false, nil, "secret name is required"},
		"a bad name":       {map[string]string{"A-B": "x"}, false, nil, "secret name is invalid"},
		"a long name":      {map[string]string{strings.Repeat("A", 65): "x"}, false, nil, "secret name is invalid"},
		"a digit first":    {map[string]string{"9A": "x"}, false, nil, "secret name is invalid"},
		"NUL":              {map[string]string{"A": "\x00"}, false, nil, "impossible name or value"},
		"all of it":        {map[string]string{"a.b-c": "x"}, true, map[string]string{"a.b-c": "x"}, ""},
		"all, impossible":  {map[string]string{"A=B": "x"}, true, nil, "impossible name or value"},
		"all, without one": {map[string]string{"": "x"}, true, nil, "impossible name or value"},
	} {
		got, err := environment(a, &wire.ExecRequest{Env: tt.env, ClearEnv: tt.clear}, "/work")
		switch {
		case tt.err != "":
			if err == nil || !strings.Contains(err.Message, tt.err) {
				t.Errorf("%s: %v, want %s", name, err, tt.err)
			}
		case err != nil || !maps.Equal(got, tt.want):
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
