package table

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/op"
)

// optional are the interfaces that an input or an output may have beside what each must.
// A struct that embeds another gets its methods without a word: a door would then show,
// or encode, something else.
var optional = []struct {
	name string
	typ  reflect.Type
}{
	{"Tell", reflect.TypeFor[op.Teller]()},
	{"Remark", reflect.TypeFor[op.Remarker]()},
	{"Failed", reflect.TypeFor[op.Failer]()},
	{"ExitStatus", reflect.TypeFor[op.Statuser]()},
	{"Outcome", reflect.TypeFor[interface{ Outcome() (string, string) }]()},
	{"Warn", reflect.TypeFor[interface{ Warn(w io.Writer) error }]()},
	{"Note", reflect.TypeFor[interface{ Note() string }]()},
	{"JSONSchema", reflect.TypeFor[op.Schematic]()},
	{"String", reflect.TypeFor[fmt.Stringer]()},
	{"Error", reflect.TypeFor[error]()},
	{"MarshalJSON", reflect.TypeFor[json.Marshaler]()},
	{"MarshalText", reflect.TypeFor[encoding.TextMarshaler]()},
	{"UnmarshalJSON", reflect.TypeFor[json.Unmarshaler]()},
	{"UnmarshalText", reflect.TypeFor[encoding.TextUnmarshaler]()},
}

// TestOutputs compares, for each operation, which optional interfaces its input and its
// output have, and what people and models are told of an output of which every field is set.
func TestOutputs(t *testing.T) {
	var b bytes.Buffer
	for _, o := range All() {
		fmt.Fprintf(&b, "## %s\n", o.Name)
		for _, field := range []string{"in", "out"} {
			typ := typeIn(&o, field)
			fmt.Fprintf(&b, "%s:", field)
			for _, one := range optional {
				switch {
				case typ.Implements(one.typ):
					b.WriteString(" " + one.name)
				case reflect.PointerTo(typ).Implements(one.typ):
					b.WriteString(" *" + one.name)
				}
			}
			b.WriteByte('\n')
		}
		for _, set := range []bool{true, false} {
			v := reflect.New(typeIn(&o, "out")).Elem()
			fill(v, "x", set)
			out := v.Interface()
			fmt.Fprintf(&b, "# render, fields set: %t\n%s", set, written(func(w io.Writer) error { return o.Render(w, out) }))
			if beside, ok := out.(op.Remarker); ok {
				fmt.Fprintf(&b, "# remark, fields set: %t\n%s", set, written(beside.Remark))
			}
			if told, ok := out.(op.Teller); ok {
				fmt.Fprintf(&b, "# tell, fields set: %t\n%s", set, written(told.Tell))
			}
		}
		b.WriteByte('\n')
	}
	file := filepath.Join("..", "testdata", "outputs.txt")
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, b.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); diff != "" {
		t.Errorf("outputs are others than in %s (go test -update writes it anew):\n%s", file, diff)
	}
}

// typeIn returns the type in one of an operation's own fields.
func typeIn(o *op.Op, field string) reflect.Type {
	f := reflect.ValueOf(o).Elem().FieldByName(field)
	return *(*reflect.Type)(unsafe.Pointer(f.UnsafeAddr()))
}

// written returns what write has written, with its error or its panic.
func written(write func(io.Writer) error) (text string) {
	var b bytes.Buffer
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("panic: %v\n", p)
		}
	}()
	err := write(&b)
	text = b.String()
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if err != nil {
		text += fmt.Sprintf("error: %v\n", err)
	}
	return text
}

// fill sets every exported field of a value, texts to the field's name. If flags is
// false, switches stay off and pointers nil.
func fill(v reflect.Value, name string, flags bool) {
	if _, ok := v.Interface().(encoding.TextMarshaler); ok && v.Kind() == reflect.Struct {
		return // a time
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(name)
	case reflect.Bool:
		v.SetBool(flags)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(v.Field(i), f.Name, flags)
			}
		}
	case reflect.Pointer:
		if flags {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), name, flags)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name, flags)
	case reflect.Map:
		key, of := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, name, flags)
		fill(of, name, flags)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, of)
	default:
		if v.CanInt() {
			v.SetInt(1)
		} else if v.CanUint() {
			v.SetUint(1)
		}
	}
}
