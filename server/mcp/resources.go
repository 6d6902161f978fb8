package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/text"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Resources are files of workspaces, and stored outputs of commands. Their addresses are
//
//	paddock://SANDBOX/workspace/PATH
//	paddock://SANDBOX/output/ID
//
// They are read only by the operations named here, as the principal.
const (
	scheme       = "paddock"
	inWorkspace  = "workspace"
	inOutput     = "output"
	defaultName  = "default"
	opRead       = "file_read"
	opList       = "file_list"
	opStat       = "file_stat"
	opOutput     = "output_read"
	opSandboxes  = "sandbox_list"
	maxResources = 200 // in a list
	maxURI       = 8 << 10
)

// place is a parsed address.
type place struct {
	sandbox string // "" for the default one
	kind    string
	name    string // a path in the workspace, or an output's id
}

// parsePlace parses an address; ours reports whether it belongs to this server.
func parsePlace(uri string) (p place, ours bool, err error) {
	if !strings.HasPrefix(uri, scheme+"://") {
		return p, false, nil
	}
	u, err := url.Parse(uri)
	if err != nil || len(uri) > maxURI || !utf8.ValidString(u.Path) || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return p, true, &policy.FieldError{Field: "uri", Value: uri, Reason: "it is not an address of this server", Hint: "paddock://default/workspace/PATH"}
	}
	kind, name, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	p = place{sandbox: u.Host, kind: kind, name: name}
	if p.sandbox == defaultName {
		p.sandbox = ""
	}
	if kind != inWorkspace && (kind != inOutput || name == "") {
		return p, true, &policy.FieldError{Field: "uri", Value: uri, Reason: "workspace/ or output/ID must follow the sandbox", Hint: "paddock://default/workspace/PATH"}
	}
	return p, true, nil
}

// uri returns the address of a place.
func (p place) uri() string {
	host := p.sandbox
	if host == "" {
		host = defaultName
	}
	return (&url.URL{Scheme: scheme, Host: host, Path: "/" + p.kind + "/" + p.name}).String()
}

// ask runs an operation for the server's own use, and decodes the answer. A panic becomes an
// error.
func (v *view) ask(ctx context.Context, env *op.Env, name string, in map[string]any, into any) (err error) {
	defer v.recovered(name, &err)
	o := v.server.tools.known[name]
	if o == nil {
		return &paddock.Error{Message: "cannot do " + name + ": this server has no such operation", Code: wire.CodeUnsupported}
	}
	if in == nil {
		in = map[string]any{}
	}
	input, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("cannot ask for %s: %w", name, err)
	}
	out, err := o.Call(ctx, env, input, &op.Stream{})
	if err != nil {
		return err
	}
	text, err := encode(out)
	if err != nil {
		return fmt.Errorf("cannot read the answer of %s: %w", name, err)
	}
	return json.Unmarshal(text, into)
}

// where adds the sandbox to the input of an operation.
func (p place) where(in map[string]any) map[string]any {
	if p.sandbox != "" {
		in["sandbox"] = p.sandbox
	}
	return in
}

// hasResources reports whether the profile has the operations that read resources.
func (t *tools) hasResources() bool { return t.find(opRead) != nil && t.known[opList] != nil }

// resources returns the workspaces of the open sandboxes, and the files at their top. It opens
// no sandbox.
func (v *view) resources(ctx context.Context) []*sdk.Resource {
	list := []*sdk.Resource{directory(place{kind: inWorkspace}, "workspace")}
	for _, name := range v.open(ctx) {
		at := place{sandbox: name, kind: inWorkspace}
		if name == defaultName {
			at.sandbox = ""
		} else {
			list = append(list, directory(at, "workspace of "+name))
		}
		list = append(list, v.top(ctx, at, maxResources-len(list))...)
	}
	return list
}

func directory(at place, name string) *sdk.Resource {
	return &sdk.Resource{URI: at.uri(), Name: name, MIMEType: "text/plain", Description: "What is in the directory"}
}

// open returns the names of the open sandboxes.
func (v *view) open(ctx context.Context) []string {
	var found struct {
		Sandboxes []struct {
			Name  string `json:"name"`
			State string `json:"state"`
		} `json:"sandboxes"`
	}
	if v.ask(ctx, v.unauditedEnv(), opSandboxes, nil, &found) != nil {
		return nil
	}
	var names []string
	for _, s := range found.Sandboxes {
		if s.State == paddock.StateRunning {
			names = append(names, s.Name)
		}
	}
	return names
}

// entries is the part of a listing that is used here.
type entries struct {
	Entries []struct {
		Path string `json:"path"`
		Kind string `json:"kind"`
		Size int64  `json:"size_bytes"`
	} `json:"entries"`
	Truncated bool `json:"truncated"`
}

func (v *view) top(ctx context.Context, at place, most int) (list []*sdk.Resource) {
	if most <= 0 {
		return nil
	}
	var found entries
	if v.ask(ctx, v.env, opList, at.where(map[string]any{"limit": most}), &found) != nil {
		return nil // reading the workspace reports the error
	}
	for _, e := range found.Entries[:min(len(found.Entries), most)] {
		if e.Kind != "file" {
			continue
		}
		file := at
		file.name = e.Path
		list = append(list, &sdk.Resource{URI: file.uri(), Name: text.QuoteName(e.Path), Size: e.Size})
	}
	return list
}

