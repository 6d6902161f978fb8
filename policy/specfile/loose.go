package specfile

import (
	"math"
	"reflect"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/paddock-dev/paddock/policy"
)

// boolean decodes true or false. Both are words of their own: what is false
// where it is not written may still be written.
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

// integer decodes a whole number. Which may be used is for the reader of the
// field.
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

// number decodes a number. Whether it may be 0 is for the reader of the field.
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

// whatever decodes a value that is handed on to somebody else: texts, numbers,
// true and false, and lists and mappings of these.
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
