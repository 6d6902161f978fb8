package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// loosen rewrites a request as clients of this protocol have always been
// allowed to write it, so that it decodes into v: a number may be a string
// that holds one, or have a fraction, which is cut off where a whole number
// is needed; a string may be a number or a truth value; and anything may be
// true or false. It changes only what has another type than v's field, and
// leaves alone what nothing can be made of.
func loosen(line []byte, v any) ([]byte, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil {
		return nil, false
	}
	t := reflect.TypeOf(v).Elem()
	for name, value := range fields {
		if f, ok := fieldOf(t, name); ok {
			fields[name] = coerce(value, f)
		}
	}
	loose, err := json.Marshal(fields)
	return loose, err == nil
}

// fieldOf finds the type of the field that JSON calls name.
func fieldOf(t reflect.Type, name string) (reflect.Type, bool) {
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return t.Field(i).Type, true
		}
	}
	return nil, false
}

// coerce makes a value fit type t where it can, and is the value itself where
// it cannot.
func coerce(value json.RawMessage, t reflect.Type) json.RawMessage {
	if bytes.Equal(value, []byte("null")) {
		return value
	}
	switch t.Kind() {
	case reflect.Pointer:
		return coerce(value, t.Elem())
	case reflect.String:
		return coerceString(value)
	case reflect.Bool:
		return coerceBool(value)
	case reflect.Int, reflect.Int64:
		return coerceNumber(value, true)
	case reflect.Float64:
		return coerceNumber(value, false)
	case reflect.Map:
		return coerceMap(value, t.Elem())
	case reflect.Slice:
		return coerceList(value, t.Elem())
	default:
		return value
	}
}

// coerceString keeps a number as it is written; a truth value becomes True or
// False.
func coerceString(value json.RawMessage) json.RawMessage {
	switch c := value[0]; {
	case c == 't':
		return json.RawMessage(`"True"`)
	case c == 'f':
		return json.RawMessage(`"False"`)
	case isNumber(value):
		return json.RawMessage(`"` + string(value) + `"`)
	default:
		return value
	}
}

// coerceBool takes nothing for false: 0, "", [] and {}.
func coerceBool(value json.RawMessage) json.RawMessage {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return value
	}
	truth := true
	switch v := v.(type) {
	case bool:
		truth = v
	case float64:
		truth = v != 0
	case string:
		truth = v != ""
	case []any:
		truth = len(v) > 0
	case map[string]any:
		truth = len(v) > 0
	}
	return strconv.AppendBool(nil, truth)
}

// maxDigits bounds a number that comes as a string.
const maxDigits = 64

func coerceNumber(value json.RawMessage, whole bool) json.RawMessage {
	text := string(value)
	var s string
	switch {
	case text == "true":
		return json.RawMessage("1")
	case text == "false":
		return json.RawMessage("0")
	case json.Unmarshal(value, &s) == nil && len(s) <= maxDigits:
		text = strings.TrimPrefix(strings.TrimSpace(s), "+")
		if text == "" || !isNumber([]byte(text)) {
			return value
		}
	}
	if _, err := strconv.ParseInt(text, 10, 64); err == nil || !whole {
		return json.RawMessage(text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(f) >= 1<<63 {
		return value
	}
	return strconv.AppendInt(nil, int64(f), 10)
}

func coerceMap(value json.RawMessage, t reflect.Type) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(value, &m) != nil {
		return value
	}
	for name := range m {
		m[name] = coerce(m[name], t)
	}
	return remarshal(m, value)
}

func coerceList(value json.RawMessage, t reflect.Type) json.RawMessage {
	var list []json.RawMessage
	if t.Kind() == reflect.Uint8 || json.Unmarshal(value, &list) != nil {
		return value
	}
	for i := range list {
		list[i] = coerce(list[i], t)
	}
	return remarshal(list, value)
}

func remarshal(v any, otherwise json.RawMessage) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		return otherwise
	}
	return text
}

// isNumber says whether value, if it is JSON at all, is a number.
func isNumber(value []byte) bool {
	c := value[0]
	return (c == '-' || '0' <= c && c <= '9') && json.Valid(value)
}
