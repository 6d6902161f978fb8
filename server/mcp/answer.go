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

// jsonBuffer takes what an encoder writes, without the line feed at its end.
type jsonBuffer struct{ bytes.Buffer }

func (b *jsonBuffer) bytes() []byte { return bytes.TrimRight(b.Bytes(), "\n") }

// minCut is the length, in characters, from which a string may be cut: what is
// shorter is a name, a time or a word that a schema lists.
const minCut = 200

// fit encodes an output within most characters. Operations bound what they
// return; this is for what slipped through. Long strings are cut in their middle,
// then lists lose their ends: both leave what the schema says true. What has no
// room even so is an error.
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

func cutNote(most int) string {
	return fmt.Sprintf("\n[the structured content was cut to %d characters: ask for less, or for one part after another]", most)
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

// cutStrings is a copy with no string of more than about most characters.
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

// cutLists is a copy with no list of more than most elements.
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
