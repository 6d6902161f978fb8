package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/server/mcp"
)

// ran is an answer whose form a contract fixes, as host tools make them.
type ran struct {
	Success bool     `json:"success"`
	Error   string   `json:"error,omitempty"`
	Hint    string   `json:"hint,omitempty"`
	Command []string `json:"command,omitempty"`
	Stdout  string   `json:"stdout,omitempty"`
	Stderr  string   `json:"stderr,omitempty"`
}

func (r ran) Failed() bool { return !r.Success }

func (r ran) Contracted(most int) any {
	const mark = "\n... [truncated]"
	if len(r.Stdout) > most {
		r.Stdout = strings.ToValidUTF8(r.Stdout[:most], "") + mark
	}
	return r
}

// hostTool is a tool whose form a contract fixes, which answers with these texts.
func hostTool(answer ran) op.Op {
	return op.New(op.Desc{Name: "linux_unshare_exec", Summary: "Run", Description: "Run a command in new namespaces.", Profile: op.ProfileWorkspace},
		func(context.Context, *op.Env, struct{}, *op.Stream) (ran, error) {
			return answer, nil
		},
		func(io.Writer, ran) error { return nil })
}

// The text of a tool with a contract is that contract's JSON, whole; what was
// printed alone is cut, and only to a budget that was written.
func TestContractText(t *testing.T) {
	const mark = "\n... [truncated]"
	long := strings.Repeat("é\x1b[1m\u202e\u009b \U000e0041", 30000)
	for name, tt := range map[string]struct {
		budget     int
		structured bool
	}{"no budget": {}, "a budget": {budget: 8000}, "a budget, structured": {8000, true}, "structured": {0, true}} {
		t.Run(name, func(t *testing.T) {
			answer := ran{Success: true, Stdout: long, Stderr: "err" + mark, Command: []string{"unshare", "--", "x"}}
			opts := mcp.Options{Ops: []op.Op{hostTool(answer)}, Profile: op.ProfileWorkspace, Budget: tt.budget}
			s := serveText(t, opts)
			if tt.structured {
				s = serve(t, opts)
			}
			res := call(t, dial(t, s, nil), "linux_unshare_exec", map[string]any{})
			text := res.Content[0].(*sdk.TextContent).Text
			if strings.ContainsAny(text, "\x1b\u202e\u009b\U000e0041") || tt.budget > 0 && utf8.RuneCountInString(text) > tt.budget {
				t.Errorf("%d characters: %.200q", utf8.RuneCountInString(text), text)
			}
			var got ran
			if err := json.Unmarshal([]byte(text), &got); err != nil || !got.Success || got.Stderr != "err"+mark || len(got.Command) != 3 || res.IsError {
				t.Fatalf("%v: %.300q", err, text)
			}
			if head, cut := strings.CutSuffix(got.Stdout, mark); cut != (tt.budget > 0) || !strings.HasPrefix(long, head) || !cut && got.Stdout != long {
				t.Errorf("%d bytes of %d, cut: %v", len(got.Stdout), len(long), cut)
			}
			if fields, ok := res.StructuredContent.(map[string]any); ok != tt.structured || ok && fields["stdout"] != got.Stdout {
				t.Errorf("structured: %v", ok)
			}
		})
	}
	s := serveText(t, mcp.Options{Ops: []op.Op{hostTool(ran{Error: "Executable not found: x", Hint: "see `loud` and --fork"})}, Profile: op.ProfileWorkspace})
	res := call(t, dial(t, s, nil), "linux_unshare_exec", map[string]any{})
	if text := res.Content[0].(*sdk.TextContent).Text; !res.IsError || text != `{"success":false,"error":"Executable not found: x","hint":"see the operator's paddock mcp --loud and --fork"}` {
		t.Errorf("%q", text)
	}
}
