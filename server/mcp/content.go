package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/paddock-dev/paddock/internal/text"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// moreKey is where a resource says that there is more of it than was given, and
// how the rest is read.
const moreKey = "paddock/more"

// outputTail is how many lines of an output a resource is.
const outputTail = 1000

// content is what is at a place. Clients put it before their models: what of a file's
// text cannot be seen is there by number, as file_read shows it.
func (v *view) content(ctx context.Context, at place) (*sdk.ResourceContents, error) {
	switch {
	case at.kind == inOutput:
		return v.output(ctx, at)
	case at.name == "" || strings.HasSuffix(at.name, "/"):
		return v.listing(ctx, at)
	}
	return v.file(ctx, at)
}

// fileText is the part of a file_read's answer that is read here.
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
		c := &sdk.ResourceContents{MIMEType: "text/plain", Text: text.Reveal(got.Text)}
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

// listing is a directory: a line for each entry, those of directories with a "/".
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
		b.WriteString(text.NameText(e.Path))
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
