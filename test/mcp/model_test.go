//go:build linux

package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/op"
)

// scripted is a call of a tool that a model makes. "${output}" in its arguments is
// the output that the answer before has named.
type scripted struct {
	Tool string         `json:"tool"`
	Args map[string]any `json:"args"`
}

var toldOutput = regexp.MustCompile(`output_read \{"output": "(\w+)"`)

// given is what a model was given for a call: the text, and how many characters
// stood for it in the request.
type given struct {
	text  string
	chars int
}

// model is a server that answers as models do, by the Responses protocol or by that
// of Anthropic's Messages, and notes what it is given. A prompt is the name of a
// script; what offers no tool of Paddock's is answered with a word.
type model struct {
	url     string
	scripts map[string][]scripted
	prefers string // the server whose tools are called; else any that may be Paddock's

	mu    sync.Mutex
	body  string             // the latest request with tools of Paddock's, as it is
	tools string             // ours, as requests had them
	given map[string][]given // by script
	asked int                // requests, which number the answers
	odd   []string           // what went wrong
}

// startModel serves scripts on the loopback interface.
func startModel(t *testing.T, scripts map[string][]scripted) *model {
	t.Helper()
	m := &model{scripts: scripts, given: make(map[string][]given)}
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	m.url = s.URL
	return m
}

// request is what is read of a request, by either protocol.
type request struct {
	Stream   bool
	Tools    []json.RawMessage
	Input    []json.RawMessage // of Responses
	Messages []struct {        // of Messages
		Content json.RawMessage
	}
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	messages := strings.HasSuffix(r.URL.Path, "/messages")
	if r.Method != http.MethodPost || !messages && !strings.HasSuffix(r.URL.Path, "/responses") {
		http.NotFound(w, r)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var req request
	if err := json.Unmarshal(body, &req); err != nil {
		m.odd = append(m.odd, fmt.Sprintf("%s: %v: %s", r.URL.Path, err, body))
	}
	for _, message := range req.Messages {
		var parts []json.RawMessage
		if json.Unmarshal(message.Content, &parts) != nil {
			parts = []json.RawMessage{message.Content}
		}
		req.Input = append(req.Input, parts...)
	}
	next := m.next(&req, body)
	m.asked++ // agents tell answers apart by their ids
	if messages {
		answerMessages(w, fmt.Sprint("msg_", m.asked), next)
	} else {
		answerResponses(w, fmt.Sprint("resp_", m.asked), req.Stream, next)
	}
}

// had is what the model was given for the calls of a script.
func (m *model) had(script string) []given {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.given[script]
}

// forget drops the inputs and tools of an earlier run of a script.
func (m *model) forget(script string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.given, script)
	m.body = ""
}

// offers says whether the latest request has a tool of the client's own, as a function
// or in the description of what code may call.
func (m *model) offers(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Contains(m.body, `"name":"`+name+`"`) || strings.Contains(m.body, "### `"+name+"`")
}

// called is the call that a model makes next, by the names of its client. In code it
// is a text that the client runs, and that calls the tool.
type called struct {
	id, namespace, name, args string
	code                      bool
}

// next notes what a request gives to the model, and chooses the next call of its
// script; nil at the end.
func (m *model) next(req *request, body []byte) *called {
	names, ours := m.toolsOf(req.Tools)
	if len(names) == 0 {
		names, ours = m.deferredOf(req.Input)
	}
	if len(names) == 0 {
		return nil
	}
	m.body = string(body)
	if len(ours) > len(m.tools) { // some clients give a tool when it is asked for
		m.tools = ours
	}
	script, said, searches := "", "", 0 // said is what the latest of these searches for tools has found
	var had []given
	for _, item := range req.Input {
		for name := range m.scripts {
			if strings.Contains(string(item), "script "+name+".") {
				script, had = name, nil // the latest prompt begins anew
			}
		}
		if one, ok := outputOf(item, "call_"); ok {
			had = append(had, one)
		}
		if one, ok := outputOf(item, "search_"); ok {
			said, searches = one.text, searches+1
		}
	}
	m.given[script] = had
	if len(had) >= len(m.scripts[script]) {
		return nil
	}
	call := m.scripts[script][len(had)]
	args, err := json.Marshal(call.Args)
	at, found := names[call.Tool]
	// A client that has not connected all its servers says so, and is asked again, as models do it.
	if search, deferred := names[""]; !found && deferred && (searches == 0 || strings.Contains(said, "still connecting")) {
		search.id, search.args = fmt.Sprint("search_", searches), `{"query":"paddock","max_results":100}`
		if server := m.server(string(body)); server != "" {
			prefix := server + "__"
			search.args = fmt.Sprintf(`{"query":"select:%s%s","max_results":100}`, prefix, strings.Join(offered(op.ProfileWorkspace, false), ","+prefix))
		}
		return &search
	}
	if err != nil || !found {
		m.odd = append(m.odd, fmt.Sprintf("%s is not offered: %v", call.Tool, err))
		return nil
	}
	at.id, at.args = fmt.Sprintf("call_%s_%d", script, len(had)), string(args)
	if len(had) > 0 {
		if found := toldOutput.FindStringSubmatch(had[len(had)-1].text); found != nil {
			at.args = strings.ReplaceAll(at.args, "${output}", found[1])
		}
	}
	if at.code {
		at.args = fmt.Sprintf("for (const part of (await tools.%s(%s)).content) text(part.text);", at.name, at.args)
	}
	return &at
}

