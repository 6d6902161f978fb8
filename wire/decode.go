package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"unicode/utf8"
)

// DecodeRequest reads a request line into v, a pointer to a request type.
// Unknown fields are ignored. Every error is an *Error with CodeBadRequest,
// or CodeTooLarge; where one field is at fault, Object names it.
func DecodeRequest(line []byte, v any) error {
	switch {
	case len(line) == 0:
		return Errorf(CodeBadRequest, "cannot read the request: the line is empty")
	case !utf8.Valid(line):
		return Errorf(CodeBadRequest, "cannot read the request: it is not valid UTF-8")
	case !isObject(line) && json.Valid(line):
		return Errorf(CodeBadRequest, "request must be a JSON object")
	case tooMany(line):
		return Errorf(CodeTooLarge, "cannot read the request: it holds more than %d values", MaxValues)
	}
	line = exactKeys(line, v)
	err := decodeInto(line, v)
	if err == nil {
		return nil
	}
	// What comes of a second try is what counts, where there is one.
	if loose, ok := loosen(line, v); ok && isTypeError(err) {
		err = decodeInto(loose, v)
	}
	if err != nil {
		return requestError(err, v)
	}
	return nil
}

// tooMany says whether a line has more than MaxValues values, which take many
// times the line's memory. It reads what is perhaps no JSON and then says
// anything.
func tooMany(line []byte) bool {
	if len(line) < 2*MaxValues { // a value and what is between two take two bytes
		return false
	}
	values := 1
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ',':
			values++
		case '"':
			i = stringEnd(line, i+1)
		}
	}
	return values > MaxValues
}

// decodeInto decodes into a request that has its defaults and nothing else.
func decodeInto(line []byte, v any) error {
	reflect.ValueOf(v).Elem().SetZero()
	if d, ok := v.(interface{ setDefaults() }); ok {
		d.setDefaults()
	}
	return json.Unmarshal(line, v)
}

// Head is what every request has.
type Head struct {
	Action    string `json:"action"` // "exec" where a request names none
	KeepAlive bool   `json:"keep_alive"`
	// Token is the secret that a listener may ask for.
	Token string `json:"token"`
}

func (h *Head) setDefaults() { h.Action = Exec.Name }

// HeadOf reads what every request has. Its errors are those of DecodeRequest.
func HeadOf(line []byte) (Head, error) {
	var h Head
	err := DecodeRequest(line, &h)
	return h, err
}

// DecodeAnswer reads an answer line into v. An answer with the key "error" is
// returned as an *Error with what the agent said, made safe to print; an
// answer that cannot be read is an *Error with CodeInternal.
func DecodeAnswer(line []byte, v any) error {
	var probe struct {
		Error json.RawMessage `json:"error"`
	}
	if !isObject(line) {
		return Errorf(CodeInternal, "cannot read the agent's answer: it is not a JSON object")
	}
	if err := json.Unmarshal(line, &probe); err != nil {
		return answerError(err)
	}
	if probe.Error != nil {
		return decodeError(line, probe.Error)
	}
	if err := json.Unmarshal(line, v); err != nil {
		return answerError(err)
	}
	return nil
}

// DecodeControl reads the payload of a control frame. Every error is an
// *Error with CodeBadRequest. Where a field alone is at fault, Object names it
// and the control has its type: what follows it can still be understood.
func DecodeControl(payload []byte) (Control, error) {
	var c Control
	if !isObject(payload) {
		return c, Errorf(CodeBadRequest, "cannot read the control frame: it is not a JSON object")
	}
	err := json.Unmarshal(payload, &c)
	switch {
	case err != nil && !isTypeError(err):
		return Control{}, Errorf(CodeBadRequest, "cannot read the control frame: %v", err)
	case c.Type == "":
		return Control{}, Errorf(CodeBadRequest, "cannot read the control frame: it has no type")
	case err != nil:
		e := requestError(err, &c)
		e.Message = "cannot read the control frame: " + e.Message
		return Control{Type: c.Type}, e
	}
	return c, nil
}

// isObject says whether JSON, if line is JSON at all, is an object.
func isObject(line []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(line, space), []byte("{"))
}

// space is what JSON takes for white space.
const space = " \t\r\n"

func isTypeError(err error) bool {
	var mismatch *json.UnmarshalTypeError
	return errors.As(err, &mismatch)
}

func answerError(err error) *Error {
	return Errorf(CodeInternal, "cannot read the agent's answer: %s", printable(err.Error()))
}

// decodeError makes an *Error of an answer whose key "error" holds message.
// Only the message is needed; what is wrong with other keys is overlooked.
func decodeError(line, message []byte) error {
	var text *string
	if err := json.Unmarshal(message, &text); err != nil || text == nil {
		return Errorf(CodeInternal, "cannot read the agent's answer: its error is not a string")
	}
	e := &Error{}
	if err := json.Unmarshal(line, e); err != nil && !isTypeError(err) {
		return answerError(err)
	}
	return e.fromPeer()
}

// requestError says which field of the request v is wrong, and what it must be.
func requestError(err error, v any) *Error {
	var mismatch *json.UnmarshalTypeError
	var typed *Error
	if errors.As(err, &typed) {
		return typed
	}
	if !errors.As(err, &mismatch) || mismatch.Field == "" {
		return Errorf(CodeBadRequest, "cannot read the request: %v", err)
	}
	name := mismatch.Field
	if owner, ok := v.(interface{ envOwner() string }); ok && name == "env" {
		name = owner.envOwner() + " env"
		if mismatch.Type.Kind() == reflect.String {
			name = "a value of " + name
		}
	}
	e := Errorf(CodeBadRequest, "%s must be %s", name, kindName(mismatch.Type))
	e.Object = mismatch.Field
	return e
}

// kindName says in JSON's words what a field of Go type t takes.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Map, reflect.Struct:
		return "a JSON object"
	case reflect.Slice:
		return "a list"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Uint16:
		return "a whole number from 0 to 65535"
	case reflect.Uint64:
		return "a whole number, not negative"
	default:
		return "a whole number"
	}
}