// read returns a resource, or as much of it as an answer has room for.
func (v *view) read(ctx context.Context, uri string, at place) (*sdk.ReadResourceResult, error) {
	content, err := v.content(ctx, at)
	if err != nil {
		return nil, resourceError(uri, err)
	}
	content.URI = uri
	if content.Blob == nil {
		content.Text = clip(content.Text, v.server.opts.Budget)
	}
	if content.Text == "" && content.Blob == nil {
		content.Blob = []byte{} // the SDK leaves an empty text out, and clients refuse contents that have neither
	}
	res := &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{content}}
	res.CacheScope = "private"
	return res, nil
}

// notFound returns the error for an unknown resource, with the code of the offered revisions.
func notFound(uri string) error {
	data, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		data = nil
	}
	return &jsonrpc.Error{Code: -32002, Message: "Resource not found", Data: data}
}

// resourceError returns an error of the protocol. Resources have no other kind of error.
func resourceError(uri string, err error) error {
	own := (*paddock.Error)(nil)
	if errors.As(err, &own) && own.Code == wire.CodeNotFound {
		return notFound(uri)
	}
	code := int64(jsonrpc.CodeInternalError)
	if len(policy.FieldErrors(err)) > 0 {
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: clip(errorText(err, func(hint string) string { return hint }), maxNotes)}
}

// moreKey is the metadata key of a resource that was not returned completely: how to read the
// rest.
const moreKey = "paddock/more"

// outputTail is how many lines of an output a resource has.
const outputTail = 1000

// content returns the content of a place. Clients show it to their models, so invisible
// characters in a file's text are shown by number, as file_read does.
func (v *view) content(ctx context.Context, at place) (*sdk.ResourceContents, error) {
	switch {
	case at.kind == inOutput:
		return v.output(ctx, at)
	case at.name == "" || strings.HasSuffix(at.name, "/"):
		return v.listing(ctx, at)
	}
	return v.file(ctx, at)
}

// fileText is the part of a file_read answer that is used here.
type fileText struct {
	Binary     bool   `json:"binary"`
	Size       int64  `json:"size_bytes"`
	Text       string `json:"text"`
	NextLine   int64  `json:"next_line"`
	Content    []byte `json:"content_base64"`
	NextOffset int64  `json:"next_offset"`
}

func (v *view) file(ctx context.Context, at place) (*sdk.ResourceContents, error) {
	var got fileText
	if err := v.ask(ctx, v.env, opRead, at.where(map[string]any{"path": at.name}), &got); err != nil {
		return nil, err
	}
	if !got.Binary {
		c := &sdk.ResourceContents{MIMEType: "text/plain", Text: text.EncodeHidden(got.Text)}
		if got.NextLine > 0 {
			c.Meta = sdk.Meta{moreKey: fmt.Sprintf("the file has %d bytes; %s with start_line %d reads on", got.Size, opRead, got.NextLine)}
		}
		return c, nil
	}
	got = fileText{}
	if err := v.ask(ctx, v.env, opRead, at.where(map[string]any{"path": at.name, "encoding": "base64"}), &got); err != nil {
		return nil, err
	}
	c := &sdk.ResourceContents{MIMEType: "application/octet-stream", Blob: got.Content}
	if c.Blob == nil {
		c.Blob = []byte{}
	}
	if got.NextOffset > 0 {
		c.Meta = sdk.Meta{moreKey: fmt.Sprintf("the file has %d bytes; %s with offset %d reads on", got.Size, opRead, got.NextOffset)}
	}
	return c, nil
}

// listing returns a directory: one line per entry, with a "/" after directories.
func (v *view) listing(ctx context.Context, at place) (*sdk.ResourceContents, error) {
	in := at.where(map[string]any{"limit": 1000})
	if at.name != "" {
		in["path"] = strings.TrimSuffix(at.name, "/")
	}
	var found entries
	if err := v.ask(ctx, v.env, opList, in, &found); err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, e := range found.Entries {
		b.WriteString(text.QuoteName(e.Path))
		if e.Kind == "directory" {
			b.WriteByte('/')
		}
		b.WriteByte('\n')
	}
	c := &sdk.ResourceContents{MIMEType: "text/plain", Text: b.String()}
	if found.Truncated {
		c.Meta = sdk.Meta{moreKey: opList + " lists the rest"}
	}
	return c, nil
}

func (v *view) output(ctx context.Context, at place) (*sdk.ResourceContents, error) {
	var got struct {
		Text   string `json:"text"`
		Cursor int64  `json:"cursor"`
		Total  int64  `json:"total_bytes"`
		EOF    bool   `json:"eof"`
	}
	if err := v.ask(ctx, v.env, opOutput, map[string]any{"output": at.name, "tail": outputTail}, &got); err != nil {
		return nil, err
	}
	c := &sdk.ResourceContents{MIMEType: "text/plain", Text: plain(got.Text)}
	if got.Cursor > 0 || !got.EOF {
		c.Meta = sdk.Meta{moreKey: fmt.Sprintf("these bytes begin at %d of %d so far; %s reads the rest", got.Cursor, got.Total, opOutput)}
	}
	return c, nil
}
