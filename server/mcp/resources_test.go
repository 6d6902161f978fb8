package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/server/mcp"
)

// disk stands in for the workspace of a sandbox: what resources make of answers
// is tested here, and what operations answer where they are.
type disk struct {
	mu    sync.Mutex
	files map[string]string
}

func (d *disk) set(name, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[name] = text
}

type pathIn struct {
	Sandbox  string `json:"sandbox,omitempty"`
	Path     string `json:"path,omitempty"`
	Encoding string `json:"encoding,omitempty"`
	Limit    int    `json:"limit,omitempty"`
}

func (d *disk) op(name string, do func(in pathIn, text string) (map[string]any, error)) op.Op {
	return op.New(op.Desc{Name: name, Summary: name, Profile: op.ProfileWorkspace}, func(_ context.Context, _ *op.Env, in pathIn, _ *op.Stream) (map[string]any, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		text, ok := d.files[in.Path]
		if in.Sandbox != "" || !ok && in.Path != "" {
			return nil, &paddock.Error{Message: "cannot open " + in.Path + ": there is nothing", Code: "not_found"}
		}
		return do(in, text)
	}, func(io.Writer, map[string]any) error { return nil })
}

func (d *disk) ops() []op.Op {
	return []op.Op{
		d.op("file_read", func(in pathIn, text string) (map[string]any, error) {
			switch {
			case in.Path == "panic":
				panic("oops")
			case in.Path == "denied":
				return nil, errors.New("cannot read denied: no")
			case in.Encoding == "base64":
				return map[string]any{"binary": true, "content_base64": []byte(text)}, nil
			case strings.HasPrefix(text, "\x00"):
				return map[string]any{"binary": true}, nil
			}
			return map[string]any{"text": text, "next_line": 0}, nil
		}),
		d.op("file_list", func(pathIn, string) (map[string]any, error) {
			return map[string]any{"entries": []map[string]any{{"path": "a b.txt", "kind": "file", "size_bytes": 5}, {"path": "sub", "kind": "directory"}, {"path": "odd\x1b[1m\n\u202e", "kind": "file"}}}, nil
		}),
		d.op("file_stat", func(_ pathIn, text string) (map[string]any, error) {
			return map[string]any{"size_bytes": len(text)}, nil
		}),
		d.op("sandbox_list", func(pathIn, string) (map[string]any, error) {
			return map[string]any{"sandboxes": []map[string]any{{"name": "default", "state": paddock.StateRunning}, {"name": "old", "state": "ended"}}}, nil
		}),
	}
}

