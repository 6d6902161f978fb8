package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/paddock-dev/paddock/internal/lazyregexp"
)

// maxDepth bounds how deep objects and lists nest.
const maxDepth = 200

var bom = []byte("\xef\xbb\xbf")

var errWrong = errors.New("its servers are not written in a way that one can be changed without the others; --print says what to add by hand")

// document is JSON with comments and trailing commas, as a tree. All bytes that were not
// edited are written back unchanged.
type document struct {
	text []byte // which the offsets of the tree refer to
	root hujson.Value
	unit string // of indentation; empty if everything is on one line
	eol  string
}

// newDocument parses text, which must be an object.
func newDocument(text []byte) (*document, error) {
	text, _ = bytes.CutPrefix(text, bom)
	if err := checkDepth(text); err != nil {
		return nil, err
	}
	// The parser wants a line comment to end with a newline, also at the end of the file.
	whole := bytes.Clone(text)
	if bytes.Contains(text[bytes.LastIndexByte(text, '\n')+1:], []byte("//")) {
		whole = append(whole, '\n')
	}
	root, err := hujson.Parse(whole)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	root.AfterExtra = root.AfterExtra[:len(root.AfterExtra)-(len(whole)-len(text))]
	object, is := root.Value.(*hujson.Object)
	if !is {
		return nil, fmt.Errorf("line %d: it is not an object", 1+bytes.Count(root.BeforeExtra, []byte("\n")))
	}
	d := &document{text: text, root: root, unit: "  ", eol: lineEndOf(text)}
	switch {
	case len(object.Members) == 0:
	case !d.spansLines(&root):
		d.unit = ""
	default:
		if own, first := d.lineIndent(object.Members[0].Name.StartOffset); first && own != "" {
			d.unit = own
		}
	}
	return d, nil
}

// checkDepth refuses brackets that nest deeper than maxDepth: the parser recurses for each
// of them, without a bound.
func checkDepth(text []byte) error {
	depth := 0
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("line %d: nested deeper than %d levels", 1+bytes.Count(text[:at], []byte("\n")), maxDepth)
			}
		case '}', ']':
			depth--
		case '"':
			for at++; at < len(text) && text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
		case '/':
			end := "\n"
			if bytes.HasPrefix(text[at:], []byte("/*")) {
				end = "*/"
			}
			// Text that is not a comment, or does not end, is an error of the parser's.
			length := bytes.Index(text[min(at+2, len(text)):], []byte(end))
			if length < 0 {
				return nil
			}
			at += length + 1 + len(end)
		}
	}
	return nil
}

// standard returns a value as JSON without comments.
func standard(v hujson.Value) []byte {
	v = v.Clone()
	v.Minimize()
	return v.Pack()
}

// editJSON returns a text as edited by change. It parses the result again, which must be equal
// to the old value after expect has changed that.
func editJSON(old []byte, change func(*document) error, expect func(map[string]any)) ([]byte, error) {
	text, marked := bytes.CutPrefix(old, bom)
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	d, err := newDocument(text)
	if err != nil {
		return nil, err
	}
	before := standard(d.root)
	if err := change(d); err != nil {
		return nil, err
	}
	edited := d.root.Pack()
	if bytes.Equal(edited, text) {
		return old, nil
	}
	d, err = newDocument(edited)
	if err != nil {
		return nil, err
	}
	var was, is map[string]any
	if err := errors.Join(decode(before, &was), decode(standard(d.root), &is)); err != nil {
		return nil, err
	}
	expect(was)
	// Compare the inserted value in its decoded form.
	if err := decode([]byte(encode(was, "", "")), &was); err != nil || !reflect.DeepEqual(was, is) {
		return nil, errWrong
	}
	if marked {
		edited = append(bytes.Clone(bom), edited...)
	}
	return edited, nil
}

func decode(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec.Decode(into)
}

// encode writes a value on several lines, of which all but the first begin with indent, or on
// one line if unit is empty.
func encode(v any, indent, unit string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if unit != "" {
		enc.SetIndent(indent, unit)
	}
	_ = enc.Encode(v) // it holds strings alone
	return strings.TrimSuffix(b.String(), "\n")
}

