package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
)

// jsonBuffer is a buffer for an encoder, without the newline at the end.
type jsonBuffer struct{ bytes.Buffer }

func (b *jsonBuffer) bytes() []byte { return bytes.TrimRight(b.Bytes(), "\n") }

// minCut is the shortest string that may be cut, in characters: shorter ones are names, times
// or words that a schema lists.
const minCut = 200

// fit encodes an output within most characters, and reports whether it had to cut it.
// Operations bound what they return; this is for outputs that exceed the budget all the same.
// Long strings are cut in the middle, then lists at their ends, so that the result still fits
// its schema. An output that is too long even so is an error.
func fit(out any, most int) (_ json.RawMessage, cut bool, err error) {
	text, err := encode(out)
	if err != nil {
		return nil, false, fmt.Errorf("cannot encode the answer: %w", err)
	}
	if len(text) <= most || utf8.RuneCount(text) <= most {
		return text, false, nil
	}
	tree, err := decodeTree(text)
	if err != nil {
		return nil, false, fmt.Errorf("cannot encode the answer: %w", err)
	}
	for length := most; length >= minCut; length = length * 2 / 3 {
		if text, ok := within(cutStrings(tree, length), most); ok {
			return text, true, nil
		}
	}
	for length := 1 << 16; length >= 0; length = (length - 1) / 2 {
		if text, ok := within(cutLists(cutStrings(tree, minCut), length), most); ok {
			return text, true, nil
		}
		if length == 0 {
			break
		}
	}
	return nil, false, &paddock.Error{Message: fmt.Sprintf("cannot show the whole answer: it has more than %d characters", most), Hint: "ask for less"}
}

func within(tree any, most int) (json.RawMessage, bool) {
	text, err := encode(tree)
	return text, err == nil && utf8.RuneCount(text) <= most
}

func decodeTree(text []byte) (tree any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	err = dec.Decode(&tree)
	return tree, err
}

// cutStrings returns a copy whose strings have no more than about most characters.
func cutStrings(tree any, most int) any {
	switch node := tree.(type) {
	case string:
		return middle(node, most)
	case []any:
		all := make([]any, len(node))
		for i := range node {
			all[i] = cutStrings(node[i], most)
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(node))
		for key, value := range node {
			all[key] = cutStrings(value, most)
		}
		return all
	}
	return tree
}

func middle(text string, most int) string {
	n := utf8.RuneCountInString(text)
	if n <= most {
		return text
	}
	return runes(text, most*2/3) + fmt.Sprintf("[… %d characters cut …]", n-most) + lastRunes(text, most-most*2/3)
}

// cutLists returns a copy whose lists have no more than most elements.
func cutLists(tree any, most int) any {
	switch node := tree.(type) {
	case []any:
		all := slices.Clone(node[:min(len(node), most)])
		for i := range all {
			all[i] = cutLists(all[i], most)
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(node))
		for key, value := range node {
			all[key] = cutLists(value, most)
		}
		return all
	}
	return tree
}

// contracted is the answer of a tool whose form a contract fixes: complete JSON. Contracted
// keeps no more than most bytes of each text that was read or printed.
type contracted interface {
	op.Failer
	Contracted(most int) any
}

// contract turns such an answer into a result. The budget applies only if the operator has set
// one; otherwise the contract's bounds apply. Notes follow in a text of their own.
func (v *view) contract(c contracted, notes string) *sdk.CallToolResult {
	room := math.MaxInt
	if v.server.bounded {
		room = v.server.opts.Budget - utf8.RuneCountInString(notes)
	}
	if v.server.opts.Structured && v.server.bounded {
		room /= 2
	}
	res := &sdk.CallToolResult{IsError: c.Failed()}
	for most := room; ; most = most * 2 / 3 {
		text, err := encode(c.Contracted(most))
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

// visible escapes characters in JSON that a terminal would obey or not show. The meaning stays
// the same.
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
