package specfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/paddock-dev/paddock/policy"
)

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

// nextDocument gives the content of the next document. The library panics
// where its own bookkeeping is contradicted; no input may end the program, so
// that becomes an error too.
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

// syntaxError takes the line out of "yaml: line 3: did not find …".
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
	return &policy.FieldError{Reason: reason, Line: line}
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

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }
