package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/wire"
)

// patience is how long a call that was cancelled may take to say what became of
// what it started, before it is answered without.
const patience = 2 * time.Second

// answer is how an operation ended.
type answer struct {
	out any
	err error
}

// call does an operation for a client.
func (v *view) call(ctx context.Context, req *sdk.CallToolRequest, o *op.Op) (*sdk.CallToolResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(v.ctx, cancel)()
	if err := v.held(); err != nil {
		return v.render(o, answer{err: err}, ""), nil
	}
	if !v.work.begin() {
		return v.render(o, answer{err: errEnding}, ""), nil
	}
	leave, err := v.slots.enter(ctx, cancel, req.Session, o.Hints.Control)
	if err != nil {
		v.work.done()
		return v.render(o, answer{err: err}, ""), nil
	}
	input := []byte(req.Params.Arguments)
	if len(input) == 0 || string(input) == "null" {
		input = []byte("{}")
	}
	progress := v.progress(ctx, req, o)
	done := make(chan answer, 1)
	go func() {
		defer v.work.done()
		defer leave()
		done <- v.do(ctx, o, input, progress)
	}()
	a := wait(ctx, o.Name, done)
	return v.render(o, a, progress.stop()), nil
}

var errEnding = &paddock.Error{Message: "cannot begin: the server is ending", Code: wire.CodeGone}

// wait gives the answer, or, soon after ctx has ended, says that there is none.
func wait(ctx context.Context, name string, done <-chan answer) answer {
	select {
	case a := <-done:
		return a
	case <-ctx.Done():
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case a := <-done:
		return a
	case <-late.C:
		return answer{err: &paddock.Error{Message: "cannot finish " + name + ": it was cancelled, and what it started is being ended"}}
	}
}

// do calls the operation. A panic is its answer, and nobody else's.
func (v *view) do(ctx context.Context, o *op.Op, input []byte, p *progress) (a answer) {
	defer v.recovered(o.Name, &a.err)
	a.out, a.err = o.Call(ctx, v.env, input, p.stream())
	o.NameFields(a.err, input, op.JSONName)
	if errors.Is(a.err, context.Canceled) && ctx.Err() != nil {
		a.err = errors.Join(&paddock.Error{Message: "cannot finish " + o.Name + ": it was cancelled"}, a.err)
	}
	return a
}

func errPanic(what string) error {
	return &paddock.Error{
		Message: "cannot do " + what + ": it failed in a way that nobody foresaw",
		Hint:    "that is a mistake of Paddock's own; the log of the server says where. Other calls are not affected",
	}
}

// render makes a result of an answer, within the budget; notes stand beside it.
// Where answers are structured, text and fields have one half of it each.
func (v *view) render(o *op.Op, a answer, notes string) *sdk.CallToolResult {
	room := v.server.opts.Budget
	if v.server.opts.Structured {
		room /= 2
	}
	text, say := "", v.say(o)
	if c, ok := a.out.(contracted); ok && o.Description != "" && a.err == nil {
		return v.contract(c, say, notes)
	}
	res := &sdk.CallToolResult{}
	if a.err != nil && a.out != nil && reflect.ValueOf(a.out).IsZero() {
		a.out = nil // there is no answer, not an empty one
	}
	if a.out != nil {
		a.out = hinted(a.out, say)
		text = tell(o, a.out, say)
		if v.server.opts.Structured {
			fitted, cut, err := fit(a.out, room)
			switch {
			case err != nil:
				a.err = errors.Join(a.err, err)
			case cut:
				text += cutNote(room)
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
		text = errorText(a.err, say) + join(text)
	}
	text = clip(plain(text), room-utf8.RuneCountInString(notes)) + notes
	if text = strings.TrimPrefix(text, "\n"); text == "" {
		text = "done" // some clients show nothing else
	}
	res.Content = []sdk.Content{&sdk.TextContent{Text: text}}
	return res
}

func join(text string) string {
	if text == "" {
		return ""
	}
	return "\n\n" + text
}

// encode writes an output as JSON, with characters as they are.
func encode(out any) (json.RawMessage, error) {
	var b jsonBuffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return nil, err
	}
	return json.RawMessage(b.bytes()), nil
}
