package op

import (
	"reflect"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// FieldAt returns the field that sets the field of a spec at path, nil if there is none.
func FieldAt(fields []Field, path string) *Field {
	keys := append(slices.Clone(specFields[path]), path[strings.LastIndexByte(path, '.')+1:])
	for i := range fields {
		if fields[i].JSON == keys[0] {
			return &fields[i]
		}
	}
	return nil
}

// FlagFor returns the flag of the command line that sets the field of a spec at path. A
// field that only a spec file has keeps its path.
func FlagFor(path string) string {
	path = strings.TrimPrefix(path, policy.OfCeiling)
	if f := FieldAt(SpecFields(), path); f != nil {
		return "--" + f.Flag
	}
	if strings.Contains(path, ".") {
		return path
	}
	return "--" + strings.ReplaceAll(path, "_", "-")
}

// FlagHint renders a hint for the command line.
func FlagHint(hint string) string { return policy.RenderHint(hint, FlagFor) }

// RenderHints returns out, an output or a part of one, with its hints rendered. The original
// stays as it is.
func RenderHints[T any](out T, render func(hint string) string) T {
	return renderHints(reflect.ValueOf(out), render).Interface().(T)
}

func renderHints(v reflect.Value, render func(string) string) reflect.Value {
	own := reflect.New(v.Type()).Elem()
	own.Set(v)
	switch {
	case v.Kind() == reflect.Slice && v.Len() > 0 && v.Type().Elem().Kind() == reflect.Struct:
		own.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			own.Index(i).Set(renderHints(v.Index(i), render))
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			switch f := v.Type().Field(i); {
			case !f.IsExported():
			case f.Type.Kind() == reflect.String && (f.Name == "Hint" || f.Name == "Remedy"):
				own.Field(i).SetString(render(v.Field(i).String()))
			case f.Type.Kind() == reflect.Struct || f.Type.Kind() == reflect.Slice:
				own.Field(i).Set(renderHints(v.Field(i), render))
			}
		}
	}
	return own
}
