package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestBroken: a server that cannot start answers whatever can be answered, so that no
// client waits.
func TestBroken(t *testing.T) {
	b := broken{reason: "no walls", tools: []brokenTool{{"exec", "Run", json.RawMessage(`{"type":"object"}`)}}}
	for _, tt := range []struct{ in, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`, `"protocolVersion":"2025-06-18"`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec"}}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"no walls","type":"text"}],"isError":true}}`},
		{`{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":5}`, `"id":1.5,"result":{"content":[{"text":"no walls"`},
		{`{"jsonrpc":"2.0","id":1,"method":"zzz"}`, `"error":{"code":-32601,"message":"unknown method zzz: the server cannot start"}`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, ""},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, ""},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}`, ""},
		{``, ""},
		{`nonsense`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		{`{}`, `"id":null,"error":{"code":-32600,`},
		{`5`, `"id":null,"error":{"code":-32600,`},
		{`[]`, `"id":null,"error":{"code":-32600,`},
		{`{"jsonrpc":"2.0","id":"a","method":7}`, `"id":"a","error":{"code":-32600,`},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},6]`,
			`[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		{`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, ""},
	} {
		var out strings.Builder
		b.serve(strings.NewReader(tt.in), &out)
		if got := out.String(); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") || strings.Count(got, "\n") > 1 {
			t.Errorf("%s is answered with %s, want %s", tt.in, got, tt.want)
		}
	}
}
