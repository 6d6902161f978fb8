package op

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/policy"
)

// dialect is the version of JSON Schema that the schemas use.
const dialect = "https://json-schema.org/draft/2020-12/schema"

// InputSchema returns the JSON schema of the input: the contract's if there is one, else one
// made from the input struct.
func (o Op) InputSchema() json.RawMessage {
	return o.InputSchemaWithin(nil)
}

// InputSchemaWithin is InputSchema without the fields in which a ceiling leaves no choice.
// The ceiling may be nil.
func (o Op) InputSchemaWithin(c *policy.Ceiling) json.RawMessage {
	if o.Schema != nil {
		return o.Schema
	}
	s := schemer{input: true, ceiling: c}
	return s.root(o.in)
}

// OutputSchema returns the JSON schema of the output.
func (o Op) OutputSchema() json.RawMessage {
	s := schemer{}
	return s.root(o.out)
}

// schema is one JSON schema. The zero value allows anything.
type schema struct {
	Dialect         string      `json:"$schema,omitempty"`
	Type            any         `json:"type,omitempty"` // a name, or several
	Description     string      `json:"description,omitempty"`
	Properties      *properties `json:"properties,omitempty"`
	Required        []string    `json:"required,omitempty"`
	Additional      any         `json:"additionalProperties,omitempty"`
	Items           *schema     `json:"items,omitempty"`
	Enum            []string    `json:"enum,omitempty"`
	Pattern         string      `json:"pattern,omitempty"`
	Format          string      `json:"format,omitempty"`
	ContentEncoding string      `json:"contentEncoding,omitempty"`
	Minimum         *int64      `json:"minimum,omitempty"`
	Maximum         *int64      `json:"maximum,omitempty"`
	MinLength       *int64      `json:"minLength,omitempty"`
	MaxLength       *int64      `json:"maxLength,omitempty"`
	MinItems        *int64      `json:"minItems,omitempty"`
	MaxItems        *int64      `json:"maxItems,omitempty"`
}

// properties keep the order of the fields.
type properties []property

type property struct {
	name string
	of   schema
}

