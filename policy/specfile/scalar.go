package specfile

import (
	"iter"
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
