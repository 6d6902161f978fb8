package mcp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
			in := strings.Join([]string{hello, ask, `[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, `[7]`, `[]`, "[7" + strings.Repeat(",7", 1024) + "]"}, "\n")
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
				if len(arrays) > 0 || refused != 5 {
					t.Errorf("it is answered with %s", &out)
				}
				return
			}
			if len(arrays) != 2 || refused != 2 || single != 3 {
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

// TestWeb: what the protocol has of sessions, revisions and identifiers holds over HTTP.
func TestWeb(t *testing.T) {
	log := &strings.Builder{}
	s := serveText(t, mcp.Options{Ops: []op.Op{echo()}, Logger: slog.New(slog.NewTextHandler(log, nil))})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Handler().ServeHTTP(w, r.WithContext(mcp.WithPrincipal(r.Context(), "ann")))
	}))
	t.Cleanup(web.Close)
	post := func(session, revision, body string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		if revision != "" {
			r.Header.Set("Mcp-Protocol-Version", revision)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res, string(text)
	}
	sessions := map[string]string{"": "", "none": "none"}
	for _, revision := range []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
		res, text := post("", "", strings.ReplaceAll(hello, "2025-06-18", revision))
		if res.StatusCode != http.StatusOK || !strings.Contains(text, `"protocolVersion":"`+revision+`"`) {
			t.Fatalf("%s: %s %s", revision, res.Status, text)
		}
		sessions[revision] = res.Header.Get("Mcp-Session-Id")
	}
	const ping, several = `{"jsonrpc":"2.0","id":7,"method":"ping"}`, `[{"jsonrpc":"2.0","id":7,"method":"ping"},{"jsonrpc":"2.0","id":8,"method":"ping"}]`
	const each = `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"%s"}}}`
	for _, tt := range []struct {
		session, revision, body string
		status                  int
		want                    string
	}{
		{"", "", ping, 400, `"id":7,"error":{"code":-32600,"message":"cannot take the message: there is no session: initialize`},
		{"", "2025-11-25", fmt.Sprintf(each, "2025-11-25"), 400, "_meta must not name one of the offered revisions"},
		{"", "2026-07-28", fmt.Sprintf(each, "2026-07-28"), 400, `"data":{"supported":["2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2026-07-28"}`},
		{"", "", "nonsense", 400, "-32700"},
		{"", "", several, 400, "-32600"},
		{"", "", "[" + strings.TrimSpace(hello) + "]", 400, "-32600"},
		{"none", "", ping, 404, "session not found"},
		{"2025-11-25", "", ping, 200, `"id":7,"result":{}`},
		{"2025-11-25", "2025-03-26", ping, 200, `"id":7,"result":{}`},
		{"2025-11-25", "2026-07-28", ping, 400, `-32022`},
		{"2025-11-25", "1999-01-01", ping, 400, `the revision 1999-01-01 is not offered`},
		{"2025-11-25", "2025-11-25", fmt.Sprintf(each, "2025-11-25"), 400, "_meta must not name one of the offered revisions"},
		{"2025-11-25", "", several, 400, "-32600"},
		{"2025-11-25", "2025-03-26", several, 400, "-32600"},
		{"2025-06-18", "", several, 400, "-32600"},
		{"2024-11-05", "", several, 400, "-32600"},
		{"2025-03-26", "", "[]", 400, "-32600"},
		{"2025-03-26", "", "[7" + strings.Repeat(",7", 1024) + "]", 400, "of 1 to 1024 messages"},
		{"2025-03-26", "", several, 200, `"id":8,"result":{}`},
		{"2025-03-26", "2025-03-26", several, 200, `"id":7,"result":{}`},
		{"2025-11-25", "", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, 400, `"id":1.5,"error"`},
		{"2025-11-25", "", `{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}`, 400, `"id":99999999999999999999,"error"`},
		{"2025-11-25", "", `{"jsonrpc":"2.0","id":9007199254740991,"method":"ping"}`, 200, `"id":9007199254740991,"result"`},
		{"2025-11-25", "", `{"jsonrpc":"2.0","id":7,"method":"server/discover"}`, 400, "use initialize"},
		{"", "", `{"jsonrpc":"2.0","id":7,"method":"initialize","params":5}`, 400, "-32602"},
		{"2025-11-25", "", strings.TrimSpace(hello), 200, "-32600"},
	} {
		res, text := post(sessions[tt.session], tt.revision, tt.body)
		if res.StatusCode != tt.status || !strings.Contains(text, tt.want) {
			t.Errorf("session %s, header %s, %s: %s %s, want %s", tt.session, tt.revision, tt.body, res.Status, text, tt.want)
		}
	}
	web.Close()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), "Stateless") {
		t.Errorf("the log names what no operator can set: %s", log)
	}
}

// TestNumbers: a request is answered by its id exactly, or refused.
func TestNumbers(t *testing.T) {
	for id, want := range map[string]string{
		"1": "result", "-3": "result", "9007199254740991": "result", `"1.5"`: "result",
		"1.5": "error", "9007199254740992": "error", "99999999999999999999": "error", "-1e300": "error", "1e999": "error",
	} {
		got := told(t, serveText(t, mcp.Options{Ops: []op.Op{echo()}}), `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`)
		if !strings.Contains(got[id], `"`+want+`"`) || len(got) != 1 {
			t.Errorf("%s is answered with %v", id, got)
		}
	}
}

// TestCodes: each error has a code that says what kind it is.
func TestCodes(t *testing.T) {
	d := &disk{files: map[string]string{"a": "", "panic": ""}}
	ask := func(id int, rest string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%s}`, id, rest)
	}
	got := told(t, serveText(t, mcp.Options{Ops: d.ops(), Profile: op.ProfileWorkspace}),
		ask(1, `"tools/list"`), ask(2, `"initialize"`), ask(3, `"initialize","params":5`), ask(4, `"initialize","params":null`), ask(5, `"initialize","params":{"protocolVersion":7}`),
		strings.Replace(strings.TrimSpace(hello), `"id":1`, `"id":6`, 1), strings.Replace(strings.TrimSpace(hello), `"id":1`, `"id":7`, 1),
		ask(8, `"resources/read","params":{"uri":"paddock://default/workspace/none"}`), ask(9, `"resources/read","params":{"uri":"file:///x"}`),
		ask(10, `"resources/subscribe","params":{"uri":"paddock://default/workspace/none"}`), ask(11, `"resources/read","params":{"uri":"paddock://a:b@x/workspace/a"}`),
		ask(12, `"logging/setLevel","params":{"level":"zzz"}`), ask(13, `"logging/setLevel","params":{"level":"info"}`),
		ask(14, `"tools/call","params":{"name":"zzz"}`), ask(15, `"tools/call","params":5`), ask(16, `"zzz"`), ask(17, `"resources/read","params":{"uri":"paddock://default/workspace/panic"}`))
	for id, want := range map[string]string{
		"1": "-32600", "2": "-32602", "3": "-32602", "4": "-32602", "5": "-32602", "6": "result", "7": "-32600", "8": "-32002", "9": "-32002", "10": "-32002",
		"11": "-32602", "12": "-32602", "13": "result", "14": "-32602", "15": "-32602", "16": "-32601", "17": "-32603",
	} {
		if want != "result" {
			want = `"error":{"code":` + want
		}
		if !strings.Contains(got[id], want) {
			t.Errorf("%s is answered with %s, want %s", id, got[id], want)
		}
	}
}
