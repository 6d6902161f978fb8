package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/server/mcp"
)

// told is what a server writes in answer to these lines: each answer by the JSON of
// its id.
func told(t *testing.T, s *mcp.Server, lines ...string) map[string]string {
	t.Helper()
	var out strings.Builder
	if err := s.ServeStdio(t.Context(), strings.NewReader(strings.Join(lines, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSpace(line)
		var one struct{ ID json.RawMessage }
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			one.ID = json.RawMessage("not an object")
		}
		all[string(one.ID)] += line
	}
	return all
}

// TestNoTools: a server without tools has an empty list, and no prompt about tools.
func TestNoTools(t *testing.T) {
	got := told(t, serveText(t, mcp.Options{Ops: []op.Op{}}), strings.TrimSpace(hello),
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":3,"method":"prompts/list"}`,
		`{"jsonrpc":"2.0","id":4,"method":"prompts/get","params":{"name":"sandbox"}}`)
	for id, want := range map[string]string{"2": `"tools":[]`, "3": `"prompts":[]`, "4": `"error"`} {
		if !strings.Contains(got[id], want) {
			t.Errorf("want %s in %s", want, got[id])
		}
	}
	if strings.Contains(got["1"], `"prompts"`) {
		t.Errorf("it offers prompts: %s", got["1"])
	}
}
