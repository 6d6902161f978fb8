package op

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// Variables are "K=V". In JSON they are a list or an object.
type Variables []string

// BadVariable is what is wrong with the name of a variable or a secret.
const BadVariable = "a name has 1 to 64 letters, digits and underscores, the first of them no digit"

// UnmarshalJSON takes an object for a list, in the order of its names. A name that
// a list would give another meaning is refused.
func (v *Variables) UnmarshalJSON(data []byte) error {
	var object map[string]string
	isNull := string(data) == "null"
	if json.Unmarshal(data, &object) == nil && !isNull {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if strings.Contains(name, "=") {
				return &plainError{&policy.FieldError{Field: policy.FieldPath("env", name), Reason: BadVariable}}
			}
			*v = append(*v, name+"="+object[name])
		}
		return nil
	}
	if isNull || json.Unmarshal(data, (*[]string)(v)) != nil {
		return &policy.FieldError{Field: "env", Reason: "it must be an object of texts"}
	}
	return nil
}

// JSONSchema says so.
func (Variables) JSONSchema() string {
	return `{"type":["object","array"],"items":{"type":"string"},"additionalProperties":{"type":"string"}}`
}

// Check refuses what no command can be given, by its name. No error repeats a
// value, nor a text without a name: they may be secrets.
func (v Variables) Check() error {
	for i, text := range v {
		name, value, ok := strings.Cut(text, "=")
		refuse := func(reason string) error {
			return &policy.FieldError{Field: policy.FieldPath("env", name), Reason: reason}
		}
		switch {
		case !ok:
			return &policy.FieldError{Field: "env[" + strconv.Itoa(i) + "]", Reason: "it is not NAME=VALUE"}
		case !VariableName(name):
			return refuse(BadVariable)
		case strings.IndexByte(value, 0) >= 0:
			return refuse("the value holds a NUL byte")
		}
	}
	return nil
}

func VariableName(name string) bool {
	for i, c := range []byte(name) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 64
}
