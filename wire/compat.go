package wire

import (
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
)

// UnmarshalJSON reads a request as clients of this protocol have always been
// allowed to write it: a value of env may be a number or a truth value, and
// timeout_seconds may be a string that holds a number.
func (r *ExecRequest) UnmarshalJSON(line []byte) error {
	type plain ExecRequest
	lenient := struct {
		*plain
		Env     map[string]looseString `json:"env"`
		Timeout *looseNumber           `json:"timeout_seconds"`
	}{plain: (*plain)(r)}
	if err := json.Unmarshal(line, &lenient); err != nil {
		var mismatch *json.UnmarshalTypeError
		if errors.As(err, &mismatch) {
			mismatch.Field = strings.TrimPrefix(mismatch.Field, "plain.")
		}
		return err
	}
	r.TimeoutSeconds = (*float64)(lenient.Timeout)
	r.Env = nil
	if lenient.Env != nil {
		r.Env = make(map[string]string, len(lenient.Env))
	}
	for name, value := range lenient.Env {
		r.Env[name] = string(value)
	}
	return nil
}

// looseString is a string that may be written as a number, which is kept as
// it is written, or as a truth value, which becomes True or False.
type looseString string

// UnmarshalJSON reads any scalar but null.
func (s *looseString) UnmarshalJSON(data []byte) error {
	switch c := data[0]; {
	case c == '"':
		return json.Unmarshal(data, (*string)(s))
	case c == 't':
		*s = "True"
	case c == 'f':
		*s = "False"
	case c == '-', '0' <= c && c <= '9':
		*s = looseString(data)
	default:
		return &json.UnmarshalTypeError{Value: "value", Type: reflect.TypeFor[string]()}
	}
	return nil
}

// looseNumber is a number that may be written as a string.
type looseNumber float64

// UnmarshalJSON reads a finite number or a string that holds one.
func (n *looseNumber) UnmarshalJSON(data []byte) error {
	text := string(data)
	if data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	var value *float64
	if err := json.Unmarshal([]byte(text), &value); err == nil && value != nil {
		*n = looseNumber(*value)
		return nil
	}
	return &json.UnmarshalTypeError{Value: strconv.Quote(text), Type: reflect.TypeFor[float64]()}
}
