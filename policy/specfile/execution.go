package specfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/execution"
)

// LoadExecution reads an execution policy from the file at path, as strictly as
// a spec, and checks it. What the words mean is an [*execution.Error] each, all
// else a [*policy.FieldError]; several are joined.
func LoadExecution(path string) (execution.Policy, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the policy: %w", err)
	}
	return DecodeExecution(path, data)
}

// DecodeExecution decodes an execution policy from data, as LoadExecution does. The
// name is as for [Decode].
func DecodeExecution(name string, data []byte) (execution.Policy, error) {
	root, problem := parseTree(name, data)
	if problem == nil && (root == nil || root.Kind != yaml.MappingNode) {
		problem = &policy.FieldError{Field: "type", Reason: "it is missing", Hint: "the words are " + strings.Join(execution.Types(), ", ")}
	}
	if problem != nil {
		problem.File = name
		return nil, problem
	}
	d := decoder{name: name, lines: map[string]int{}}
	p := d.executionType(root)
	if p != nil {
		d.document(root, p)
	}
	if len(d.errs) > 0 {
		return nil, errors.Join(d.errs...)
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	return p, nil
}

// executionType takes the type out of the tree, and gives a policy of it.
func (d *decoder) executionType(root *yaml.Node) execution.Policy {
	hint := "the words are " + strings.Join(execution.Types(), ", ")
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if key.Value != "type" {
			continue
		}
		root.Content = slices.Delete(root.Content, i, i+2)
		p := execution.New(value.Value)
		if p == nil || value.Kind != yaml.ScalarNode {
			d.refuse(&policy.FieldError{Field: "type", Value: value.Value, Line: key.Line, Reason: "there is none of this name", Hint: hint})
			return nil
		}
		return p
	}
	d.refuse(&policy.FieldError{Field: "type", Reason: "it is missing", Hint: hint})
	return nil
}