// MarshalJSON returns an object.
func (p *properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, one := range *p {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(one.name)
		if err != nil {
			return nil, err
		}
		of, err := json.Marshal(one.of)
		if err != nil {
			return nil, err
		}
		b.Write(append(append(name, ':'), of...))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Schematic is a type that decodes JSON itself and has a JSON schema for that: with a type,
// items, a pattern or a description.
type Schematic interface {
	JSONSchema() string
}

// notation returns the schema of a type with a special notation.
func notation(t reflect.Type) (schema, bool) {
	if own, ok := reflect.New(t).Interface().(Schematic); ok {
		var s schema
		if err := json.Unmarshal([]byte(own.JSONSchema()), &s); err != nil {
			panic(err) // a bug of the type
		}
		return s, true
	}
	switch t {
	case reflect.TypeFor[osstring.String]():
		return schema{Type: "string"}, true
	case reflect.TypeFor[osstring.List]():
		return schema{Type: "array", Items: &schema{Type: "string"}}, true
	case reflect.TypeFor[osstring.Map]():
		return schema{Type: "object", Additional: schema{Type: "string"}}, true
	case reflect.TypeFor[policy.Size]():
		return schema{
			Type: []string{"string", "integer"}, Pattern: `^[0-9]+([.][0-9]+)? *([KMGT]i?B|B)?$`,
			Description: "a size with its unit, 512MiB, or a number of bytes",
		}, true
	case reflect.TypeFor[policy.Duration]():
		return schema{
			Type: "string", Pattern: `^[+]?([0-9]*[.]?[0-9]*(ns|us|µs|μs|ms|s|m|h))+$`,
			Description: "a duration with its units, 1h30m",
		}, true
	case reflect.TypeFor[policy.CPUs]():
		return schema{
			Type: []string{"string", "number"}, Pattern: `^[0-9]+([.][0-9]{1,3})?$`,
			Description: "an amount of processors, 1.5",
		}, true
	case reflect.TypeFor[policy.Network]():
		return schema{Type: []string{"string", "object"}, Description: "a mode alone, or its rules too"}, true
	case reflect.TypeFor[time.Time]():
		return schema{Type: "string", Format: "date-time"}, true
	}
	return schema{}, false
}

// schemer makes schemas of types.
type schemer struct {
	input   bool
	ceiling *policy.Ceiling // if not nil, fields in which it leaves no choice are left out
	above   []reflect.Type  // the types around the present one, to detect recursion
}

func (s *schemer) root(t reflect.Type) json.RawMessage {
	of := s.of(t)
	of.Dialect = dialect
	text, err := json.Marshal(of)
	if err != nil {
		panic(err) // a schema has only strings and numbers
	}
	return text
}

// of returns the schema of a type. For an unknown type it allows anything.
func (s *schemer) of(t reflect.Type) schema {
	if of, ok := notation(t); ok {
		return of
	}
	if t.Kind() == reflect.Pointer {
		return s.of(t.Elem())
	}
	switch {
	case isText(t):
		return schema{Type: "string"}
	case t.Kind() == reflect.Interface || ownJSON(t) || slices.Contains(s.above, t):
		return schema{}
	case isBytes(t):
		return schema{Type: "string", ContentEncoding: "base64"}
	}
	s.above = append(s.above, t)
	defer func() { s.above = s.above[:len(s.above)-1] }()
	zero := int64(0)
	switch k := t.Kind(); {
	case k == reflect.Struct:
		return s.object(t)
	case k == reflect.Map:
		return schema{Type: "object", Additional: s.of(t.Elem())}
	case k == reflect.Slice || k == reflect.Array:
		items := s.of(t.Elem())
		return schema{Type: "array", Items: &items}
	case k == reflect.Bool:
		return schema{Type: "boolean"}
	case k >= reflect.Int && k <= reflect.Int64:
		return schema{Type: "integer"}
	case k >= reflect.Uint && k <= reflect.Uint64:
		return schema{Type: "integer", Minimum: &zero}
	case k == reflect.Float32 || k == reflect.Float64:
		return schema{Type: "number"}
	case k == reflect.String:
		return schema{Type: "string"}
	}
	return schema{}
}

// ownJSON reports whether a type has its own JSON encoding.
func ownJSON(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) || plain(t) == nil
}

func (s *schemer) object(t reflect.Type) schema {
	o := schema{Type: "object", Properties: &properties{}, Additional: false}
	for _, f := range jsonFields(t) {
		if s.input && !offered(f.StructField, s.ceiling) {
			continue
		}
		of := s.of(f.Type)
		s.tagged(&of, f)
		*o.Properties = append(*o.Properties, property{f.key, of})
		if f.required() {
			o.Required = append(o.Required, f.key)
		}
	}
	return o
}

// tagged adds a field's tags to its schema.
func (s *schemer) tagged(of *schema, f jsonField) {
	if help := f.Tag.Get("help"); help != "" {
		if of.Description != "" {
			help += "; " + of.Description
		}
		of.Description = help
	}
	if choices := f.Tag.Get("choices"); choices != "" {
		values := of
		if of.Items != nil {
			values = of.Items
		}
		values.Enum = strings.Split(choices, ",")
		if s.ceiling != nil && f.Tag.Get("within") == "network" {
			values.Enum = slices.DeleteFunc(values.Enum, func(word string) bool { return !slices.Contains(s.ceiling.Network, word) })
		}
	}
	b := boundsOf(f.Tag)
	switch of.Type {
	case "integer", "number":
		of.Minimum, of.Maximum = cmp.Or(b.min, of.Minimum), b.max
	case "string":
		of.MinLength, of.MaxLength = b.min, b.max
	case "array":
		of.MinItems, of.MaxItems = b.min, b.max
	}
	// An empty value that is not omitted is encoded as null.
	if k := f.Type.Kind(); !s.input && !f.omit && of.Type != nil && (k == reflect.Slice || k == reflect.Map || k == reflect.Pointer) {
		of.Type = []any{of.Type, "null"}
	}
}
