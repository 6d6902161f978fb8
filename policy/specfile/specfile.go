// Package specfile reads a [policy.Spec], or a [policy.Ceiling] of specs, from
// YAML or JSON, strictly.
//
// An unknown key, a key given twice, a value of the wrong type or unit, a null, and a
// value that would silently mean the default (an empty text, a 0) are errors, each a
// [*policy.FieldError] with the line where it is written; all of them are reported at
// once, up to a bound. YAML's anchors, aliases and tags, and files of several documents,
// are refused: a spec says what a sandbox may do, and must be readable at a glance.
//
// Reading fills in no defaults. [policy.Spec.Resolve] does that and checks the values;
// [File.Locate] adds the lines to its errors:
//
//	file, err := specfile.Read("spec.yaml")
//	…
//	spec, err := file.Spec.Resolve(base)
//	err = file.Locate(err)
package specfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/execution"
)

// MaxSize bounds a spec file, in bytes.
const MaxSize = 1 << 20

// File is a spec as it is written, and where each of its fields is.
type File struct {
	// Spec is the content of the file, without defaults. An empty file is the zero Spec.
	Spec policy.Spec

	name    string
	lines   map[string]int // by field path
	project bool
}

// IsProject reports whether it is a project's file, from [ParseProject].
func (f *File) IsProject() bool { return f.project }

// Name returns the name that the file was read by.
func (f *File) Name() string { return f.name }

// Decode reads a spec from data. The name is for error messages; if it ends in ".json",
// data must be JSON, otherwise YAML, which includes JSON.
func Decode(name string, data []byte) (policy.Spec, error) {
	file, err := Parse(name, data)
	if err != nil {
		return policy.Spec{}, err
	}
	return file.Spec, nil
}

// Load reads a spec from the regular file at path. Callers that may be given the path of a
// file that others could have put there must read it by other means, and call [Decode].
func Load(path string) (policy.Spec, error) {
	file, err := Read(path)
	if err != nil {
		return policy.Spec{}, err
	}
	return file.Spec, nil
}

// Read reads a spec as Load does, and keeps the lines of its fields.
func Read(path string) (*File, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the spec: %w", err)
	}
	return Parse(path, data)
}

// readFile reads a regular file, and one byte more than may be decoded at most.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO is not waited for
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, error(&os.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}))
	}
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}

// Parse reads a spec as Decode does, and keeps the lines of its fields. Its error joins one
// [*policy.FieldError] for each problem, in the order of the file.
func Parse(name string, data []byte) (*File, error) {
	file := &File{name: name, lines: map[string]int{}}
	if err := parse(name, data, &file.Spec, file.lines); err != nil {
		return nil, err
	}
	return file, nil
}

// parse reads a document into a struct, and notes the line of each field.
func parse(name string, data []byte, into any, lines map[string]int) error {
	root, problem := parseTree(name, data)
	if problem != nil {
		problem.File = name
		return problem
	}
	if root == nil {
		return nil
	}
	d := decoder{name: name, lines: lines}
	d.document(root, into)
	return errors.Join(d.errs...)
}

// parseTree returns the tree of the document, nil for an empty one.
func parseTree(name string, data []byte) (*yaml.Node, *policy.FieldError) {
	if len(data) > MaxSize {
		return nil, &policy.FieldError{Reason: "it is larger than 1MiB"}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if line := invalidUTF8(data); line > 0 {
		return nil, &policy.FieldError{Reason: "it is not valid UTF-8", Line: line}
	}
	text := bytes.TrimSpace(data)
	if len(text) == 0 {
		return nil, nil
	}
	if strings.EqualFold(filepath.Ext(name), ".json") || text[0] == '{' && json.Valid(data) {
		return parseJSON(data)
	}
	return parseYAML(data)
}

// invalidUTF8 returns the line of the first byte that is not valid UTF-8, or 0.
func invalidUTF8(data []byte) int {
	line := 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			return line
		}
		if r == '\n' {
			line++
		}
		data = data[size:]
	}
	return 0
}

// Locate adds the file's name and the line to each [*policy.FieldError] in err whose
// field, or a parent of it, is written in the file. Other errors, and those that already
// have a line, stay as they are. Use it for errors about the file's own Spec, before flags
// change it.
func (f *File) Locate(err error) error {
	found := policy.FieldErrors(err)
	if len(found) == 0 {
		return err
	}
	located := make([]error, len(found))
	for i, e := range found {
		with := *e
		f.LocateField(&with)
		located[i] = &with
	}
	return errors.Join(located...)
}

// LocateField is Locate for one error, which it changes.
func (f *File) LocateField(e *policy.FieldError) {
	if line := f.line(e.Field); e.Line == 0 && line > 0 {
		e.File, e.Line = f.name, line
	}
}

// line returns the line of a field, or of its nearest parent that is written.
func (f *File) line(field string) int {
	for field != "" {
		if line := f.lines[field]; line > 0 {
			return line
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return 0
}

// LoadCeiling reads a ceiling from the file at path, as strictly as a spec, and validates
// it. An error about the content is a [*policy.FieldError], or joins several.
func LoadCeiling(path string) (*policy.Ceiling, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the ceiling: %w", err)
	}
	return DecodeCeiling(path, data)
}

// DecodeCeiling reads a ceiling from data, as LoadCeiling does. The name is as for
// [Decode].
func DecodeCeiling(name string, data []byte) (*policy.Ceiling, error) {
	file := &File{name: name, lines: map[string]int{}}
	var c policy.Ceiling
	if err := parse(name, data, &c, file.lines); err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, file.Locate(err)
	}
	return &c, nil
}

// LoadExecution reads an execution policy from the file at path, as strictly as a spec, and
// checks it. Errors about values are each an [*execution.Error], all others a
// [*policy.FieldError]; several are joined.
func LoadExecution(path string) (execution.Policy, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the policy: %w", err)
	}
	return DecodeExecution(path, data)
}

// DecodeExecution reads an execution policy from data, as LoadExecution does. The name is
// as for [Decode].
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

// executionType removes the type from the tree, and returns a policy of that type.
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
			d.refuse(&policy.FieldError{Field: "type", Value: value.Value, Line: key.Line, Reason: "unknown value", Hint: hint})
			return nil
		}
		return p
	}
	d.refuse(&policy.FieldError{Field: "type", Reason: "it is missing", Hint: hint})
	return nil
}
