package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
)

// sessionError is the answer to a line that nothing came of.
type sessionError struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Status string          `json:"status"` // error
	Text   string          `json:"text"`
	Error  string          `json:"error"`
	Hint   string          `json:"hint,omitempty"`
}

// maxEcho bounds an id that is repeated, in bytes.
const maxEcho = 1 << 10

// answer takes a line of JSON and writes one.
func (t *talk) answer(ctx context.Context, text []byte) error {
	id, out, err := t.ask(ctx, text)
	if ctx.Err() != nil {
		err = &paddock.Error{Message: "cannot go on: the session was told to end"}
	}
	if err != nil {
		return t.write(sessionError{ID: id, Status: "error", Text: err.Error(), Error: err.Error(), Hint: op.HintOf(err)})
	}
	answer, err := withID(id, out)
	if err != nil {
		return err
	}
	return t.write(answer)
}

// ask takes a line apart and calls the operation that it asks for.
func (t *talk) ask(ctx context.Context, text []byte) (id json.RawMessage, out any, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return nil, nil, &paddock.Error{Message: "cannot read the request: it is not a JSON object on one line",
			Hint: `{"command": "…"} runs a command`}
	}
	if id = fields["id"]; len(id) > maxEcho {
		return nil, nil, &paddock.Error{Message: fmt.Sprintf("cannot use the id: it has more than %d bytes", maxEcho)}
	}
	delete(fields, "id")
	o, err := t.operation(fields["op"])
	if err != nil {
		return id, nil, err
	}
	if _, given := fields["session_id"]; !given && o.Name != "session_open" && o.Name != "session_list" {
		fields["session_id"] = json.RawMessage(`"` + mainSession + `"`)
	}
	delete(fields, "op")
	if c := bytes.TrimSpace(fields["command"]); o.Name == t.run.Name && len(c) > 0 && c[0] != '"' && string(fields["restart"]) != "true" {
		return id, nil, &paddock.Error{Message: needCommand}
	}
	input, err := json.Marshal(fields)
	if err != nil {
		return id, nil, err
	}
	out, err = o.Call(ctx, t.env, input, nil)
	o.NameFields(err, input, op.JSONName)
	return id, out, err
}

// operation finds the operation that a line names.
func (t *talk) operation(name json.RawMessage) (op.Op, error) {
	if name == nil {
		return t.run, nil
	}
	var text string
	if json.Unmarshal(name, &text) == nil {
		for _, o := range Ops() {
			if o.Name == text && o.Lasting {
				return o, nil
			}
		}
	}
	return op.Op{}, &paddock.Error{Message: "cannot do what op names: there is no such operation",
		Hint: "session_open, session_run, session_restart, session_close or session_list"}
}

// withID adds an id to an answer.
func withID(id json.RawMessage, out any) (any, error) {
	if id == nil {
		return out, nil
	}
	text, err := json.Marshal(out) // an object that is never empty
	if err != nil {
		return nil, err
	}
	return json.RawMessage(`{"id":` + string(id) + "," + string(text[1:])), nil
}

func (t *talk) write(answer any) error {
	enc := json.NewEncoder(t.stream.Stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(answer)
}
