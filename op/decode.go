package op

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/policy"
)

// Bounds of an operation's input. MaxInput, in bytes, fits the longest command that the
// kernel executes with each byte escaped; maxValues is the bound of a request to the agent.
const (
	MaxInput  = 16 << 20
	maxValues = 1 << 18
	maxDepth  = 32
)

// decode reads input into in, which points to a struct, strictly. encoding/json alone
// accepts repeated fields, fields in other letter case, and null for anything, and replaces
// invalid characters. A field that is null is absent, whatever its type.
func decode(name string, input []byte, in any) error {
	if err := decodeObject(input, in); err != nil {
		if own := (*plainError)(nil); errors.As(err, &own) {
			return own.FieldError
		}
		return fmt.Errorf("cannot read the input of %s: %w", name, err)
	}
	return nil
}

func decodeObject(input []byte, in any) error {
	switch {
	case len(input) > MaxInput:
		return fmt.Errorf("it is longer than %d bytes", MaxInput)
	case !utf8.Valid(input):
		return errors.New("it is not valid UTF-8")
	}
	lone, half := osstring.Escapes(input)
	if half {
		return errHalf
	}
	w := walker{dec: json.NewDecoder(bytes.NewReader(input)), lone: lone}
	w.dec.UseNumber()
	if err := w.value(reflect.TypeOf(in).Elem(), bounds{}, ""); err != nil {
		return inputError(err)
	}
	if _, err := w.dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return inputError(json.Unmarshal(w.withoutNulls(input), in))
}

// inputError returns err in terms of JSON instead of Go.
func inputError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON object is not complete")
	case len(policy.FieldErrors(err)) > 0, errors.As(err, new(*unknownFieldError)):
		return err
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

var errHalf = errors.New("an escape in it is half of a character")

// walker checks JSON against the type that it will be decoded into, value by value, so that
// errors have the path of the field.
type walker struct {
	dec    *json.Decoder
	lone   []int64 // where the rest of the input has escapes that stand for bytes
	bytes  bool    // texts may have them here
	depth  int
	values int
	nulls  []null // in their order
}

// null is a field that is null: from the end of what is before it to its own end.
type null struct {
	from, to int
	first    bool // no field before it is left
}

// withoutNulls returns the input without the fields that are null: each with the comma before it, or,
// if it is the first, with the one after it.
func (w *walker) withoutNulls(input []byte) []byte {
	if w.nulls == nil {
		return input
	}
	var rest []byte
	from := 0
	for _, n := range w.nulls {
		rest = append(rest, input[from:max(from, n.from)]...)
		from = n.to
		after := bytes.TrimLeft(input[n.to:], " \t\r\n")
		if n.first && bytes.HasPrefix(after, []byte(",")) {
			from = len(input) - len(after) + 1
		}
	}
	return append(rest, input[from:]...)
}

// next returns the first token of the next value, which has this type.
func (w *walker) next(t reflect.Type) (json.Token, error) {
	if w.values++; w.values > maxValues {
		return nil, fmt.Errorf("it holds more than %d values", maxValues)
	}
	return w.tok(w.bytes || holdsBytes(elem(t)))
}

// tok returns the next token, in which escapes stand for bytes if bytes is true.
func (w *walker) tok(bytes bool) (json.Token, error) {
	tok, err := w.dec.Token()
	for len(w.lone) > 0 && w.lone[0] < w.dec.InputOffset() {
		if w.lone = w.lone[1:]; !bytes && err == nil {
			err = errHalf
		}
	}
	return tok, err
}

// value checks the next value against a type; nil is any type.
func (w *walker) value(t reflect.Type, b bounds, path string) error {
	tok, err := w.next(t)
	if err != nil {
		return err
	}
	return w.begun(tok, t, b, path)
}