// deferred is what is said of Paddock to a model that calls tools in code.
var deferred = regexp.MustCompile(`- ` + serverName.String() + `: .*?(?:\\n|")`)

// deferredOf is toolsOf for clients that let models call tools in code alone, and tell
// of them by a line.
func (m *model) deferredOf(input []json.RawMessage) (names map[string]called, ours string) {
	for _, item := range input {
		for _, found := range deferred.FindAllString(string(item), -1) {
			if m.server(found) != "" {
				ours = found
			}
		}
	}
	if ours == "" {
		return nil, ""
	}
	names = make(map[string]called)
	for _, name := range offered(op.ProfileWorkspace, false) {
		names[name] = called{name: m.server(ours) + "__" + name, code: true}
	}
	return names, ours
}

// serverName is what clients of the command line call the server, before the name of a
// tool.
var serverName = regexp.MustCompile(`mcp__paddock(?:_[a-z0-9]+)?`)

// server finds the server's name in a text.
func (m *model) server(text string) string {
	for _, name := range serverName.FindAllString(text, -1) {
		if m.prefers == "" || m.prefers == name {
			return name
		}
	}
	return ""
}

// toolsOf finds Paddock's tools in a request: how a client calls each, and their
// JSON as it is in there. A tool that makes others known has no name.
func (m *model) toolsOf(tools []json.RawMessage) (names map[string]called, ours string) {
	names = make(map[string]called)
	var text strings.Builder
	for _, raw := range tools {
		var tool struct {
			Type, Name string
			Tools      []struct{ Name string }
		}
		if json.Unmarshal(raw, &tool) != nil {
			continue
		}
		before := len(names)
		if tool.Name == "ToolSearch" {
			names[""] = called{name: tool.Name}
			continue
		}
		if tool.Type == "namespace" && m.server(tool.Name) != "" {
			for _, one := range tool.Tools {
				names[one.Name] = called{namespace: tool.Name, name: one.Name}
			}
		} else if short := strings.TrimPrefix(tool.Name, m.server(tool.Name)+"__"); slices.Contains(offered(op.ProfileWorkspace, false), short) {
			names[short] = called{name: tool.Name}
		}
		if len(names) > before {
			text.Write(raw)
		}
	}
	return names, text.String()
}

// outputOf reads the answer of a tool to the call with this id from an item of a conversation. The tool is
// Paddock's, or the client's search for tools.
func outputOf(item json.RawMessage, id string) (given, bool) {
	var one struct {
		Type            string
		CallID          string `json:"call_id"`
		ToolUseID       string `json:"tool_use_id"`
		Output, Content json.RawMessage
	}
	if json.Unmarshal(item, &one) != nil || !strings.HasPrefix(one.CallID+one.ToolUseID, id) {
		return given{}, false
	}
	switch one.Type {
	case "function_call_output", "custom_tool_call_output":
		return readGiven(one.Output), true
	case "tool_result":
		return readGiven(one.Content), true
	}
	return given{}, false
}

// readGiven reads what a tool said: a text, or a list of texts.
func readGiven(raw json.RawMessage) given {
	var text string
	var parts []struct{ Text string }
	if json.Unmarshal(raw, &text) != nil && json.Unmarshal(raw, &parts) == nil {
		for _, part := range parts {
			text += part.Text
		}
		return given{text, utf8.RuneCount(raw)}
	}
	return given{text, utf8.RuneCountInString(text)}
}

