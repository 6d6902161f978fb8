package op

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/paddock-dev/paddock/policy"
)

// walker compares JSON with the type that it is for, a value at a time, so
// that what is wrong is told by its path.
type walker struct {
	dec    *json.Decoder
	depth  int
	values int
}

// value takes the next value, for a type; nil is any type.
func (w *walker) value(t reflect.Type, b bounds, path string) error {
	if w.values++; w.values > maxValues {
		return fmt.Errorf("it holds more than %d values", maxValues)
	}
	tok, err := w.dec.Token()
	if err != nil {
		return err
	}
	if own := elem(t); readsJSON(own) {
		if done, err := byItself(tok, own, path); done {
			return err
		}
	}
	return w.token(tok, plain(t), b, path)
}

// byItself has a type read a value that is no object and no list; one with a
// notation of its own takes nothing else.
func byItself(tok json.Token, t reflect.Type, path string) (done bool, err error) {
	kind := ""
	switch v := tok.(type) {
	case json.Delim:
		kind = map[json.Delim]string{'{': "object", '[': "array"}[v]
		if !isText(t) {
			return false, nil
		}
	case bool:
		kind = "bool"
	case nil:
		kind = "null"
	}
	if kind != "" && isText(t) {
		return true, mismatch(path, kind)
	}
	text, err := json.Marshal(tok)
	if err == nil {
		u, _ := reflect.New(t).Interface().(json.Unmarshaler) // readsJSON
		err = u.UnmarshalJSON(text)
	}
	return true, named(err, path)
}

func (w *walker) token(tok json.Token, t reflect.Type, b bounds, path string) error {
	switch v := tok.(type) {
	case json.Delim:
		if w.depth++; w.depth > maxDepth {
			return fmt.Errorf("it is nested deeper than %d", maxDepth)
		}
		defer func() { w.depth-- }()
		if v == '{' {
			return w.object(t, path)
		}
		return w.array(t, b, path)
	case string:
		return b.text(v, t, path)
	case json.Number:
		return b.number(v.String(), t, path)
	case bool:
		if t != nil && t.Kind() != reflect.Bool {
			return mismatch(path, "bool")
		}
	case nil:
		if t != nil {
			return mismatch(path, "null")
		}
	}
	return nil
}

func (w *walker) object(t reflect.Type, path string) error {
	if t != nil && t.Kind() != reflect.Struct && t.Kind() != reflect.Map || isText(t) {
		return mismatch(path, "object")
	}
	members, required := membersOf(t)
	seen := make(map[string]bool)
	for w.dec.More() {
		tok, err := w.dec.Token()
		if err != nil {
			return err
		}
		key, _ := tok.(string) // what else would be a syntax error
		at := policy.FieldPath(path, key)
		if seen[key] {
			return fmt.Errorf("the field %s is given twice", at)
		}
		seen[key] = true
		m := member{}
		switch {
		case t == nil:
		case t.Kind() == reflect.Map:
			m.typ = t.Elem()
		default:
			var known bool
			if m, known = members[key]; !known {
				return &unknownFieldError{at: at, key: key, of: t}
			}
		}
		if err := w.value(m.typ, m.bounds, at); err != nil {
			return err
		}
	}
	if _, err := w.dec.Token(); err != nil {
		return err
	}
	return absent(required, seen, path)
}

// absent tells the first field that an object below the input must have and has not.
// Of the input itself each operation says more, what to do instead.
func absent(required []string, seen map[string]bool, path string) error {
	for _, key := range required {
		if path != "" && !seen[key] {
			return &plainError{&policy.FieldError{Field: policy.FieldPath(path, key), Reason: "it is missing"}}
		}
	}
	return nil
}

func (w *walker) array(t reflect.Type, b bounds, path string) error {
	var of reflect.Type
	if t != nil {
		if t.Kind() != reflect.Slice || isText(t) || isBytes(t) {
			return mismatch(path, "array")
		}
		of = t.Elem()
	}
	n := 0
	for ; w.dec.More(); n++ {
		if err := w.value(of, bounds{choices: b.choices}, path+"["+strconv.Itoa(n)+"]"); err != nil {
			return err
		}
	}
	if _, err := w.dec.Token(); err != nil {
		return err
	}
	return b.length(n, path, "elements")
}

