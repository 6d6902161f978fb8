package op

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/policy"
)

// Field is one field of an operation's input, as a door may ask for it. It
// comes from the tags of the input struct:
//
//	Workspace *string `json:"workspace,omitempty" flag:"workspace" short:"w" arg:"DIR" help:"…" choices:"a,b" complete:"dir"`
type Field struct {
	// JSON is the key in the input object.
	JSON string
	// Flag is the long flag, Short its one-letter form; a field without a
	// flag takes the arguments that are no flags.
	Flag, Short string
	// Arg names the value in help texts.
	Arg string
	// Help says what it is for.
	Help string
	// Choices are the values that it may have, where they are few.
	Choices []string
	// Complete says what a shell may offer: "dir", "file" or nothing.
	Complete string
	// Kind is how it is written.
	Kind Kind

	Typ reflect.Type
}

// Kind is how the value of a field is written.
type Kind uint8

// The kinds of fields.
const (
	KindText  Kind = iota // a string, or a number or span in its own notation
	KindBool              // a switch
	KindCount             // a number from 0
	KindList              // strings
)

// Fields are the fields of the operation's input that a command line asks for:
// all but those whose flag is "-", which JSON alone has. Those with the tag
// only:"cli", which name files of the host or need its terminal, are in no schema.
func (o Op) Fields() []Field {
	return fieldsOf(o.in, func(reflect.StructField) bool { return true })
}

// FieldsWithin are those of Fields that InputSchemaWithin has.
func (o Op) FieldsWithin(c *policy.Ceiling) []Field {
	return fieldsOf(o.in, func(f reflect.StructField) bool { return offered(f, c) })
}

// offered says whether programs are told of a field.
func offered(f reflect.StructField, c *policy.Ceiling) bool {
	return f.Tag.Get("only") != "cli" && choice(c, f.Tag.Get("within"))
}

// fieldsOf are the fields that a command line asks for, of those that are wanted.
func fieldsOf(t reflect.Type, wanted func(reflect.StructField) bool) []Field {
	var fields []Field
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			fields = append(fields, fieldsOf(f.Type, wanted)...)
			continue
		}
		if f.Tag.Get("flag") != "-" && wanted(f) {
			fields = append(fields, fieldOf(f))
		}
	}
	return fields
}

func fieldOf(f reflect.StructField) Field {
	typ := f.Type
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	field := Field{
		JSON: key, Flag: f.Tag.Get("flag"), Short: f.Tag.Get("short"), Arg: f.Tag.Get("arg"),
		Help: f.Tag.Get("help"), Complete: f.Tag.Get("complete"), Kind: kindOf(typ), Typ: typ,
	}
	if choices := f.Tag.Get("choices"); choices != "" {
		field.Choices = strings.Split(choices, ",")
	}
	return field
}

func kindOf(t reflect.Type) Kind {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return KindText
	}
	switch t.Kind() {
	case reflect.Bool:
		return KindBool
	case reflect.Uint64:
		return KindCount
	case reflect.Slice:
		return KindList
	default:
		return KindText
	}
}

// Value turns text into what the input object should hold for it: one element
// of a list, else the whole value. A door uses it to blame the right flag;
// Call checks everything again. An error is a *policy.FieldError about f.Flag, or
// f.Arg where it has none.
func (f Field) Value(text string) (any, error) {
	name := f.Arg
	if f.Flag != "" {
		name = "--" + f.Flag
	}
	refuse := func(reason, hint string) error {
		return &policy.FieldError{Field: name, Value: text, Reason: reason, Hint: hint}
	}
	if !utf8.ValidString(text) {
		return nil, refuse("it is not valid UTF-8", "")
	}
	switch f.Kind {
	case KindBool:
		on, err := strconv.ParseBool(text)
		if err != nil {
			return nil, refuse("it is neither true nor false", "")
		}
		return on, nil
	case KindCount:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, refuse("it is not a whole number from 0 to 2^64-1", "")
		}
		return n, nil
	}
	if f.Kind == KindList && f.Typ.Elem().Kind() == reflect.Struct {
		if text = strings.TrimSpace(text); !json.Valid([]byte(text)) || text[0] != '{' {
			return nil, refuse("it is not a JSON object", "")
		}
		return json.RawMessage(text), nil
	}
	if u, ok := reflect.New(f.Typ).Interface().(encoding.TextUnmarshaler); ok {
		for _, wrong := range policy.FieldErrors(u.UnmarshalText([]byte(text))) {
			return nil, refuse(wrong.Reason, wrong.Hint)
		}
	}
	return text, nil
}

// choice says whether a ceiling leaves one in what a field's tag "within" names:
// a part of the ceiling, or "files", the host's that Paddock itself reads. Who is
// offered a field for nothing but a refusal chooses worse among the others.
func choice(c *policy.Ceiling, part string) bool {
	if c == nil {
		return true
	}
	switch part {
	case "files":
		return false
	case "mounts":
		return len(c.Mounts) > 0
	case "env":
		return len(c.Env) > 0
	case "unprotected":
		return len(c.Unprotected) > 0
	case "degraded":
		return len(c.AllowDegraded) > 0
	case "levels":
		return len(c.Levels) > 1
	case "rootfs":
		return len(c.RootFS) > 1
	case "network":
		return len(c.Network) > 1
	case "backends":
		return len(c.Backends) > 1
	case "docker":
		return c.Docker != nil
	case "codex":
		return c.Codex != nil
	case "wrapper":
		return c.Wrapper != nil
	}
	return true
}
