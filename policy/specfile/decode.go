package specfile

import (
	"encoding"
	"errors"
	"iter"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/paddock-dev/paddock/policy"
)

// maxProblems bounds how many problems of one file are reported.
const maxProblems = 20

const leaveOut = "leave the key out for the default"

// decoder decodes a tree into a struct, by the names in its json tags.
type decoder struct {
	name  string
	lines map[string]int // by field path
	errs  []error
	// zeroOK says that the current field may be written as its zero value.
	zeroOK bool
	// nullOK means that null stands for the default of the current field.
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

// full reports whether no more problems are reported.
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
		want, word, key := "a mapping of keys to values", v.FieldByName(scalarField(v.Type())), mainKey(v.Type())
		if word.IsValid() {
			want = "a word, or " + want
		}
		switch {
		case n.Kind == yaml.ScalarNode && word.IsValid():
			d.word(n, word, path, line)
		case n.Kind == yaml.ScalarNode && key != "":
			value := n.Value
			if value == "" || len(value) > 64 || strings.ContainsFunc(value, func(c rune) bool { return !unicode.IsPrint(c) || strings.ContainsRune("{}[],\"'#&*!|>%@`: ", c) }) {
				value = "…"
			}
			d.refuse(&policy.FieldError{Field: path, Value: n.Value, Line: line, Reason: "it must be " + want, Hint: "write {" + key + ": " + value + "}"})
		case d.is(n, yaml.MappingNode, want, path, line):
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

// scalarField returns the name of the field that a struct is if it is written as a word
// instead of a mapping, or "".
func scalarField(t reflect.Type) string {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("scalar") == "ok" {
			return t.Field(i).Name
		}
	}
	return ""
}

// mainKey returns the key of a mapping that must be written, "" if there is not one of them.
func mainKey(t reflect.Type) (key string) {
	for _, f := range reflect.VisibleFields(t) {
		if name, options, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && options == "" {
			if key != "" {
				return ""
			}
			key = name
		}
	}
	return key
}

// is reports whether a node is of the wanted kind, and refuses it if not.
func (d *decoder) is(n *yaml.Node, kind yaml.Kind, want, path string, line int) bool {
	if n.Kind == kind {
		return true
	}
	e := &policy.FieldError{Field: path, Value: n.Value, Line: line, Reason: "it must be " + want}
	if path == "env" {
		e.Value = "" // it may be NAME=VALUE with a secret
	}
	if kind == yaml.SequenceNode && n.Kind == yaml.ScalarNode {
		e.Hint = "put the value in brackets: [value]"
	}
	d.refuse(e)
	return false
}

// structure decodes a mapping into a struct.
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

// sectionOf returns the first key of a struct whose own struct has a key, or "".
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

// fieldsOf returns the index of each field by its json name, with those of embedded
// structs.
func fieldsOf(t reflect.Type) map[string][]int {
	fields := make(map[string][]int, t.NumField())
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			fields[name] = f.Index
		}
	}
	return fields
}

// variables decodes a map of texts. Any scalar is taken as it is written: people write
// PORT: 8080 and DEBUG: true, and programs get texts.
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

// list decodes a list.
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

// text decodes a scalar that has a special syntax.
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

// pairs yields the keys and values of a mapping. It refuses keys that are not texts, and
// keys that are given again.
func (d *decoder) pairs(n *yaml.Node, path string) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		first := make(map[string]int, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content) && !d.full(); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode {
				d.refuse(&policy.FieldError{Field: path, Line: key.Line, Reason: "a key must be a text"})
				continue
			}
			if line, again := first[key.Value]; again {
				d.refuse(&policy.FieldError{Field: policy.FieldPath(path, key.Value), Line: key.Line,
					Reason: "it is given twice, first on line " + strconv.Itoa(line)})
				continue
			}
			first[key.Value] = key.Line
			if !yield(key, n.Content[i+1]) {
				return
			}
		}
	}
}

// word decodes a text. YAML reads some words as numbers or booleans: these are refused
// rather than guessed at.
func (d *decoder) word(n *yaml.Node, v reflect.Value, path string, line int) {
	if !d.is(n, yaml.ScalarNode, "a text", path, line) {
		return
	}
	switch n.Tag {
	case "!!int", "!!float":
		d.refuse(&policy.FieldError{Field: path, Value: n.Value, Line: line,
			Reason: "it must be a text, not a number", Hint: "put it in quotes"})
		return
	case "!!bool":
		d.refuse(&policy.FieldError{Field: path, Value: n.Value, Line: line,
			Reason: "it must be a text, not true or false", Hint: "put it in quotes"})
		return
	}
	v.SetString(n.Value)
	d.refuseZero(v, n, path, line)
}

