// Package specfile reads a [policy.Spec], or a [policy.Ceiling] of specs, from
// YAML or JSON, strictly.
//
// An unknown key, a key given twice, a value of the wrong type or unit, a
// null, and a value that would silently mean the default (an empty text, a 0)
// are errors, each a [*policy.FieldError] with the line where it is written;
// all of them are reported at once, up to a bound. YAML's anchors, aliases
// and tags, and files of several documents, are refused: a spec says what a
// sandbox may do, and must be readable at a glance.
//
// Reading fills in no default. [policy.Spec.Resolve] does that and checks
// what the words mean; [File.Locate] adds the lines to what it finds:
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
	"strings"
	"syscall"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/paddock-dev/paddock/policy"
)

// MaxSize bounds a spec file, in bytes.
const MaxSize = 1 << 20

// File is a spec as it is written, and where each of its fields is.
type File struct {
	// Spec is what the file says and nothing more. An empty file gives the
	// zero Spec.
	Spec policy.Spec

	name  string
	lines map[string]int // by field path
}

// Decode reads a spec from data. The name is for error messages; where it
// ends in ".json", data must be JSON, else it is YAML, of which JSON is a part.
func Decode(name string, data []byte) (policy.Spec, error) {
	file, err := Parse(name, data)
	if err != nil {
		return policy.Spec{}, err
	}
	return file.Spec, nil
}

// Load reads a spec from the file at path, a regular one. Whoever may be made to
// name a file that others could have put there reads it by other means, and calls
// [Decode].
func Load(path string) (policy.Spec, error) {
	file, err := Read(path)
	if err != nil {
		return policy.Spec{}, err
	}
	return file.Spec, nil
}

// Read is Load for those who want to know the lines as well.
func Read(path string) (*File, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the spec: %w", err)
	}
	return Parse(path, data)
}

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

// Parse is Decode for those who want to know the lines as well. Its error
// joins one [*policy.FieldError] for each problem, in the order of the file.
func Parse(name string, data []byte) (*File, error) {
	file := &File{name: name, lines: map[string]int{}}
	if err := parse(name, data, &file.Spec, file.lines); err != nil {
		return nil, err
	}
	return file, nil
}

// parse reads a document into a struct, and notes where each field is.
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

// parseTree gives the tree of the document, nil for an empty one.
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

// invalidUTF8 gives the line of the first byte that is not valid UTF-8, or 0.
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

// Locate adds the file's name and the line to each [*policy.FieldError] in
// err whose field, or a parent of it, is written in the file. Other errors
// and errors that have a line already stay as they are. Use it for errors
// about the file's own Spec, before flags change it.
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

// line finds the field, or else the nearest parent that is written.
func (f *File) line(field string) int {
	for field != "" {
		if line := f.lines[field]; line > 0 {
			return line
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return 0
}
