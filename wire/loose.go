package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// loosen rewrites a request so that it decodes into v although its types are
// wrong, as clients of this protocol have always been allowed to send it: a
// number may be a string that holds one, or have a fraction, which is cut off
// if a whole number is needed; a string may be a number or a truth value; and
// any value may be used as true or false. It changes only values whose type differs
// from the type of v's field, and leaves values alone that cannot be converted.
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

// fieldOf returns the type of the field that has this name in JSON.
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

// coerce converts a value to type t, or returns it unchanged if it cannot.
func coerce(value json.RawMessage, t reflect.Type) json.RawMessage {
	if bytes.Equal(value, []byte("null")) {
		return value
	}
	switch t.Kind() {
	case reflect.Pointer:
		return coerce(value, t.Elem())
	case reflect.String:
		// A number stays as it is written; a truth value becomes True or False.
		switch c := value[0]; {
		case c == 't':
			return json.RawMessage(`"True"`)
		case c == 'f':
			return json.RawMessage(`"False"`)
		case (c == '-' || '0' <= c && c <= '9') && json.Valid(value):
			return json.RawMessage(`"` + string(value) + `"`)
		}
	case reflect.Bool:
		return coerceBool(value)
	case reflect.Int, reflect.Int64:
		return coerceNumber(value, true)
	case reflect.Float64:
		return coerceNumber(value, false)
	case reflect.Map:
		var m map[string]json.RawMessage
		if json.Unmarshal(value, &m) == nil {
			for name := range m {
				m[name] = coerce(m[name], t.Elem())
			}
			return remarshal(m, value)
		}
	case reflect.Slice:
		var list []json.RawMessage
		if t.Elem().Kind() != reflect.Uint8 && json.Unmarshal(value, &list) == nil {
			for i := range list {
				list[i] = coerce(list[i], t.Elem())
			}
			return remarshal(list, value)
		}
	}
	return value
}

// coerceBool converts 0, "", [] and {} to false and everything else to true.
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

// coerceNumber reads a string as a number. If a whole number is needed, it
// cuts off the fraction of a number, but not of a string. A number beyond 64
// bits becomes the nearest one within, which the field's bounds then refuse.
func coerceNumber(value json.RawMessage, whole bool) json.RawMessage {
	text := string(value)
	var s string
	switch {
	case text == "true":
		return json.RawMessage("1")
	case text == "false":
		return json.RawMessage("0")
	case json.Unmarshal(value, &s) == nil:
		s = strings.TrimSpace(s)
		if len(s) > maxDigits || whole && !isWhole(s) {
			return value
		}
		text = strings.TrimLeft(strings.ReplaceAll(s, "_", ""), "+")
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsInf(f, 0) || math.IsNaN(f) || strings.ContainsAny(text, "xXpP"):
		return value
	case !whole:
		return json.RawMessage(strconv.FormatFloat(f, 'g', -1, 64))
	case f >= math.MaxInt64:
		return strconv.AppendInt(nil, math.MaxInt64, 10)
	case f <= math.MinInt64:
		return strconv.AppendInt(nil, math.MinInt64, 10)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		n = int64(f)
	}
	return strconv.AppendInt(nil, n, 10)
}

// isWhole reports whether a string consists of an optional sign and digits,
// which may have single underscores between them.
func isWhole(s string) bool {
	if s != "" && (s[0] == '+' || s[0] == '-') {
		s = s[1:]
	}
	for i := range len(s) {
		digit := '0' <= s[i] && s[i] <= '9'
		inner := i > 0 && i < len(s)-1 && s[i-1] != '_'
		if !digit && (s[i] != '_' || !inner) {
			return false
		}
	}
	return s != ""
}

// remarshal returns v as JSON, or otherwise if that fails.
func remarshal(v any, otherwise json.RawMessage) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		return otherwise
	}
	return text
}