// begun checks a value by its first token.
func (w *walker) begun(tok json.Token, t reflect.Type, b bounds, path string) error {
	if outer := w.bytes; holdsBytes(elem(t)) {
		w.bytes = true
		defer func() { w.bytes = outer }()
	}
	if own := elem(t); readsJSON(own) {
		if done, err := byItself(tok, own, path); done {
			return err
		}
	}
	return w.token(tok, plain(t), b, path)
}

// byItself passes a value that is not an object or a list to the type's own UnmarshalJSON for
// a check. A type that is written as text accepts no other values.
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
	seen := make(map[string]bool) // false for null
	from, first := int(w.dec.InputOffset()), true
	for w.dec.More() {
		tok, err := w.tok(false)
		if err != nil {
			return err
		}
		key, _ := tok.(string) // anything else is a syntax error
		at := policy.FieldPath(path, key)
		if _, twice := seen[key]; twice {
			return fmt.Errorf("the field %s is given twice", at)
		}
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
		if tok, err = w.next(m.typ); err != nil {
			return err
		}
		if seen[key] = tok != nil || t == nil || t.Kind() == reflect.Map; !seen[key] {
			to := int(w.dec.InputOffset())
			w.nulls = append(w.nulls, null{from, to, first})
			from = to
			continue
		}
		if err := w.begun(tok, m.typ, m.bounds, at); err != nil {
			return err
		}
		from, first = int(w.dec.InputOffset()), false
	}
	if _, err := w.dec.Token(); err != nil {
		return err
	}
	// Fields that the input itself lacks are left to the operations, which can say what to
	// do instead.
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

// bounds are a field's, from its tags min and max: of a number, of the bytes of a string, or
// of the elements of a list.
type bounds struct {
	min, max *int64
	choices  []string // the texts that it may be, besides the empty one
}

// length checks a length in the given unit.
func (b bounds) length(n int, path, unit string) error {
	switch {
	case b.min != nil && int64(n) < *b.min:
		return fmt.Errorf("%s must have at least %d %s", path, *b.min, unit)
	case b.max != nil && int64(n) > *b.max:
		return fmt.Errorf("%s must have at most %d %s", path, *b.max, unit)
	}
	return nil
}

// text checks a string against a type.
func (b bounds) text(s string, t reflect.Type, path string) error {
	switch {
	case t == nil:
		return nil
	case isText(t):
		u, _ := reflect.New(t).Interface().(encoding.TextUnmarshaler) // isText
		return named(u.UnmarshalText([]byte(s)), path)
	case isBytes(t):
		text, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return fmt.Errorf("%s must be written in base64", path)
		}
		return b.length(len(text), path, "bytes")
	case t.Kind() != reflect.String:
		return mismatch(path, "string")
	case len(b.choices) > 0 && s != "" && !slices.Contains(b.choices, s):
		return &plainError{&policy.FieldError{Field: path, Value: s, Reason: "it must be " + policy.Choices(b.choices)}}
	}
	return b.length(len(s), path, "bytes")
}

// number checks a number against a type.
func (b bounds) number(text string, t reflect.Type, path string) error {
	if t == nil {
		return nil
	}
	if t == reflect.TypeFor[policy.Duration]() {
		return fmt.Errorf(`%s must be a string with a unit, such as "30s"`, path)
	}
	if isText(t) {
		return mismatch(path, "number")
	}
	switch k := t.Kind(); {
	case k >= reflect.Int && k <= reflect.Int64:
		low := int64(math.MinInt64) >> (64 - t.Bits())
		n, err := strconv.ParseInt(text, 10, t.Bits())
		if err != nil {
			return fmt.Errorf("%s must be a whole number from %d to %d", path, low, -(low + 1))
		}
		return b.amount(float64(n), path)
	case k >= reflect.Uint && k <= reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, t.Bits())
		if err != nil {
			return fmt.Errorf("%s must be a whole number from 0 to %d", path, uint64(math.MaxUint64)>>(64-t.Bits()))
		}
		return b.amount(float64(n), path)
	case k == reflect.Float32 || k == reflect.Float64:
		n, err := strconv.ParseFloat(text, t.Bits())
		if err != nil {
			return fmt.Errorf("%s is too large a number", path)
		}
		return b.amount(n, path)
	}
	return mismatch(path, "number")
}