func TestResources(t *testing.T) {
	d := &disk{files: map[string]string{"a b.txt": "hello", "bin": "\x00\x01", "text": "\x1b[31m\tred\u202e\r\nover\r⟦U+001B⟧\n", "panic": "", "denied": "", "sub": ""}}
	updated := make(chan string, 10)
	c := dial(t, serve(t, mcp.Options{Ops: d.ops(), Profile: op.ProfileWorkspace}), &sdk.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { updated <- r.Params.URI },
	})
	list, err := c.ListResources(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var uris []string
	for _, r := range list.Resources {
		uris = append(uris, r.URI)
		if strings.ContainsAny(r.Name, "\x1b\n\u202e") {
			t.Errorf("the name %q is sent", r.Name)
		}
	}
	if got := strings.Join(uris, " "); got != "paddock://default/workspace/ paddock://default/workspace/a%20b.txt paddock://default/workspace/odd%1B%5B1m%0A%E2%80%AE" {
		t.Errorf("resources are %s", got)
	}
	if tmpl, err := c.ListResourceTemplates(t.Context(), nil); err != nil || len(tmpl.ResourceTemplates) != 2 {
		t.Errorf("%+v, %v", tmpl, err)
	}
	d.set("empty", "")
	tests := []struct{ uri, text, blob, err string }{
		{"paddock://default/workspace/empty", "", "", ""},
		{"paddock://default/workspace/a%20b.txt", "hello", "", ""},
		{"paddock://default/workspace/", "a b.txt\nsub/\n\"odd\\x1b[1m\\n\\u202e\"\n", "", ""},
		{"paddock://default/workspace/text", "⟦U+001B⟧[31m\tred⟦U+202E⟧\r\nover⟦U+000D⟧⟦U+27E6⟧U+001B⟧\n", "", ""},
		{"paddock://default/workspace/bin", "", "\x00\x01", ""},
		{"paddock://default/workspace/none", "", "", "not found"},
		{"paddock://other/workspace/a%20b.txt", "", "", "not found"},
		{"paddock://default/workspace/denied", "", "", "cannot read denied: no"},
		{"paddock://default/workspace/panic", "", "", "internal error"},
		{"paddock://default/elsewhere/x", "", "", "cannot use uri"},
		{"paddock://default/output/", "", "", "cannot use uri"},
		{"paddock://a:b@default/workspace/x", "", "", "cannot use uri"},
		{"paddock://default/workspace/%zz", "", "", "cannot use uri"},
		{"paddock://default/workspace/%ff", "", "", "cannot use uri"},
		{"file:///etc/passwd", "", "", "not found"},
	}
	for _, tt := range tests {
		res, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: tt.uri})
		if tt.err != "" {
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), tt.err) {
				t.Errorf("%s: %v, want %s", tt.uri, err, tt.err)
			}
			continue
		}
		if err != nil || len(res.Contents) != 1 || res.Contents[0].Text != tt.text || string(res.Contents[0].Blob) != tt.blob || res.Contents[0].URI != tt.uri {
			t.Errorf("%s: %+v, %v", tt.uri, res, err)
			continue
		}
		if wire, err := json.Marshal(res.Contents[0]); err != nil || !bytes.Contains(wire, []byte(`"text":`)) && !bytes.Contains(wire, []byte(`"blob":`)) {
			t.Errorf("%s: neither text nor blob is on the wire: %s, %v", tt.uri, wire, err)
		}
	}
	const watched = "paddock://default/workspace/a%20b.txt"
	if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: watched}); err != nil {
		t.Fatal(err)
	}
	// Nobody says when the server has begun to look: it changes until that is told.
	text, limit := "hello", time.After(patient)
	for told := false; !told; {
		text += "."
		d.set("a b.txt", text)
		select {
		case got := <-updated:
			if told = true; got != watched {
				t.Errorf("%s has changed", got)
			}
		case <-limit:
			t.Fatal("it does not tell of a change")
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err := c.Unsubscribe(t.Context(), &sdk.UnsubscribeParams{URI: watched}); err != nil {
		t.Error(err)
	}
}

func TestPrompt(t *testing.T) {
	c := dial(t, serve(t, mcp.Options{Profile: op.ProfileRun}), nil)
	list, err := c.ListPrompts(t.Context(), nil)
	if err != nil || len(list.Prompts) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	got, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: list.Prompts[0].Name})
	if err != nil || len(got.Messages) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if text, ok := got.Messages[0].Content.(*sdk.TextContent); !ok || !strings.Contains(text.Text, "/workspace") {
		t.Errorf("%+v", got.Messages[0].Content)
	}
	if !strings.Contains(c.InitializeResult().Instructions, "/workspace") {
		t.Error("no instructions")
	}
}

// TestSubscribe speaks an older protocol, in which a subscription is answered.
func TestSubscribe(t *testing.T) {
	d := &disk{files: map[string]string{"a": ""}}
	s := serve(t, mcp.Options{Ops: d.ops(), Profile: op.ProfileWorkspace})
	var in strings.Builder
	in.WriteString(hello)
	for _, uri := range []string{"a", "none", "../elsewhere"} {
		in.WriteString(`{"jsonrpc":"2.0","id":"` + uri + `","method":"resources/subscribe","params":{"uri":"paddock://default/workspace/` + uri + `"}}` + "\n")
	}
	var out strings.Builder
	if err := s.ServeStdio(t.Context(), strings.NewReader(in.String()), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"id":"a","result"`, `"id":"none","error"`, `"id":"../elsewhere","error"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in %s", want, out.String())
		}
	}
}
