package specfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/policy"
)

// parseYAML returns the tree of one document in YAML, nil for an empty one.
func parseYAML(data []byte) (*yaml.Node, *policy.FieldError) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	root, err := nextDocument(dec)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, syntaxError(err)
	}
	second, err := nextDocument(dec)
	switch {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, syntaxError(err)
	default:
		return nil, &policy.FieldError{Reason: "it holds more than one document", Line: second.Line,
			Hint: `a spec is one document: remove what follows "---"`}
	}
	if problem := refuseIndirection(root); problem != nil {
		return nil, problem
	}
	if isNull(root) && root.Value == "" {
		return nil, nil // only comments or a document mark
	}
	return root, nil
}

// nextDocument returns the content of the next document. The library panics if its own
// bookkeeping is contradicted; no input may end the program, so that becomes an error too.
func nextDocument(dec *yaml.Decoder) (content *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, err
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, errors.New("yaml: it is not a document")
	}
	return doc.Content[0], nil
}

// syntaxError splits the line off "yaml: line 3: did not find …".
func syntaxError(err error) *policy.FieldError {
	reason := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if rest, ok := strings.CutPrefix(reason, "line "); ok {
		if number, after, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				line, reason = n, after
			}
		}
	}
	hint := ""
	if reason == "did not find expected alphabetic or numeric character" { // of an alias: *.example.com
		hint = "quote a text that starts with & or *"
	}
	return &policy.FieldError{Reason: reason, Line: line, Hint: hint}
}

// refuseIndirection finds the first anchor, alias or tag, which can make a
// document mean something else, or something larger, than it seems to.
func refuseIndirection(n *yaml.Node) *policy.FieldError {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return &policy.FieldError{Reason: "anchors and aliases are not supported", Line: n.Line,
			Hint: "write the value out where it is needed; quote a text that starts with & or *"}
	case n.Style&yaml.TaggedStyle != 0:
		return &policy.FieldError{Reason: "tags are not supported", Line: n.Line,
			Hint: "remove the tag; quote a text that starts with !"}
	}
	for _, child := range n.Content {
		if problem := refuseIndirection(child); problem != nil {
			return problem
		}
	}
	return nil
}

// isNull reports whether a value is null, or not written.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// parseJSON returns the tree that the same document in YAML would have. JSON has its own
// reader because a YAML parser does not accept all of it (surrogate pairs, tabs), and
// because its syntax errors are clearer.
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
	if _, half := osstring.Escapes(data); half {
		return nil, &policy.FieldError{Reason: "an escape in it is half of a character"}
	}
	r := jsonReader{dec: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1}
	r.dec.UseNumber()
	root, err := r.node()
	if err != nil {
		return nil, &policy.FieldError{Reason: err.Error(), Line: r.line}
	}
	return root, nil
}

// jsonReader builds a tree from valid JSON, whose depth the decoder has bounded.
type jsonReader struct {
	dec  *json.Decoder
	data []byte
	read int64 // up to where lines are counted
	line int
}

// node reads a value.
func (r *jsonReader) node() (*yaml.Node, error) {
	from := r.dec.InputOffset()
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
		n.Tag, n.Style = "!!str", yaml.DoubleQuotedStyle
		return n, (*osstring.String)(&n.Value).UnmarshalJSON(bytes.TrimLeft(r.data[from:end], ",: \t\r\n"))
	case json.Number:
		n.Tag, n.Value = "!!int", t.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
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
