package specfile

import (
	"encoding"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/paddock-dev/paddock/policy"
)

// maxProblems bounds how many problems of one file are reported.
const maxProblems = 20

const leaveOut = "leave the key out for the default"

// decoder carries a tree over into a struct, by the names in its json tags.
type decoder struct {
	name  string
	lines map[string]int // by field path
	errs  []error
	// zeroOK says that the zero value of the field at hand is a word of its own.
	zeroOK bool
	// nullOK says that null is a word for what is not written.
	nullOK bool
}

// document decodes the whole tree into the struct that into points to.
func (d *decoder) document(root *yaml.Node, into any) {
	if root.Kind != yaml.MappingNode {
		d.refuse(&policy.FieldError{Line: root.Line, Reason: "it must be a mapping of keys to values"})
		return
	}
	d.structure(root, reflect.ValueOf(into).Elem(), "")
}

func (d *decoder) full() bool { return len(d.errs) > maxProblems }

func (d *decoder) refuse(e *policy.FieldError) {
	if d.full() {
		return
	}
	if len(d.errs) == maxProblems {
		e = &policy.FieldError{Line: e.Line, Reason: "there are more than 20 problems; this is where the 21st is"}
	}
	e.File = d.name
	d.errs = append(d.errs, e)
}

// value decodes n, which is written at line, into v.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string, line int) {
	d.lines[path] = line
	if isNull(n) {
		if d.nullOK {
			return
		}
		d.refuse(&policy.FieldError{Field: path, Line: line, Reason: "it is null", Hint: leaveOut})
		return
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.text(n, u, path, line)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path, line)
	case reflect.Struct:
		if d.is(n, yaml.MappingNode, "a mapping of keys to values", path, line) {
			d.structure(n, v, path)
		}
	case reflect.Map:
		if !d.is(n, yaml.MappingNode, "a mapping of names to values", path, line) {
			return
		}
		if v.Type().Elem().Kind() == reflect.String {
			d.variables(n, v, path)
		} else {
			d.entries(n, v, path)
		}
	case reflect.Slice:
		if d.is(n, yaml.SequenceNode, "a list", path, line) {
			d.list(n, v, path)
		}
	case reflect.String:
		d.word(n, v, path, line)
	case reflect.Uint64:
		d.count(n, v, path, line)
	case reflect.Int64:
		d.integer(n, v, path, line)
	case reflect.Float64:
		d.number(n, v, path, line)
	case reflect.Bool:
		d.boolean(n, v, path, line)
	case reflect.Interface:
		d.whatever(n, v, path, line)
	default:
		d.refuse(&policy.FieldError{Field: path, Line: line, Reason: "a spec file cannot hold it"})
	}
}

// is refuses a node of another kind than the wanted one.
func (d *decoder) is(n *yaml.Node, kind yaml.Kind, want, path string, line int) bool {
	if n.Kind == kind {
		return true
	}
	e := &policy.FieldError{Field: path, Value: n.Value, Line: line, Reason: "it must be " + want}
	if path == "env" {
		e.Value = "" // NAME=VALUE, say, in which there may be a secret
	}
	if kind == yaml.SequenceNode && n.Kind == yaml.ScalarNode {
		e.Hint = "put the value in brackets: [value]"
	}
	d.refuse(e)
	return false
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	fields := fieldsOf(v.Type())
	for key, value := range d.pairs(n, path) {
		i, known := fields[key.Value]
		if !known {
			names := slices.Sorted(maps.Keys(fields))
			hint := "the keys here are " + strings.Join(names, ", ")
			if section := sectionOf(key.Value, v.Type(), names); section != "" {
				hint = "did you mean " + strconv.Quote(section+"."+key.Value) + "?"
			} else if name := policy.Nearest(key.Value, names); name != "" {
				hint = "did you mean " + strconv.Quote(name) + "?"
			}
			d.refuse(&policy.FieldError{Field: policy.FieldPath(path, key.Value), Line: key.Line, Reason: "unknown key", Hint: hint})
			continue
		}
		tag := v.Type().FieldByIndex(i).Tag
		d.zeroOK, d.nullOK = tag.Get("zero") == "ok", tag.Get("null") == "ok" && isNull(value)
		d.value(value, v.FieldByIndex(i), policy.FieldPath(path, key.Value), key.Line)
		d.zeroOK, d.nullOK = false, false
	}
}

// sectionOf is the first key of a structure whose own structure has a key; empty where
// none has it.
func sectionOf(key string, t reflect.Type, names []string) string {
	for _, name := range names {
		section := t.FieldByIndex(fieldsOf(t)[name]).Type
		if section.Kind() == reflect.Pointer {
			section = section.Elem()
		}
		if section.Kind() == reflect.Struct && fieldsOf(section)[key] != nil {
			return name
		}
	}
	return ""
}

// fieldsOf gives the index of each field by its json name, those of embedded
// structs too.
func fieldsOf(t reflect.Type) map[string][]int {
	fields := make(map[string][]int, t.NumField())
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			fields[name] = f.Index
		}
	}
	return fields
}

// variables decodes a map of texts. Any scalar is taken as it is written:
// people write PORT: 8080 and DEBUG: true, and programs get texts.
func (d *decoder) variables(n *yaml.Node, v reflect.Value, path string) {
	all := reflect.MakeMapWithSize(v.Type(), len(n.Content)/2)
	for key, value := range d.pairs(n, path) {
		field := policy.FieldPath(path, key.Value)
		d.lines[field] = key.Line
		switch {
		case isNull(value):
			d.refuse(&policy.FieldError{Field: field, Line: key.Line, Reason: "it is null",
				Hint: `write "" for an empty value`})
		case d.is(value, yaml.ScalarNode, "a text", field, key.Line):
			all.SetMapIndex(reflect.ValueOf(key.Value), reflect.ValueOf(value.Value))
		}
	}
	v.Set(all)
}

// entries decodes a map of lists, or of anything.
func (d *decoder) entries(n *yaml.Node, v reflect.Value, path string) {
	all := reflect.MakeMapWithSize(v.Type(), len(n.Content)/2)
	for key, value := range d.pairs(n, path) {
		one := reflect.New(v.Type().Elem()).Elem()
		d.value(value, one, policy.FieldPath(path, key.Value), key.Line)
		all.SetMapIndex(reflect.ValueOf(key.Value), one)
	}
	v.Set(all)
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	all := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if d.full() {
			return
		}
		d.value(item, all.Index(i), path+"["+strconv.Itoa(i)+"]", item.Line)
	}
	v.Set(all)
}

// text decodes a scalar that has a syntax of its own.
func (d *decoder) text(n *yaml.Node, u encoding.TextUnmarshaler, path string, line int) {
	if !d.is(n, yaml.ScalarNode, "a text", path, line) {
		return
	}
	err := u.UnmarshalText([]byte(n.Value))
	if err != nil {
		e := &policy.FieldError{Reason: err.Error()}
		errors.As(err, &e)
		d.refuse(&policy.FieldError{Field: path, Value: n.Value, Line: line, Reason: e.Reason, Hint: e.Hint})
		return
	}
	d.refuseZero(reflect.ValueOf(u).Elem(), n, path, line)
}
