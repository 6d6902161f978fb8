package specfile

import (
	"iter"
	"math"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/paddock-dev/paddock/policy"
)

// pairs yields the keys and values of a mapping. It refuses keys that are no
// texts, and keys that are given again.
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

// word decodes a text. A number or a boolean is refused rather than guessed
// at: YAML reads some words as such.
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

// refuseZero refuses what was written and yet would count as not written.
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
