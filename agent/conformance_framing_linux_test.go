package agent_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

// Contract 001.0: one connection, one line, one answer.
func TestConformFraming(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	put(t, "abc", b.workspace, "abc")
	const notObject = "request must be a JSON object"
	calls(t, b, []call{
		{name: "list", request: `[]`, err: notObject},
		{name: "number", request: `1`, err: notObject},
		{name: "string", request: `"{}"`, err: notObject},
		{name: "null", request: `null`, err: notObject},
		{name: "truth", request: `true`, err: notObject},
		{name: "bad_json", request: `{`, err: anyError},
		{name: "two_values", request: `{} {}`, err: anyError},
		{name: "single_quotes", request: `{'command':'true'}`, err: anyError},
		{name: "bad_utf8", request: "{\"command\":\"\xff\"}", err: anyError},
		{name: "empty_line", request: "", err: anyError},
		{name: "blank_line", request: " \t ", err: anyError},
		{name: "white_space", request: " \t\v\f{\"command\":\"echo x\"} \f\t\r", want: `{"stdout":"x\n","exit_code":0}`},
		{name: "no_action_is_exec", request: `{"command":"echo x"}`, want: `{"stdout":"x\n","exit_code":0}`},
		{name: "unknown_action", request: `{"action":"nonesuch","command":"touch ran"}`, err: "unknown action: nonesuch",
			check: func(t *testing.T, b *bareAgent, _ map[string]any) { absent(t, b.workspace, "ran") }},
		{name: "action_is_case_sensitive", request: `{"action":"Exec","command":"touch ran"}`, err: "unknown action: Exec"},
		{name: "unknown_fields", request: `{"action":"exec","command":"echo x","nonesuch":{"a":[1]},"env_":1}`, want: `{"stdout":"x\n"}`},
		{name: "field_names_are_case_sensitive", request: `{"command":"echo x","Command":"echo y","ACTION":"nonesuch","Env":5}`, want: `{"stdout":"x\n"}`},
		{name: "escapes", request: `{"command":"echo \u0078\t\u00e9"}`, want: `{"stdout":"x é\n"}`},
		{name: "null_is_absent", request: `{"action":null,"keep_alive":null,"token":null,"command":"echo x","argv":null,"cwd":null,"env":null,"clear_env":null,"secret_env":null,` +
			`"stdin":null,"timeout_seconds":null,"max_output_bytes":null,"limits":null,"tty":null,"stream":null,"redact_values":null,"redaction":null,"encoding":null}`,
			want: `{"stdout":"x\n","exit_code":0}`},
	})
	t.Run("line_in_pieces", func(t *testing.T) {
		conform(t)
		got := answerOf(t, b.trickled(t, []byte("{\"command\":\"echo x\"}\r\n"), 1))
		contains(t, got, `{"stdout":"x\n"}`)
	})
	t.Run("end_instead_of_newline", func(t *testing.T) {
		conform(t)
		got := answerOf(t, b.trickled(t, []byte(`{"command":"echo x"}`), 1<<20))
		contains(t, got, `{"stdout":"x\n"}`)
	})
	t.Run("end_instead_of_request", func(t *testing.T) {
		conform(t)
		if got := answerOf(t, b.trickled(t, nil, 1)); got["error"] == "" || got["error"] == nil {
			t.Errorf("got %v", got)
		}
	})
	t.Run("second_request", func(t *testing.T) {
		conform(t)
		got := answerOf(t, b.exchange(t, []byte("{\"command\":\"echo x\"}\n{\"command\":\"touch second\"}\n")))
		contains(t, got, `{"stdout":"x\n"}`)
		absent(t, b.workspace, "second")
	})
	t.Run("closes_by_itself", func(t *testing.T) {
		conform(t)
		conn := b.dial(t) // nothing is half-closed here: it is the agent that ends the connection
		fmt.Fprintln(conn, `{"command":"echo x"}`)
		got, err := io.ReadAll(conn)
		if err != nil || bytes.Count(got, []byte("\n")) != 1 || got[len(got)-1] != '\n' {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("long_line", func(t *testing.T) {
		conform(t)
		text := strings.Repeat("x", 1<<20)
		got := b.ask(t, map[string]any{"action": "write_workspace_file", "path": "long", "text": text})
		contains(t, got, `{"bytes_written":1048576}`)
	})
}

// Contract 001.0: numbers go through int().
func TestConformNumbers(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	put(t, "abc", b.workspace, "abc")
	tooBig := func(n int) string {
		return fmt.Sprintf("workspace file exceeds the maximum supported size of %d bytes", n)
	}
	table := []call{
		{name: "integer", request: `3`}, {name: "string", request: `"3"`}, {name: "padded_string", request: `" 3\n"`},
		{name: "signed_string", request: `"+3"`}, {name: "underscore", request: `"1_0"`}, {name: "float", request: `3.9`},
		{name: "exponent", request: `1e2`}, {name: "leading_zeros", request: `"007"`},
		{name: "float_is_cut", request: `2.9`, err: tooBig(2)},
		{name: "truth", request: `true`, err: tooBig(1)},
		{name: "towards_zero", request: `-0.9`, err: "max_bytes must be positive"},
		{name: "falsehood", request: `false`, err: "max_bytes must be positive"},
		{name: "negative_string", request: `"-3"`, err: "max_bytes must be positive"},
		{name: "beyond_64_bits", request: `99999999999999999999999`, err: "max_bytes must be at most 1048576 bytes"},
		{name: "string_beyond_64_bits", request: `"99999999999999999999999"`, err: "max_bytes must be at most 1048576 bytes"},
		{name: "below_64_bits", request: `-99999999999999999999999`, err: "max_bytes must be positive"},
		{name: "string_of_a_float", request: `"3.0"`, err: anyError}, {name: "word", request: `"three"`, err: anyError},
		{name: "empty_string", request: `""`, err: anyError},
		{name: "list", request: `[3]`, err: anyError}, {name: "object", request: `{}`, err: anyError},
		{name: "hexadecimal", request: `"0x3"`, err: anyError}, {name: "underscores", request: `"1__0"`, err: anyError},
	}
	for i := range table {
		table[i].request = `{"action":"read_workspace_file","path":"abc","max_bytes":` + table[i].request + `}`
		if table[i].err == "" {
			table[i].want = `{"content_b64":"YWJj"}`
		}
	}
	calls(t, b, table)
}

// Contract 001.0: strings go through str(), truth values through bool(). What
// str() makes of lists and objects was never a path that anybody meant.
func TestConformStrings(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	table := []call{}
	for value, text := range map[string]string{
		`5`: "5", `1.5`: "1.5", `true`: "True", `false`: "False", `"it's"`: "it's",
		`123456789012345678901234567890`: "123456789012345678901234567890",
	} {
		table = append(table, call{name: text, request: `{"action":"list_workspace","path":` + value + `}`, err: "workspace path does not exist: /workspace/" + text})
	}
	t.Run("str", func(t *testing.T) {
		conform(t)
		each(t, b, table)
	})
	calls(t, b, []call{
		{name: "list", request: `{"action":"list_workspace","path":["a",1]}`, err: "path must be a string"},
		{name: "object", request: `{"action":"list_workspace","path":{"a":true}}`, err: "path must be a string"},
	})
	calls(t, b, []call{{name: "text", request: `{"action":"write_workspace_file","path":"n","text":12.5}`, want: `{"bytes_written":4}`,
		check: func(t *testing.T, b *bareAgent, _ map[string]any) { holds(t, "12.5", b.workspace, "n") }}})
	put(t, "", b.workspace, "dir", "below", "file")
	for name, table := range map[string][]string{
		"true":  {`true`, `1`, `-1`, `0.5`, `"false"`, `"0"`, `[0]`, `{"a":0}`},
		"false": {`false`, `0`, `0.0`, `""`, `[]`, `{}`, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			conform(t)
			for _, value := range table {
				want := `{"entries":[{"path":"/workspace/dir/below"}]}`
				if name == "true" {
					want = `{"entries":[{"path":"/workspace/dir/below"},{"path":"/workspace/dir/below/file"}]}`
				}
				c := call{request: `{"action":"list_workspace","path":"dir","recursive":` + value + `}`, want: want}
				c.do(t, b)
			}
		})
	}
}
