package op

import (
	"encoding"
	"encoding/json"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
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

// offered says whether programs are told of a field.
func offered(f reflect.StructField, c *policy.Ceiling) bool {
	return f.Tag.Get("only") != "cli" && choice(c, f.Tag.Get("within"))
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

// specFields are the fields of inputs that set fields of a spec and are called
// something else than their last word. Of several the one that was given is meant.
var specFields = map[string][]string{
	"workspace.source": {"workspace"}, "workspace.mode": {"workspace_mode"}, "workspace.unprotected": {"unprotect"},
	"mounts": {"ro", "rw"}, "env": {"env_pass", "env"}, "redaction": {"redact"}, "limits.output": {"max_output"},
	"docker": {"image", "engine", "user", "read_only_rootfs", "engine_args"}, "docker.binary": {"engine"}, "docker.extra_run_args": {"engine_args"},
	"codex": {"codex_config"}, "codex.config_overrides": {"codex_config"}, "wrapper": {"wrapper", "wrapper_agent"}, "wrapper.command": {"wrapper"}, "wrapper.agent": {"wrapper_agent"},
}

// specPath is a field of a spec, or of an input, in the text of an error.
var specPath = regexp.MustCompile(`\b(?:limits\.[a-z_]+|[a-z]+_[a-z_]+)\b`)

// NameFields has an error of Call tell of what was written: of the input's own fields,
// which say names as the door does, rather than of those of the spec that they set. What is
// neither in a field nor elsewhere than in the spec file is told with the name of that.
func (o Op) NameFields(err error, input []byte, say func(Field) string) {
	NameFields(o.Fields(), err, input, say)
}

// NameFields is [Op.NameFields] for who takes such fields and is no operation.
func NameFields(fields []Field, err error, input []byte, say func(Field) string) {
	var given map[string]json.RawMessage
	if json.Unmarshal(input, &given) != nil {
		return
	}
	var file string
	for _, key := range []string{"config", "spec_file"} {
		_ = json.Unmarshal(given[key], &file) // absent, or a text
	}
	byKey := map[string]Field{}
	for _, f := range fields {
		byKey[f.JSON] = f
	}
	inText := func(text string) string {
		return specPath.ReplaceAllStringFunc(text, func(name string) string {
			if f, ok := byKey[strings.TrimPrefix(name, "limits.")]; ok {
				return say(f)
			}
			return name
		})
	}
	for _, e := range policy.FieldErrors(err) {
		if e.File != "" || e.Line > 0 {
			continue
		}
		f, ok := byKey[inputKey(given, e)]
		base := baseOf(e.Field)
		// What nobody wrote is a field that is missing, or the current directory.
		_, written := given[f.JSON]
		switch missing := base == f.JSON || base == "workspace.source" && say(f) != f.JSON; {
		case ok && (written || missing && (file == "" || !specKey(e.Field))):
			name, member := say(f), memberOf(base)
			if e.Value == member {
				e.Value = "" // it is in the name
			}
			switch {
			case name != f.JSON && member != "":
				e.Field = name + " " + member
			case name != f.JSON:
				e.Field = name + entryOf(e)
			case member != "":
				e.Field = name + "." + member
			case base != name:
				e.Field = name
			}
			e.Reason, e.Hint = inText(e.Reason), inText(e.Hint)
		case file != "" && specKey(e.Field):
			e.File = file
		}
	}
}

// LocateFields adds the file and the line to each error about a field that the spec file
// sets and the input does not. Without a file, nil, it does nothing.
func LocateFields(err error, input []byte, spec *specfile.File) {
	var given map[string]json.RawMessage
	if spec == nil || json.Unmarshal(input, &given) != nil {
		return
	}
	for _, e := range policy.FieldErrors(err) {
		_, written := given[inputKey(given, e)]
		if !written && e.File == "" && e.Line == 0 {
			spec.LocateField(e)
		}
	}
}

// JSONName is what a field is called where inputs are JSON.
func JSONName(f Field) string { return f.JSON }

// baseOf is a field without the index of an entry, and what follows that.
func baseOf(field string) string {
	if memberOf(field) != "" {
		return field // an index within a name is none
	}
	base, _, _ := strings.Cut(field, "[")
	return base
}

// specKey reports whether a field is, or is in, one of a spec's own: others are in no file.
func specKey(field string) bool {
	root, _, _ := strings.Cut(baseOf(field), ".")
	return slices.ContainsFunc(reflect.VisibleFields(reflect.TypeFor[policy.Spec]()), func(f reflect.StructField) bool {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return name == root
	})
}

// memberOf is the name of a variable or of a setting in a field, "" where it is none.
func memberOf(field string) string {
	for _, parent := range []string{"env.", "codex.config_overrides."} {
		if member, ok := strings.CutPrefix(field, parent); ok {
			return member
		}
	}
	return ""
}

// entryOf says which entry of a list is refused, where its text is not shown.
func entryOf(e *policy.FieldError) string {
	_, i, _ := strings.Cut(strings.TrimSuffix(e.Field, "]"), "[")
	if n, err := strconv.Atoi(i); err == nil && e.Value == "" {
		return " number " + strconv.Itoa(n+1)
	}
	return ""
}

// inputKey is the field of the input that sets the field of a spec that is refused,
// the one that was given if there are several.
func inputKey(given map[string]json.RawMessage, e *policy.FieldError) string {
	name := baseOf(e.Field)
	parent, last, _ := strings.Cut(name, ".")
	keys, member := specFields[name], memberOf(name)
	switch {
	case keys != nil:
	case member != "" && parent == "env":
		keys = specFields[parent]
	case parent == "codex":
		keys = []string{"codex_config"}
	case last != "":
		keys = []string{last}
	default:
		keys = []string{name}
	}
	i := slices.IndexFunc(keys, func(key string) bool {
		var list []string
		raw, ok := given[key]
		if !ok || name != "mounts" && member == "" || json.Unmarshal(raw, &list) != nil {
			return ok
		}
		return slices.ContainsFunc(list, func(text string) bool {
			if member != "" {
				set, _, _ := strings.Cut(text, "=")
				return set == member || policy.FieldPath("", set) == member
			}
			m, _ := parseMount("", text)
			return isMount(m, e.Value)
		})
	})
	if i < 0 && (len(keys) > 1 || member != "") {
		return ""
	}
	return keys[max(i, 0)]
}

// isMount reports whether a value that was refused is that of a mount as it was written.
func isMount(m policy.Mount, value string) bool {
	return slices.ContainsFunc([]string{m.Source, m.Target}, func(p string) bool {
		return p != "" && (p == value || path.Clean(p) == value || strings.HasSuffix(value, "/"+strings.TrimPrefix(path.Clean(p), "~/")))
	})
}
