package specfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/paddock-dev/paddock/policy"
)

// parseJSON gives the tree that the same document in YAML would have. JSON
// has its own reader because not all of it is YAML to a YAML parser
// (surrogate pairs, tabs), and because its syntax errors are clearer.
func parseJSON(data []byte) (*yaml.Node, *policy.FieldError) {
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		problem := &policy.FieldError{Reason: err.Error()}
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			end := min(max(syntax.Offset, 0), int64(len(data)))
			problem.Line = 1 + bytes.Count(data[:end], []byte("\n"))
		}
		return nil, problem
	}
	r := jsonReader{dec: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1}
	r.dec.UseNumber()
	root, err := r.node()
	if err != nil {
		return nil, &policy.FieldError{Reason: err.Error(), Line: r.line}
	}
	return root, nil
}

// jsonReader builds a tree from JSON that is known to be valid, so that its
// depth is bounded.
type jsonReader struct {
	dec  *json.Decoder
	data []byte
	read int64 // how far lines are counted
	line int
}

func (r *jsonReader) node() (*yaml.Node, error) {
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	end := r.dec.InputOffset()
	r.line += bytes.Count(r.data[r.read:end], []byte("\n"))
	r.read = end
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: r.line}
	switch t := token.(type) {
	case json.Delim:
		return n, r.fill(n, t)
	case string:
		n.Tag, n.Value, n.Style = "!!str", t, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value = numberTag(t.String()), t.String()
	case bool:
		n.Tag, n.Value = "!!bool", "false"
		if t {
			n.Value = "true"
		}
	case nil:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, nil
}

func numberTag(number string) string {
	if strings.ContainsAny(number, ".eE") {
		return "!!float"
	}
	return "!!int"
}

// fill reads the children of an object or a list.
func (r *jsonReader) fill(n *yaml.Node, open json.Delim) error {
	n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
	if open == '{' {
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	}
	for r.dec.More() {
		child, err := r.node()
		if err != nil {
			return err
		}
		n.Content = append(n.Content, child)
	}
	_, err := r.dec.Token()
	return err
}
