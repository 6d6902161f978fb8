package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"unicode/utf8"
)

// DecodeRequest reads a request line into v, a pointer to a request type.
// Unknown fields are ignored. Every error is an *Error with CodeBadRequest,
// or CodeTooLarge; if one field is at fault, Object names it.
func DecodeRequest(line []byte, v any) error {
	switch {
	case len(line) == 0:
		return Errorf(CodeBadRequest, "cannot read the request: the line is empty")
	case !utf8.Valid(line):
		return Errorf(CodeBadRequest, "cannot read the request: it is not valid UTF-8")
	case !isObject(line) && json.Valid(line):
		return Errorf(CodeBadRequest, "request must be a JSON object")
	case hasTooManyValues(line):
		return Errorf(CodeTooLarge, "cannot read the request: it holds more than %d values", MaxValues)
	}
	line = exactKeys(line, v)
	err := decodeInto(line, v)
	if err == nil {
		return nil
	}
	// If there is a second try, its outcome counts.
	if loose, ok := loosen(line, v); ok && isTypeError(err) {
		err = decodeInto(loose, v)
	}
	if err != nil {
		return requestError(err, v)
	}
	return nil
}

// hasTooManyValues reports whether a line has more than MaxValues values,
// which would take many times the line's memory. For a line that is not JSON
// the answer is arbitrary.
func hasTooManyValues(line []byte) bool {
	if len(line) < 2*MaxValues { // a value and a comma take two bytes
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

// decodeInto resets v to its defaults and decodes line into it.
func decodeInto(line []byte, v any) error {
	reflect.ValueOf(v).Elem().SetZero()
	if d, ok := v.(interface{ setDefaults() }); ok {
		d.setDefaults()
	}
	return json.Unmarshal(line, v)
}

// Head holds the fields that every request has.
type Head struct {
	Action    string `json:"action"` // "exec" if a request names none
	KeepAlive bool   `json:"keep_alive"`
	// Token is the secret that a listener may require.
	Token string `json:"token"`
}

func (h *Head) setDefaults() { h.Action = Exec.Name }

// HeadOf reads the fields that every request has. It returns the same errors as
// DecodeRequest.
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
		// Only the message is needed; mistakes in other keys are ignored.
		var text *string
		if err := json.Unmarshal(probe.Error, &text); err != nil || text == nil {
			return Errorf(CodeInternal, "cannot read the agent's answer: its error is not a string")
		}
		e := &Error{}
		if err := json.Unmarshal(line, e); err != nil && !isTypeError(err) {
			return answerError(err)
		}
		return e.fromPeer()
	}
	if err := json.Unmarshal(line, v); err != nil {
		return answerError(err)
	}
	return nil
}

// DecodeControl reads the payload of a control frame. Every error is an
// *Error with CodeBadRequest. If only a field is at fault, Object names it and
// the control has its type: the frames after it can still be understood.
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

// isObject reports whether line, provided that it is JSON, is an object.
func isObject(line []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(line, space), []byte("{"))
}

// space is the white space of JSON.
const space = " \t\r\n"

func isTypeError(err error) bool {
	var mismatch *json.UnmarshalTypeError
	return errors.As(err, &mismatch)
}

func answerError(err error) *Error {
	return Errorf(CodeInternal, "cannot read the agent's answer: %s", printable(err.Error()))
}

// requestError returns an error that says which field of the request v is
// wrong, and what it must be.
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

// kindName names the JSON values that a field of Go type t accepts.
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

// exactKeys drops the fields of a request whose names differ from those of
// v's fields only in case. Package json would accept them as the fields
// themselves, while every other reader of the protocol ignores them: a
// request could then have one meaning for a program that checks it and another
// for the agent.
func exactKeys(line []byte, v any) []byte {
	isOdd := func(r rune) bool { return r != '_' && (r < 'a' || 'z' < r) && (r < '0' || '9' < r) }
	hasOdd := false
	for name := range topKeys(line) {
		// All real fields consist of small letters, digits and underscores.
		if hasOdd = bytes.ContainsFunc(name, isOdd); hasOdd {
			break
		}
	}
	var fields map[string]json.RawMessage
	if !hasOdd || json.Unmarshal(line, &fields) != nil { // decoding will meet the error, too
		return line
	}
	t := reflect.TypeOf(v).Elem()
	for name := range fields {
		if _, ok := fieldOf(t, name); !ok {
			delete(fields, name)
		}
	}
	return remarshal(fields, line)
}

// TokenOf finds the token in a line of which only the beginning may have
// arrived, and reports whether the complete token has arrived. It does not check the
// rest of the line.
func TokenOf(begun []byte) (token string, found bool) {
	for name, end := range topKeys(begun) {
		if string(name) != "token" {
			continue
		}
		rest, _ := bytes.CutPrefix(bytes.TrimLeft(begun[min(end+1, len(begun)):], space), []byte(":"))
		if rest = bytes.TrimLeft(rest, space); len(rest) == 0 || rest[0] != '"' {
			return "", false
		}
		if end = stringEnd(rest, 1); end == len(rest) {
			return "", false
		}
		return token, json.Unmarshal(rest[:end+1], &token) == nil
	}
	return "", false
}

// topKeys yields the keys of the outermost object, as they are written, with
// the position of their closing quote. The line may be incomplete. If it is
// not JSON, the keys are arbitrary.
func topKeys(line []byte) iter.Seq2[[]byte, int] {
	return func(yield func([]byte, int) bool) {
		depth, isKey := 0, false
		for i := 0; i < len(line); i++ {
			switch line[i] {
			case '{', '[':
				depth++
				isKey = depth == 1
			case '}', ']':
				depth--
			case ',':
				isKey = depth == 1
			case '"':
				end := stringEnd(line, i+1)
				if isKey && !yield(line[i+1:end], end) {
					return
				}
				isKey, i = false, end
			}
		}
	}
}

// stringEnd returns the position of the closing quote of the string whose
// text begins at i, or the length of line if it has none.
func stringEnd(line []byte, i int) int {
	for {
		quote := bytes.IndexByte(line[i:], '"')
		if quote < 0 {
			return len(line)
		}
		escaped := false
		for j := i + quote - 1; j >= i && line[j] == '\\'; j-- {
			escaped = !escaped
		}
		if !escaped {
			return i + quote
		}
		i += quote + 1
	}
}

// decodeList reads a list with a bound. It stops at the first element too many:
// an element of three bytes may take a hundred in memory.
func decodeList[T any](data []byte, into *[]T, most int, name string) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	open, err := dec.Token()
	if err != nil || open == nil {
		return err
	}
	if open != json.Delim('[') {
		return errors.New(name + " must be a list")
	}
	var list []T
	for dec.More() {
		if len(list) == most {
			return fmt.Errorf("more than %d %s", most, name)
		}
		var one T
		if err := dec.Decode(&one); err != nil {
			return err
		}
		list = append(list, one)
	}
	*into = list
	return nil
}

// Warm makes package json prepare the types of an exec before their first
// use. Call it while waiting for something else: it takes a few hundred
// microseconds, which would otherwise be most of a short command's time.
func Warm() {
	request, err := encode(ExecRequest{Action: Exec.Name, Argv: OSStrings{""}, Env: OSEnv{"": ""}})
	if err == nil {
		_ = DecodeRequest(request, new(ExecRequest))
	}
	if started, err := encode(ExecStarted{}); err == nil {
		_ = DecodeAnswer(started, new(ExecStarted))
	}
	if control, err := encode(Control{Result: &ExecResult{}}); err == nil {
		_, _ = DecodeControl(control)
	}
}
