package mcp

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/op"
)

// contracted is an answer of a tool whose form a contract fixes: its JSON, whole.
// Contracted leaves so many bytes of each text that was read or printed.
type contracted interface {
	op.Failer
	Contracted(say func(string) string, most int) any
}

// contract makes a result of such an answer. The budget counts only where the
// operator has written one: else the contract's bounds hold. Notes follow in a text of
// their own.
func (v *view) contract(c contracted, say func(string) string, notes string) *sdk.CallToolResult {
	room := math.MaxInt
	if v.server.bounded {
		room = v.server.opts.Budget - utf8.RuneCountInString(notes)
	}
	if v.server.opts.Structured && v.server.bounded {
		room /= 2
	}
	res := &sdk.CallToolResult{IsError: c.Failed()}
	for most := room; ; most = most * 2 / 3 {
		text, err := encode(c.Contracted(say, most))
		if err != nil {
			res.IsError = true
			res.Content = []sdk.Content{&sdk.TextContent{Text: "cannot encode the answer: " + oneLine(err.Error())}}
			return res
		}
		text = visible(text)
		if most > 0 && utf8.RuneCount(text) > room {
			continue
		}
		res.Content = []sdk.Content{&sdk.TextContent{Text: string(text)}}
		if v.server.opts.Structured {
			res.StructuredContent = text
		}
		break
	}
	if notes = strings.TrimSpace(notes); notes != "" {
		res.Content = append(res.Content, &sdk.TextContent{Text: notes})
	}
	return res
}

// visible is JSON whose texts write as escapes what a terminal would obey, or not
// show: it means the same.
func visible(text json.RawMessage) json.RawMessage {
	if plain(string(text)) == string(text) {
		return text
	}
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case plain(string(r)) == string(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return json.RawMessage(b.String())
}