// answerResponses answers by the Responses protocol, in one piece or as a stream.
func answerResponses(w http.ResponseWriter, id string, stream bool, next *called) {
	item := map[string]any{
		"id": "msg_" + id, "type": "message", "role": "assistant", "status": "completed",
		"content": []any{map[string]any{"type": "output_text", "text": "done", "annotations": []any{}}},
	}
	if next != nil {
		item = map[string]any{"id": "fc_" + next.id, "type": "function_call", "status": "completed", "call_id": next.id, "name": next.name, "arguments": next.args}
		if next.namespace != "" {
			item["namespace"] = next.namespace
		}
		if next.code {
			item = map[string]any{"id": "ctc_" + next.id, "type": "custom_tool_call", "status": "completed", "call_id": next.id, "name": "exec", "namespace": "functions", "input": next.args}
		}
	}
	response := map[string]any{
		"id": id, "object": "response", "created_at": 1, "status": "completed", "model": "scripted", "output": []any{item},
		"usage": map[string]any{
			"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
			"input_tokens_details": map[string]any{"cached_tokens": 0}, "output_tokens_details": map[string]any{"reasoning_tokens": 0},
		},
	}
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(response) // the client may have gone
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event(w, "response.created", map[string]any{"response": map[string]any{"id": id}})
	event(w, "response.output_item.added", map[string]any{"output_index": 0, "item": item})
	event(w, "response.output_item.done", map[string]any{"output_index": 0, "item": item})
	event(w, "response.completed", map[string]any{"response": response})
}

// answerMessages answers by the Messages protocol, as a stream.
func answerMessages(w http.ResponseWriter, id string, next *called) {
	w.Header().Set("Content-Type", "text/event-stream")
	block, delta, reason := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": "done"}, "end_turn"
	if next != nil {
		block = map[string]any{"type": "tool_use", "id": next.id, "name": next.name, "input": map[string]any{}}
		delta, reason = map[string]any{"type": "input_json_delta", "partial_json": next.args}, "tool_use"
	}
	usage := map[string]any{"input_tokens": 1, "output_tokens": 1}
	event(w, "message_start", map[string]any{"message": map[string]any{
		"id": id, "type": "message", "role": "assistant", "model": "scripted", "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage,
	}})
	event(w, "content_block_start", map[string]any{"index": 0, "content_block": block})
	event(w, "content_block_delta", map[string]any{"index": 0, "delta": delta})
	event(w, "content_block_stop", map[string]any{"index": 0})
	event(w, "message_delta", map[string]any{"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}, "usage": usage})
	event(w, "message_stop", map[string]any{})
}

// event sends an event of a stream; the client may have gone.
func event(w http.ResponseWriter, name string, data map[string]any) {
	data["type"] = name
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // not for what is above
	}
	_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text)
}

// TestModelWaitsForTools: a model whose client has not connected its servers searches until it has.
func TestModelWaitsForTools(t *testing.T) {
	m := startModel(t, map[string][]scripted{"one": {{"exec", map[string]any{"command": "true"}}}})
	const prompt = `{"content": "Run the script one."}`
	searched := func(i int, said string) string {
		return fmt.Sprintf(`,{"content": [{"type": "tool_result", "tool_use_id": "search_%d", "content": %q}]}`, i, said)
	}
	const pending, tool = "Some MCP servers are still connecting: paddock_x", `,{"name": "mcp__paddock_x__exec"}`
	for _, tt := range []struct{ name, tools, messages, want string }{
		{"none", "", prompt, `"name":"ToolSearch"`},
		{"still none", "", prompt + searched(0, pending) + searched(1, pending), `"name":"ToolSearch"`},
		{"none at all", "", prompt + searched(0, pending) + searched(1, "No matching deferred tools found."), `"text":"done"`},
		{"there", tool, prompt + searched(0, pending), `"name":"mcp__paddock_x__exec"`},
	} {
		body := fmt.Sprintf(`{"tools": [{"name": "ToolSearch"}%s], "messages": [%s]}`, tt.tools, tt.messages)
		answer, err := http.Post(m.url+"/v1/messages", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || !strings.Contains(string(said), tt.want) {
			t.Errorf("%s: %v\n%s", tt.name, err, said)
		}
	}
}
