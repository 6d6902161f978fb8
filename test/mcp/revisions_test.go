//go:build linux

package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// revisions of the protocol that the server offers.
var revisions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// TestRevisions works by each revision of the protocol that is offered. Clients of the
// next one ask by a method that those do not have, and are answered as by a server that
// knows nothing of it: then they initialize.
func TestRevisions(t *testing.T) {
	boxtest.RequireWalls(t)
	for _, revision := range append(revisions, "2026-07-28") {
		t.Run(revision, func(t *testing.T) {
			want := revision
			if revision == "2026-07-28" {
				want = revisions[0]
			}
			cmd := plain(t).command()
			log := &notes{}
			cmd.Stderr = log
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(out)
			ask := func(id int, request string) map[string]any {
				var answer struct {
					ID     int
					Result map[string]any
					Error  map[string]any
				}
				if _, err := fmt.Fprintln(in, request); err != nil {
					t.Fatal(err)
				}
				for answer.ID != id {
					line, err := lines.ReadBytes('\n')
					if err == nil {
						err = json.Unmarshal(line, &answer)
					}
					if err != nil {
						t.Fatalf("%s: %v\n%s", request, err, log)
					}
				}
				if answer.Error != nil {
					return answer.Error
				}
				return answer.Result
			}
			meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
			if got := ask(1, `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+meta+`}}`); got["code"] != -32601.0 {
				t.Errorf("server/discover is answered with %v", got)
			}
			if got := ask(2, `{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"`+revision+`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`); got["protocolVersion"] != want {
				t.Errorf("initialize is answered with %v, want %s", got, want)
			}
			if _, err := fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
				t.Fatal(err)
			}
			if got := ask(3, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`); !strings.Contains(fmt.Sprint(got["tools"]), "file_read") {
				t.Errorf("the tools are %v", got)
			}
			if got := ask(4, toolCall(4, "exec", `{"command":"echo by this revision"}`)); !strings.Contains(fmt.Sprint(got["content"]), "by this revision") {
				t.Errorf("a call gave %v", got)
			}
			if got := ask(5, `{"jsonrpc":"2.0","id":5,"method":"resources/list"}`); !strings.Contains(fmt.Sprint(got["resources"]), "uri:") {
				t.Errorf("the resources are %v", got)
			}
			if err := in.Close(); err != nil {
				t.Error(err)
			}
			awaitEnd(t, cmd, log)
		})
	}
	h := startHTTP(t, plain(t), "--no-auth")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Mcp-Method", "server/discover")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusBadRequest || strings.Contains(res.Header.Get("Content-Type"), "json") {
		t.Errorf("server/discover over HTTP is answered with %s %v: %v", res.Status, res.Header, err)
	}
}
