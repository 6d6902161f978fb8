package op

import (
	"encoding"
	"encoding/base64"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// bounds of a field, from the tags min and max: of a number, of the bytes of a
// string, or of the elements of a list.
type bounds struct {
	min, max *int64
	choices  []string // the texts that it may be, besides none
}

// boundsOf reads the tags. A number that is none is a mistake of the table's.
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

// length checks how long something is.
func (b bounds) length(n int, path, unit string) error {
	switch {
	case b.min != nil && int64(n) < *b.min:
		return fmt.Errorf("%s must have at least %d %s", path, *b.min, unit)
	case b.max != nil && int64(n) > *b.max:
		return fmt.Errorf("%s must have at most %d %s", path, *b.max, unit)
	}
	return nil
}

// text checks a string for a type.
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
		return &plainError{&policy.FieldError{Field: path, Value: s, Reason: `it must be "` + strings.Join(b.choices, `" or "`) + `"`}}
	}
	return b.length(len(s), path, "bytes")
}

// plainError is what is wrong with a field, told as a spec's fields are: the error
// alone, and not behind whose input it was.
type plainError struct{ *policy.FieldError }

// Unwrap gives what is told.
func (e *plainError) Unwrap() error { return e.FieldError }

// named makes an error of a type's own notation tell the field.
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

// number checks a number for a type.
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
