package mcp_test

import (
	"encoding/json"
	"fmt"
	"slices"
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

// TestBatches: clients of the one revision that has them may send several messages at
// once, and are answered so.
func TestBatches(t *testing.T) {
	const ask = `[{"jsonrpc":"2.0","id":91,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},` +
		`{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"echo","arguments":{"text":"both"}}},` +
		`{"jsonrpc":"2.0","id":91,"method":"ping"},5,{"jsonrpc":"2.0","id":1.5,"method":"ping"},{"jsonrpc":"2.0","id":9,"method":"nothing"}]`
	for revision, taken := range map[string]bool{"2025-11-25": false, "2025-06-18": false, "2025-03-26": true, "2024-11-05": false, "2001-01-01": false} {
		t.Run(revision, func(t *testing.T) {
			hello := strings.TrimSpace(strings.ReplaceAll(hello, "2025-06-18", revision))
			var out strings.Builder
			in := strings.Join([]string{hello, ask, `[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, `[7]`, `[]`}, "\n")
			if err := serveText(t, mcp.Options{Ops: []op.Op{echo()}}).ServeStdio(t.Context(), strings.NewReader(in), &out); err != nil {
				t.Fatal(err)
			}
			arrays, refused, single := [][]map[string]any{}, 0, 0
			for line := range strings.Lines(out.String()) {
				var several []map[string]any
				if json.Unmarshal([]byte(line), &several) == nil {
					arrays = append(arrays, several)
				} else if single++; strings.Contains(line, "-32600") && strings.Contains(line, `"id":null`) {
					refused++
				}
			}
			if !taken {
				if len(arrays) > 0 || refused != 4 {
					t.Errorf("it is answered with %s", &out)
				}
				return
			}
			if len(arrays) != 2 || refused != 1 || single != 2 {
				t.Fatalf("it is answered with %s", &out)
			}
			if len(arrays[0]) == 1 {
				slices.Reverse(arrays)
			}
			if len(arrays[0]) != 6 || len(arrays[1]) != 1 {
				t.Fatalf("there are %d and %d answers: %s", len(arrays[0]), len(arrays[1]), &out)
			}
			for _, want := range []string{"map[id:91 jsonrpc:2.0 result:map[]]", "text:both", "still waits for its answer", "id:<nil>", "id:1.5", "code:-32601"} {
				if got := fmt.Sprint(arrays[0]); !strings.Contains(got, want) {
					t.Errorf("%s is not in %s", want, got)
				}
			}
			if n := strings.Count(out.String(), `"id":91`); n != 2 {
				t.Errorf("91 is answered %d times: %s", n, &out)
			}
		})
	}
}
