package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
)

// render turns an answer into a result within the budget, with notes before it. If answers are
// structured, text and structured content get half of the budget each.
func (v *view) render(o *op.Op, a answer, notes string) *sdk.CallToolResult {
	room := v.server.opts.Budget
	if v.server.opts.Structured {
		room /= 2
	}
	text, say := "", v.say(o)
	if c, ok := a.out.(contracted); ok && a.err == nil {
		return v.contract(op.RenderHints(c, say), notes)
	}
	res := &sdk.CallToolResult{}
	if a.err != nil && a.out != nil && reflect.ValueOf(a.out).IsZero() {
		a.out = nil // a zero output beside an error means that there is none
	}
	if a.out != nil {
		a.out = op.RenderHints(a.out, say)
		text = tell(o, a.out, say)
		if v.server.opts.Structured {
			fitted, cut, err := fit(a.out, room)
			switch {
			case err != nil:
				a.err = errors.Join(a.err, err)
			case cut:
				text += fmt.Sprintf("\n[the structured content was cut to %d characters: ask for less, or for one part after another]", room)
			}
			if err == nil {
				res.StructuredContent = fitted
			}
		}
		if f, ok := a.out.(op.Failer); ok {
			res.IsError = f.Failed()
		}
	}
	if a.err != nil {
		res.IsError = true
		res.Meta = sdk.Meta{errorKey: errorData(a.err, say)}
		if text != "" {
			text = "\n\n" + text
		}
		text = errorText(a.err, say) + text
	}
	text = clip(plain(text), room-utf8.RuneCountInString(notes))
	text = strings.Trim(notes+"\n"+text, "\n") // before anything that a command may have printed
	if text == "" {
		text = "done" // some clients show nothing else
	}
	res.Content = []sdk.Content{&sdk.TextContent{Text: text}}
	return res
}

// encode encodes an output as JSON, without escapes for HTML, and without the lone surrogates that
// stand for bytes: clients that read strictly would refuse the whole answer.
func encode(out any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(out)
	return osstring.Plain(bytes.TrimRight(b.Bytes(), "\n")), err
}

// minCut is the shortest string that may be cut, in characters: shorter ones are names, times
// or words that a schema lists.
const minCut = 200

// fit encodes an output within most characters, and reports whether it had to cut it.
// Operations bound their outputs; fit is for outputs that exceed the budget anyway. It cuts
// long strings in the middle, then lists at their ends, so that the result still fits its
// schema. An output that is still too long is an error.
func fit(out any, most int) (_ json.RawMessage, cut bool, err error) {
	text, err := encode(out)
	if err != nil {
		return nil, false, fmt.Errorf("cannot encode the answer: %w", err)
	}
	if len(text) <= most || utf8.RuneCount(text) <= most {
		return text, false, nil
	}
	var tree any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
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

// cutStrings returns a copy whose strings have no more than about most characters.
func cutStrings(tree any, most int) any {
	switch node := tree.(type) {
	case string:
		n := utf8.RuneCountInString(node)
		if n <= most {
			return node
		}
		return text.CutMiddle(node, most, fmt.Sprintf("[… %d characters cut …]", n-most))
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
// one; otherwise the contract's bounds apply. Notes follow as a separate text.
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

// visible escapes characters in JSON that control a terminal or are invisible. The meaning of
// the JSON does not change.
func visible(answer json.RawMessage) json.RawMessage {
	if !strings.ContainsFunc(string(answer), func(r rune) bool { return !text.IsShown(r) }) {
		return answer
	}
	var b strings.Builder
	for _, r := range string(answer) {
		switch {
		case text.IsShown(r):
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