// elem is a type without its pointers.
func elem(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// plain is elem, and nil for what reads JSON by itself, or takes any.
func plain(t reflect.Type) reflect.Type {
	if t = elem(t); t == nil || t.Kind() == reflect.Interface || readsJSON(t) {
		return nil
	}
	return t
}

func readsJSON(t reflect.Type) bool {
	return t != nil && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// isText says whether a type is written as a string in its own notation.
func isText(t reflect.Type) bool {
	return t != nil && reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// member is one field that an object may have.
type member struct {
	typ    reflect.Type
	bounds bounds
}

// memberCache has the members of each type that was asked for: each call asks.
var memberCache sync.Map // of memberSet, by reflect.Type

type memberSet struct {
	known    map[string]member
	required []string // in their order
}

// membersOf are the fields of a struct by their keys, for reading alone, and those
// that its schema requires.
func membersOf(t reflect.Type) (known map[string]member, required []string) {
	if done, ok := memberCache.Load(t); ok {
		set := done.(memberSet)
		return set.known, set.required
	}
	set := memberSet{known: make(map[string]member)}
	if t != nil && t.Kind() == reflect.Struct {
		for _, f := range jsonFields(t) {
			b := boundsOf(f.Tag)
			if ofSpec(f.StructField) {
				b.choices = nil
			}
			set.known[f.key] = member{f.Type, b}
			if f.required() && f.Tag.Get("only") == "" && f.Tag.Get("within") == "" {
				set.required = append(set.required, f.key)
			}
		}
	}
	memberCache.Store(t, set)
	return set.known, set.required
}

// ofSpec says whether a field is one of SpecInput's: what is wrong with those the
// spec tells, all at once.
func ofSpec(f reflect.StructField) bool {
	own, ok := reflect.TypeFor[SpecInput]().FieldByName(f.Name)
	return ok && own.Tag == f.Tag
}

// jsonField is a field of a struct as JSON has it.
type jsonField struct {
	reflect.StructField
	key  string
	omit bool // it may be absent
}

// required says whether the field must be there.
func (f jsonField) required() bool { return !f.omit }

// jsonFields are the fields of a struct and of those embedded in it, in order.
func jsonFields(t reflect.Type) []jsonField {
	var fields []jsonField
	for i := range t.NumField() {
		f := t.Field(i)
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && key == "" && elem(f.Type).Kind() == reflect.Struct:
			fields = append(fields, jsonFields(elem(f.Type))...)
		case f.IsExported() && key != "-":
			if key == "" {
				key = f.Name
			}
			fields = append(fields, jsonField{f, key, strings.Contains(options, "omit")})
		}
	}
	return fields
}

// unknownFieldError is a key that an object of a type does not have.
type unknownFieldError struct {
	at, key string
	of      reflect.Type
}

// Error says so, and how it is written where other letters alone are wrong.
func (u *unknownFieldError) Error() string {
	text := "unknown field " + strconv.Quote(u.at)
	for _, f := range jsonFields(u.of) {
		if strings.EqualFold(f.key, u.key) {
			return text + ": it is written " + strconv.Quote(f.key)
		}
	}
	return text
}

// hint names the field that was probably meant, and all that who asks may give.
func (u *unknownFieldError) hint(c *policy.Ceiling) string {
	var known []string
	for _, f := range jsonFields(u.of) {
		if offered(f.StructField, c) {
			known = append(known, f.key)
		}
	}
	slices.Sort(known)
	if len(known) == 0 {
		return "it takes no fields"
	}
	hint := "the fields here are " + strings.Join(known, ", ")
	name := policy.Nearest(u.key, known)
	if u.key == "cmd" && slices.Contains(known, "command") { // as other tools call it
		name = "command"
	}
	if name != "" {
		hint = "did you mean " + strconv.Quote(name) + "? " + hint
	}
	return hint
}

func mismatch(path, is string) error {
	if path == "" {
		return fmt.Errorf("a JSON %s stands where an object is needed", is)
	}
	return fmt.Errorf("%s must not be a JSON %s", path, is)
}
