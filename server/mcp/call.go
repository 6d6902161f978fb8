package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/wire"
)

// cancelGrace is how long a cancelled call may take to report what became of what it started,
// before it is answered without that.
const cancelGrace = 2 * time.Second

// answer is the result of an operation.
type answer struct {
	out any
	err error
}

// call runs an operation for a client.
func (v *view) call(ctx context.Context, req *sdk.CallToolRequest, o *op.Op) (*sdk.CallToolResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(v.ctx, cancel)()
	if err := v.checkHold(); err != nil {
		return v.render(o, answer{err: err}, ""), nil
	}
	if !v.calls.begin() {
		return v.render(o, answer{err: errEnding}, ""), nil
	}
	leave, err := v.limits.enter(ctx, cancel, req.Session, o.Hints.Control)
	if err != nil {
		v.calls.done()
		return v.render(o, answer{err: err}, ""), nil
	}
	input := []byte(req.Params.Arguments)
	if len(input) == 0 || string(input) == "null" {
		input = []byte("{}")
	}
	progress := v.progress(ctx, req, o)
	done := make(chan answer, 1)
	go func() {
		defer v.calls.done()
		defer leave()
		done <- v.do(ctx, o, input, progress)
	}()
	a := wait(ctx, o.Name, done)
	return v.render(o, a, progress.stop()), nil
}

var errEnding = &paddock.Error{Message: "cannot begin: the server is ending", Code: wire.CodeGone}

// wait returns the answer, or, cancelGrace after ctx has ended, an error.
func wait(ctx context.Context, name string, done <-chan answer) answer {
	select {
	case a := <-done:
		return a
	case <-ctx.Done():
	}
	late := time.NewTimer(cancelGrace)
	defer late.Stop()
	select {
	case a := <-done:
		return a
	case <-late.C:
		return answer{err: &paddock.Error{Message: "cannot finish " + name + ": it was cancelled, and what it started is being ended"}}
	}
}

// do calls the operation. A panic becomes an error of this call alone.
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
		Message: "cannot do " + what + ": internal error",
		Hint:    "this is a bug in Paddock; the server's log has the stack trace. Other calls are not affected",
	}
}

// render turns an answer into a result within the budget, with notes before it. If answers are
// structured, text and structured content get half of the budget each.
func (v *view) render(o *op.Op, a answer, notes string) *sdk.CallToolResult {
	room := v.server.opts.Budget
	if v.server.opts.Structured {
		room /= 2
	}
	text, say := "", v.say(o)
	if c, ok := a.out.(contracted); ok && o.Description != "" && a.err == nil {
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

// encode encodes an output as JSON, without escapes for HTML.
func encode(out any) (json.RawMessage, error) {
	var b jsonBuffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return nil, err
	}
	return json.RawMessage(b.bytes()), nil
}
