package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"slices"

	"github.com/paddock-dev/paddock/op/table"

	"golang.org/x/term"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/wire"
)

// Explain reports why the server for models cannot start and, where a client has
// started it, answers that client's calls with the reason: most clients drop a server
// that ends in silence, and models go on with the tools that are left. The tools are
// those of the named profile. Explain returns nil if it has reported err.
func (a *App) Explain(err error, profile string) error {
	if err == nil || term.IsTerminal(int(os.Stdin.Fd())) {
		return err
	}
	a.status = report(os.Stderr, err)
	var reasons bytes.Buffer
	report(&reasons, err)
	b := broken{reason: reasons.String() + "No tool of this server works until the cause is removed and the client is started again: tell your user."}
	offered, unknown := ParseProfile(profile)
	if unknown != nil {
		offered = op.ProfileWorkspace
	}
	for _, o := range table.All() {
		if !o.Local && offered.Offers(o.Profile) {
			b.tools = append(b.tools, brokenTool{o.Name, o.Summary, json.RawMessage(`{"type":"object"}`)})
		}
	}
	b.serve(os.Stdin, os.Stdout)
	return nil
}

// broken is a server with the tools of the one that cannot start. It answers every call
// with the reason.
type broken struct {
	reason string
	tools  []brokenTool
}

type brokenTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// serve answers messages until the input ends, or the output is closed.
func (b broken) serve(in io.Reader, out io.Writer) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, op.MaxInput+1<<16)
	for lines.Scan() {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var answer any
		if one := b.reply(text); one != nil {
			answer = one
		}
		var several []json.RawMessage
		if json.Unmarshal(text, &several) == nil && len(several) > 0 {
			var all []*brokenReply
			for _, part := range several {
				if one := b.reply(part); one != nil {
					all = append(all, one)
				}
			}
			if answer = all; len(all) == 0 {
				answer = nil
			}
		}
		if answer == nil {
			continue
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return
		}
		if _, err := out.Write(append(text, '\n')); err != nil {
			return
		}
	}
}

// brokenReply is the answer to one message.
type brokenReply struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"` // null where it is nil
	Result  any             `json:"result,omitempty"`
	Error   any             `json:"error,omitempty"`
}

// reply returns the answer to a message, nil if it needs none.
func (b broken) reply(text []byte) *brokenReply {
	refused := func(id json.RawMessage, code int, cause string) *brokenReply {
		return &brokenReply{"2.0", id, nil, map[string]any{"code": code, "message": cause + ": the server cannot start"}}
	}
	var req struct {
		ID     json.RawMessage `json:"id"`
		Method *string         `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
		Params json.RawMessage `json:"params"`
	}
	switch err := json.Unmarshal(text, &req); {
	case !json.Valid(text):
		return refused(nil, -32700, "the message is not JSON")
	case err == nil && req.Method != nil && len(req.ID) == 0, err == nil && req.Method == nil && req.Result != nil, req.Error != nil:
		return nil // a notification, or an answer
	case err != nil || req.Method == nil:
		return refused(req.ID, -32600, "the message is no request")
	}
	var params struct {
		Revision string `json:"protocolVersion"`
	}
	_ = json.Unmarshal(req.Params, &params) // whatever they are, the answer is the reason
	if result := b.answer(*req.Method, params.Revision); result != nil {
		return &brokenReply{"2.0", req.ID, result, nil}
	}
	return refused(req.ID, -32601, "unknown method "+*req.Method)
}

// answer returns the result of a method, nil if it is unknown.
func (b broken) answer(method, revision string) any {
	switch method {
	case "initialize":
		if !slices.Contains([]string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}, revision) {
			revision = "2025-11-25"
		}
		return map[string]any{
			"protocolVersion": revision,
			"capabilities":    map[string]any{"tools": map[string]any{}},
			"serverInfo":      map[string]any{"name": "paddock", "version": wire.Build},
			"instructions":    b.reason,
		}
	case "ping":
		return map[string]any{}
	case "tools/list":
		return map[string]any{"tools": b.tools}
	case "tools/call":
		return map[string]any{"isError": true, "content": []any{map[string]any{"type": "text", "text": b.reason}}}
	}
	return nil
}
