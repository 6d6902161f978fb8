package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/wire"
)

// explain reports why the server for models cannot start and, where a client has
// started it, tells that client: most drop a server that ends in silence, and models
// go on with the tools that are left. It returns nil where err was reported.
func (a *app) explain(cmd *cobra.Command, f *mcpFlags, err error) error {
	if err == nil || a.serving || f.http.on(cmd) || term.IsTerminal(int(os.Stdin.Fd())) {
		return err
	}
	a.status = report(os.Stderr, err)
	var reasons bytes.Buffer
	report(&reasons, err)
	b := broken{reason: reasons.String() + "No tool of this server works until the cause is removed and the client is started again: tell your user."}
	profile, unknown := f.profileOf()
	if unknown != nil {
		profile = op.ProfileWorkspace
	}
	for _, o := range op.Table() {
		if !o.Local && profile.Offers(o.Profile) {
			b.tools = append(b.tools, brokenTool{o.Name, o.Summary, json.RawMessage(`{"type":"object"}`)})
		}
	}
	b.serve(os.Stdin, os.Stdout)
	return nil
}

// broken is a server that has the tools of the one which cannot start, and answers
// every call with the reason.
type broken struct {
	reason string
	tools  []brokenTool
}

type brokenTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// serve answers until the input ends, or nobody reads the output.
func (b broken) serve(in io.Reader, out io.Writer) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, op.MaxInput+1<<16)
	for lines.Scan() {
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				ProtocolVersion string `json:"protocolVersion"`
			} `json:"params"`
		}
		// What is no request, a notification say, gets no answer.
		if json.Unmarshal(lines.Bytes(), &req) != nil || len(req.ID) == 0 || req.Method == "" {
			continue
		}
		answer := struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Result  any             `json:"result,omitempty"`
			Error   any             `json:"error,omitempty"`
		}{Version: "2.0", ID: req.ID, Result: b.answer(req.Method, req.Params.ProtocolVersion)}
		if answer.Result == nil {
			answer.Error = map[string]any{"code": -32601, "message": "unknown method " + req.Method + ": the server cannot start"}
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

// answer is the result of a method, nil for those that are unknown.
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