func (b bounds) amount(n float64, path string) error {
	switch {
	case b.min != nil && n < float64(*b.min):
		return fmt.Errorf("%s must be %d at least", path, *b.min)
	case b.max != nil && n > float64(*b.max):
		return fmt.Errorf("%s must be %d at most", path, *b.max)
	}
	return nil
}

// boundsOf reads a field's tags. An invalid number in one is a bug, and panics.
func boundsOf(tag reflect.StructTag) bounds {
	read := func(name string) *int64 {
		text, ok := tag.Lookup(name)
		if !ok {
			return nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic("the tag " + name + " is " + text)
		}
		return &n
	}
	b := bounds{min: read("min"), max: read("max")}
	if choices := tag.Get("choices"); choices != "" {
		b.choices = strings.Split(choices, ",")
	}
	return b
}

// plainError is an error about a field that is shown without "cannot read the input of X",
// as errors about a spec's fields are.
type plainError struct{ *policy.FieldError }

// Unwrap returns the error about the field.
func (e *plainError) Unwrap() error { return e.FieldError }

// named adds the field to an error of a type's UnmarshalText or UnmarshalJSON.
func named(err error, path string) error {
	if err == nil {
		return nil
	}
	if wrong := policy.FieldErrors(err); len(wrong) > 0 {
		own := *wrong[0]
		own.Field = path
		return &own
	}
	return fmt.Errorf("%s: %w", path, err)
}

// member is one field that an object may have.
type member struct {
	typ    reflect.Type
	bounds bounds
}

// memberCache has the result of membersOf for each type, since every call needs it.
var memberCache sync.Map // of memberSet, by reflect.Type

type memberSet struct {
	known    map[string]member
	required []string // in their order
}

// membersOf returns the fields of a struct by their keys, and the keys that its schema
// requires. The results are shared and must not be changed.
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

// ofSpec reports whether a field is one of SpecInput's. The spec checks those itself, and
// reports all errors at once.
func ofSpec(f reflect.StructField) bool {
	own, ok := reflect.TypeFor[SpecInput]().FieldByName(f.Name)
	return ok && own.Tag == f.Tag
}

// unknownFieldError is the error of a key that a type does not have.
type unknownFieldError struct {
	at, key string
	of      reflect.Type
}

// Error names the field, and its right spelling if only the letter case is wrong.
func (u *unknownFieldError) Error() string {
	text := "unknown field " + strconv.Quote(u.at)
	for _, f := range jsonFields(u.of) {
		if strings.EqualFold(f.key, u.key) {
			return text + ": it is written " + strconv.Quote(f.key)
		}
	}
	return text
}

// hint names the field that was probably meant, and all fields that the caller may set.
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
	for _, other := range []string{"command", "argv"} { // its names in other tools
		if (u.key == "cmd" || u.key == "command") && slices.Contains(known, other) {
			name = other
			break
		}
	}
	if name != "" {
		hint = "did you mean " + strconv.Quote(name) + "? " + hint
	}
	return hint
}

func mismatch(path, is string) error {
	switch {
	case path == "":
		return fmt.Errorf("it must be an object, not a JSON %s", is)
	case path == "command" && is == "array":
		return &policy.FieldError{Field: path, Reason: "it must be one text, not a JSON array", Hint: "in exec, argv lists a command and its arguments"}
	case path == "network" && is == "object":
		return &policy.FieldError{Field: path, Reason: "it must be one word, not a JSON object", Hint: "hosts go in `network.allow`, ports in `network.publish`"}
	}
	return fmt.Errorf("%s must not be a JSON %s", path, is)
}