// count decodes a whole number.
func (d *decoder) count(n *yaml.Node, v reflect.Value, path string, line int) {
	const want = "a whole number"
	if !d.is(n, yaml.ScalarNode, want, path, line) {
		return
	}
	e := &policy.FieldError{Field: path, Value: n.Value, Line: line, Reason: "it must be " + want}
	digits := strings.TrimPrefix(n.Value, "-")
	isNumber := digits != "" && strings.Trim(digits, "0123456789") == ""
	switch number, err := strconv.ParseUint(n.Value, 10, 64); {
	case isNumber && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		e.Hint = "remove the quotes"
	case err == nil:
		v.SetUint(number)
		d.refuseZero(v, n, path, line)
		return
	case isNumber && digits != n.Value:
		e.Reason = "it must not be negative"
	case isNumber:
		e.Reason = "it is too large"
	}
	d.refuse(e)
}

// refuseZero refuses a value that was written and would count as not written.
func (d *decoder) refuseZero(v reflect.Value, n *yaml.Node, path string, line int) {
	if !v.IsZero() || d.zeroOK {
		return
	}
	reason := "0 would count as not given"
	if v.Kind() == reflect.String {
		reason = "it is empty"
	}
	d.refuse(&policy.FieldError{Field: path, Value: n.Value, Line: line, Reason: reason, Hint: leaveOut})
}

// boolean decodes true or false. false may be written even where it is the default.
func (d *decoder) boolean(n *yaml.Node, v reflect.Value, path string, line int) {
	if !d.is(n, yaml.ScalarNode, "true or false", path, line) {
		return
	}
	if n.Tag == "!!bool" {
		if on, err := strconv.ParseBool(n.Value); err == nil {
			v.SetBool(on)
			return
		}
	}
	e := &policy.FieldError{Field: path, Value: n.Value, Line: line, Reason: "it must be true or false"}
	if _, err := strconv.ParseBool(n.Value); err == nil && n.Tag == "!!str" {
		e.Hint = "remove the quotes"
	}
	d.refuse(e)
}

// integer decodes a whole number. The user of the field checks its bounds.
func (d *decoder) integer(n *yaml.Node, v reflect.Value, path string, line int) {
	if !d.is(n, yaml.ScalarNode, "a whole number", path, line) {
		return
	}
	e := &policy.FieldError{Field: path, Value: n.Value, Line: line, Reason: "it must be a whole number of 64 bits, in digits"}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	switch {
	case n.Tag == "!!int" && err == nil:
		v.SetInt(i)
		return
	case err == nil:
		e.Hint = "remove the quotes"
	}
	d.refuse(e)
}

// number decodes a number. The user of the field checks its bounds.
func (d *decoder) number(n *yaml.Node, v reflect.Value, path string, line int) {
	if !d.is(n, yaml.ScalarNode, "a number", path, line) {
		return
	}
	e := &policy.FieldError{Field: path, Value: n.Value, Line: line, Reason: "it must be a number"}
	f, err := strconv.ParseFloat(n.Value, 64)
	switch {
	case n.Tag == "!!int" && err == nil, n.Tag == "!!float" && err == nil && !math.IsInf(f, 0) && !math.IsNaN(f):
		v.SetFloat(f)
		return
	case n.Tag == "!!str" && err == nil:
		e.Hint = "remove the quotes"
	case n.Tag == "!!float":
		e.Reason = "it must be a finite number"
	}
	d.refuse(e)
}

// whatever decodes a value for another program: texts, numbers, true and false, and lists
// and mappings of these.
func (d *decoder) whatever(n *yaml.Node, v reflect.Value, path string, line int) {
	switch n.Kind {
	case yaml.MappingNode:
		all := make(map[string]any, len(n.Content)/2)
		d.entries(n, reflect.ValueOf(&all).Elem(), path)
		v.Set(reflect.ValueOf(all))
	case yaml.SequenceNode:
		all := []any{}
		d.list(n, reflect.ValueOf(&all).Elem(), path)
		v.Set(reflect.ValueOf(all))
	default:
		if value := d.scalar(n, path, line); value != nil {
			v.Set(reflect.ValueOf(value))
		}
	}
}

// scalar returns the value of a scalar, nil if it is refused.
func (d *decoder) scalar(n *yaml.Node, path string, line int) any {
	switch n.Tag {
	case "!!bool":
		var on bool
		d.boolean(n, reflect.ValueOf(&on).Elem(), path, line)
		return on
	case "!!int":
		if i, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			return i
		}
		d.refuse(&policy.FieldError{Field: path, Value: n.Value, Line: line, Reason: "it must be a whole number of 64 bits, in digits"})
		return nil
	case "!!float":
		var f float64
		d.number(n, reflect.ValueOf(&f).Elem(), path, line)
		return f
	}
	return n.Value
}