// nest wraps a value in objects, one for each key of path.
func nest(path []string, value any) any {
	for _, key := range slices.Backward(path) {
		value = map[string]any{key: value}
	}
	return value
}

// find returns the index of the only member with a name, or -1. It refuses a second one, and
// names that differ from it in case alone, which are no variants where names are paths.
func find(o *hujson.Object, key string) (int, error) {
	found := -1
	for i, m := range o.Members {
		switch name := nameOf(m); {
		case name == key && found >= 0:
			return 0, errors.New(key + " appears twice")
		case name == key:
			found = i
		case isVariant(name, key):
			return 0, errVariant(name, key)
		}
	}
	return found, nil
}

func isVariant(name, key string) bool {
	return name != key && strings.EqualFold(name, key) && !strings.HasPrefix(key, "/")
}

func errVariant(name, key string) error {
	return fmt.Errorf("%q differs from %q in case alone", name, key)
}

func nameOf(m hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

// walk follows keys as far as they exist. It returns the object that it has reached, and
// the keys that are missing below it.
func (d *document) walk(path []string) (at *hujson.Value, missing []string, err error) {
	at = &d.root
	for i, key := range path {
		o := at.Value.(*hujson.Object)
		n, err := find(o, key)
		switch {
		case err != nil:
			return nil, nil, err
		case n < 0:
			return at, path[i:], nil
		}
		at = &o.Members[n].Value
		if _, is := at.Value.(*hujson.Object); !is {
			return nil, nil, errors.New(key + " is not an object")
		}
	}
	return at, nil, nil
}

// at returns the value at a path, or nil.
func (d *document) at(path []string) (*hujson.Value, error) {
	last := len(path) - 1
	parent, missing, err := d.walk(path[:last])
	if err != nil || len(missing) > 0 {
		return nil, err
	}
	o := parent.Value.(*hujson.Object)
	n, err := find(o, path[last])
	if err != nil || n < 0 {
		return nil, err
	}
	return &o.Members[n].Value, nil
}

// put adds a value at a path that does not exist.
func (d *document) put(path []string, value any) error {
	last := len(path) - 1
	parent, missing, err := d.walk(path[:last])
	if err != nil {
		return err
	}
	missing = append(slices.Clone(missing), path[last])
	o, indent := parent.Value.(*hujson.Object), d.childIndent(parent)
	m := hujson.ObjectMember{
		Name:  hujson.Value{Value: hujson.String(missing[0])},
		Value: hujson.Value{Value: d.value(nest(missing[1:], value), indent)},
	}
	if d.unit != "" {
		m.Value.BeforeExtra = hujson.Extra(" ")
	}
	o.Members = attach(d, parent, indent, o.Members, m, &o.AfterExtra, memberEnds)
	return nil
}

// remove takes away the value at a path, and the objects that are then empty.
func (d *document) remove(path []string) error {
	for {
		last := len(path) - 1
		parent, _, err := d.walk(path[:last])
		if err != nil {
			return err
		}
		o := parent.Value.(*hujson.Object)
		if len(o.Members) == 1 && last > 0 {
			path = path[:last]
			continue
		}
		n, err := find(o, path[last])
		if err == nil {
			o.Members = detach(o.Members, n, &o.AfterExtra, memberEnds)
		}
		return err
	}
}

func memberEnds(m *hujson.ObjectMember) (first, last *hujson.Value) { return &m.Name, &m.Value }
func elementEnds(v *hujson.Value) (first, last *hujson.Value)       { return v, v }

// value formats a value whose later lines are indented by indent.
func (d *document) value(v any, indent string) hujson.Literal {
	return hujson.Literal(strings.ReplaceAll(encode(v, indent, d.unit), "\n", d.eol))
}

// lineIndent returns the blanks that the line of an offset begins with, and whether
// nothing else is before the offset in its line.
func (d *document) lineIndent(at int) (indent string, first bool) {
	line := d.text[bytes.LastIndexByte(d.text[:at], '\n')+1 : at]
	rest := bytes.TrimLeft(line, " \t")
	return string(line[:len(line)-len(rest)]), len(rest) == 0
}

// childIndent returns the indentation of the members of an object or a list.
func (d *document) childIndent(parent *hujson.Value) string {
	last := 0
	switch v := parent.Value.(type) {
	case *hujson.Object:
		if n := len(v.Members); n > 0 {
			last = v.Members[n-1].Name.StartOffset
		}
	case *hujson.Array:
		if n := len(v.Elements); n > 0 {
			last = v.Elements[n-1].StartOffset
		}
	}
	if indent, first := d.lineIndent(last); last > 0 && first {
		return indent
	}
	indent, _ := d.lineIndent(parent.StartOffset)
	return indent + d.unit
}

func (d *document) spansLines(v *hujson.Value) bool {
	return bytes.IndexByte(d.text[v.StartOffset:v.EndOffset], '\n') >= 0
}

// commentsOfLine matches comments up to the end of the line that they begin in.
var commentsOfLine = lazyregexp.New(`^((?:[ \t]|/\*(?s:.*?)\*/)*(?://[^\n]*?)?)\r?\n`)

// attach adds an item to parent, after the last item and the comments on its line. after is the
// text between the last item and the closing bracket. A list that ended with a comma still ends
// with one afterwards.
func attach[T any](d *document, parent *hujson.Value, indent string, items []T, item T, after *hujson.Extra, ends func(*T) (first, last *hujson.Value)) []T {
	_, isList := parent.Value.(*hujson.Array)
	first, last := ends(&item)
	closing, _ := d.lineIndent(parent.StartOffset)
	switch {
	case d.unit == "" && len(items) == 0:
		first.BeforeExtra, *after = bytes.TrimRight(*after, " \t"), nil
	case d.unit == "":
	case len(items) == 0:
		inner := strings.TrimRight(string(*after), " \t\r\n")
		first.BeforeExtra, *after = hujson.Extra(inner+d.eol+indent), hujson.Extra(d.eol+closing)
	case isList && !d.spansLines(parent) && !bytes.Contains(*after, []byte("\n")):
		first.BeforeExtra = hujson.Extra(" ")
	default:
		line := ""
		if m := commentsOfLine().FindSubmatch(*after); m != nil {
			line = string(m[1])
			*after = (*after)[len(line):]
		} else if !bytes.Contains(*after, []byte("\n")) {
			*after = hujson.Extra(d.eol + closing + string(*after))
		}
		first.BeforeExtra = hujson.Extra(line + d.eol + indent)
	}
	if n := len(items); n > 0 {
		if _, before := ends(&items[n-1]); before.AfterExtra != nil {
			last.AfterExtra = hujson.Extra{} // which the tree has for a trailing comma
		}
	}
	return append(items, item)
}

// detach removes an item and its comma. Comments around it stay.
func detach[T any](items []T, i int, after *hujson.Extra, ends func(*T) (first, last *hujson.Value)) []T {
	first, last := ends(&items[i])
	isLast := i == len(items)-1
	if !isLast {
		next, _ := ends(&items[i+1])
		after = &next.BeforeExtra
	} else if i > 0 {
		_, before := ends(&items[i-1])
		switch {
		case last.AfterExtra == nil:
			first.BeforeExtra = slices.Concat(before.AfterExtra, first.BeforeExtra)
			before.AfterExtra = nil
		case before.AfterExtra == nil:
			before.AfterExtra = hujson.Extra{}
		}
	}
	blank := len(bytes.TrimSpace(first.BeforeExtra)) == 0
	rest := bytes.TrimLeft(*after, " \t")
	switch {
	case bytes.HasPrefix(rest, []byte("\n")) || bytes.HasPrefix(rest, []byte("\r\n")):
		ownLine := bytes.TrimSuffix(bytes.TrimRight(first.BeforeExtra, " \t"), []byte("\n"))
		*after = append(bytes.Clone(bytes.TrimSuffix(ownLine, []byte("\r"))), *after...)
	case !blank || !isLast:
		*after = append(bytes.Clone(first.BeforeExtra), rest...)
	}
	if items = slices.Delete(items, i, i+1); len(items) == 0 && len(bytes.TrimSpace(*after)) == 0 {
		*after = nil
	}
	return items
}
