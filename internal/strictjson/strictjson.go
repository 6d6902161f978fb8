// Package strictjson decodes JSON that must have only one meaning: files that control
// access, and input from other programs.
//
//	var doc document
//	err := strictjson.Unmarshal(data, &doc, strictjson.Options{})
//
// Unlike encoding/json it refuses members that appear twice, that the type does not have, or
// that differ from a field's name in case, as well as invalid UTF-8, half surrogate pairs,
// and text after the value. Types with UnmarshalJSON or UnmarshalText decode themselves. From
// files of other programs, whose members are not all known, [Options.Foreign] takes what it knows.
//
// The errors name the value by its path, and programs can distinguish them ([Error]). To
// bound memory, the caller must bound the length of data.
package strictjson

import (
	"bytes"
	"encoding"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/paddock-dev/paddock/policy"
)

// The kinds of errors, for errors.Is.
var (
	ErrDuplicate  = errors.New("appears twice")
	ErrUnknown    = errors.New("unknown member")
	ErrCase       = errors.New("differs from another member in case alone")
	ErrNull       = errors.New("must not be null")
	ErrIncomplete = errors.New("the text ends too early")
)

// Error says what is wrong with a text, and where.
type Error struct {
	// Path names the value, for example edits[2].old. It is empty for the text as a whole.
	Path string
	// Key is the last name in Path, and In the type of the object that it is in, if Err is
	// [ErrUnknown].
	Key string
	In  reflect.Type
	// Got is the kind of the value if it does not fit the field: object, array, string,
	// number, bool or null.
	Got string
	// Line is the line in the text, from 1.
	Line int
	// Err is one of the kinds above, or the error of the field's type about the value.
	Err error
}

// Error returns the path and the reason.
func (e *Error) Error() string {
	where := "line " + strconv.Itoa(e.Line)
	if e.Path != "" {
		where += ": " + e.Path
	}
	return where + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Options say what [Unmarshal] refuses beyond what v's type does not fit.
type Options struct {
	// NoNull refuses null in place of any value.
	NoNull bool
	// Foreign ignores members that v's type does not have. It refuses those that differ from
	// another member of their object in case alone, at any depth: programs that compare names
	// without case, such as those that use encoding/json, would take either.
	Foreign bool
}

// noNull is made when it is needed: most programs that link this package decode nothing.
var noNull = sync.OnceValue(func() json.Options {
	return json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, _ any) error {
		if dec.PeekKind() == 'n' {
			return ErrNull
		}
		return errors.ErrUnsupported // the type decodes the value
	}))
})

// Unmarshal decodes data, which is one value, into v. The error is an [*Error].
func Unmarshal(data []byte, v any, o Options) error {
	opts := []json.Options{json.RejectUnknownMembers(!o.Foreign)}
	if o.NoNull {
		opts = append(opts, noNull())
	}
	if o.Foreign {
		if err := oneCase(data); err != nil {
			return err
		}
	}
	err := json.Unmarshal(data, v, opts...)
	if err == nil {
		return nil
	}
	e := &Error{Err: err, Line: 1}
	syntax, semantic := (*jsontext.SyntacticError)(nil), (*json.SemanticError)(nil)
	switch {
	case errors.As(err, &semantic):
		e.at(data, semantic.JSONPointer, semantic.ByteOffset)
		e.Err = semantic.Err
		switch {
		case errors.Is(err, json.ErrUnknownName):
			e.Key, e.In, e.Err = semantic.JSONPointer.LastToken(), semantic.GoType, ErrUnknown
		case semantic.Err == nil:
			e.Got = kindName(semantic.JSONKind)
			e.Err = errors.New("must be " + wanted(semantic.GoType) + ", not " + e.Got)
		}
	case errors.As(err, &syntax):
		e.at(data, syntax.JSONPointer, syntax.ByteOffset)
		switch e.Err = syntax.Err; {
		case errors.Is(err, jsontext.ErrDuplicateName):
			e.Err = ErrDuplicate
		case errors.Is(err, io.ErrUnexpectedEOF):
			e.Path, e.Err = "", ErrIncomplete
		}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Err = ErrIncomplete
	}
	return e
}

// oneCase refuses members of one object whose names differ in case alone. The error is an [*Error];
// what is not JSON is left to the decoder.
func oneCase(data []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	var open []map[string]bool // the names of each object or list that is open, folded
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return nil //nolint:nilerr // the decoder meets it, too, and names it
		}
		switch token.Kind() {
		case '{', '[':
			open = append(open, map[string]bool{})
		case '}', ']':
			open = open[:len(open)-1]
		case '"':
			kind, length := dec.StackIndex(dec.StackDepth())
			if kind != '{' || length%2 == 0 { // a value
				continue
			}
			name := foldCase(token.String())
			if open[len(open)-1][name] {
				e := &Error{Err: ErrCase}
				e.at(data, dec.StackPointer(), dec.InputOffset())
				return e
			}
			open[len(open)-1][name] = true
		}
	}
}

// foldCase returns a name that all its variants of case share, as encoding/json compares them.
func foldCase(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, name)
}

// at sets path and line. A pointer does not distinguish names from indexes, so a name of
// digits is shown as an index.
func (e *Error) at(data []byte, pointer jsontext.Pointer, offset int64) {
	for token := range pointer.Tokens() {
		if n, err := strconv.Atoi(token); err == nil && n >= 0 {
			e.Path += "[" + token + "]"
		} else {
			e.Path = policy.FieldPath(e.Path, token)
		}
	}
	e.Line = 1 + bytes.Count(data[:min(max(offset, 0), int64(len(data)))], []byte("\n"))
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case '0':
		return "number"
	case 't', 'f':
		return "bool"
	}
	return "null"
}

// wanted names the JSON that a type is written as.
func wanted(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return "a string"
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Map:
		return "an object"
	case t == reflect.TypeFor[[]byte]() || t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		return "a list"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case strings.HasPrefix(t.Kind().String(), "float"):
		return "a number"
	}
	return "a whole number"
}
