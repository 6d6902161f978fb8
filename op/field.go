package op

import (
	"cmp"
	"encoding"
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/lazyregexp"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
)

// Field is one field of an operation's input, as doors show it. It is made from the tags of
// the input struct:
//
//	Workspace *string `json:"workspace,omitempty" flag:"workspace" short:"w" arg:"DIR" help:"…" choices:"a,b" complete:"dir"`
type Field struct {
	// JSON is the key in the input object.
	JSON string
	// Flag is the long flag, Short its one-letter form. A field without a flag takes
	// positional arguments.
	Flag, Short string
	// Arg is the name of the value in help texts.
	Arg string
	// Help describes the field, on a command line: the tag cli, or else help.
	Help string
	// Bare is the value of the flag if it is given without one, empty if it needs one.
	Bare string
	// Choices are the only values that it may have, if there are few.
	Choices []string
	// Complete says how a shell completes the value: "dir", "file", "sandbox" or nothing.
	Complete string
	// Leads: it can also be given first, as "NAME -- CMD" before a command, and before all that
	// the command line takes otherwise.
	Leads bool
	// Kind is how its value is written.
	Kind Kind
	// Bytes: a text of it need not be UTF-8.
	Bytes bool

	Typ reflect.Type
}

// Kind says how the value of a field is written.
type Kind uint8

// The kinds of fields.
const (
	KindText  Kind = iota // a string, or a number or duration in its own notation
	KindBool              // a switch
	KindCount             // a number from 0
	KindList              // strings
)

// Fields returns the fields of the operation's input that are on the command line: all but
// those whose flag is "-", which exist only in JSON. Fields with the tag only:"cli", which
// name files of the host or need its terminal, are in no schema.
func (o Op) Fields() []Field {
	return fieldsOf(o.in, func(reflect.StructField) bool { return true })
}

// FieldsWithin returns the fields that are also in InputSchemaWithin.
func (o Op) FieldsWithin(c *policy.Ceiling) []Field {
	return fieldsOf(o.in, func(f reflect.StructField) bool { return offered(f, c) })
}

// fieldsOf returns the fields of a struct that are on the command line, if wanted.
func fieldsOf(t reflect.Type, wanted func(reflect.StructField) bool) []Field {
	var fields []Field
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			fields = append(fields, fieldsOf(f.Type, wanted)...)
			continue
		}
		if f.Tag.Get("flag") == "-" || !wanted(f) {
			continue
		}
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		field := Field{
			JSON: key, Flag: f.Tag.Get("flag"), Short: f.Tag.Get("short"), Arg: f.Tag.Get("arg"),
			Help: cmp.Or(f.Tag.Get("cli"), f.Tag.Get("help")), Complete: f.Tag.Get("complete"), Bare: f.Tag.Get("bare"), Leads: f.Tag.Get("leads") != "", Typ: elem(f.Type),
			Bytes: holdsBytes(elem(f.Type)),
		}
		switch k := field.Typ.Kind(); {
		case isText(field.Typ):
		case k == reflect.Bool:
			field.Kind = KindBool
		case k == reflect.Uint64:
			field.Kind = KindCount
		case k == reflect.Slice:
			field.Kind = KindList
		}
		if choices := f.Tag.Get("choices"); choices != "" {
			field.Choices = strings.Split(choices, ",")
		}
		fields = append(fields, field)
	}
	return fields
}

// Value returns what the input object should hold for a text: the whole value, or one
// element if the field is a list. The command line uses it so that an error names the right
// flag; Call checks everything again. An error is a *policy.FieldError about f.Flag, or
// f.Arg if the field has no flag.
func (f Field) Value(text string) (any, error) {
	name := f.Arg
	if f.Flag != "" {
		name = "--" + f.Flag
	}
	refuse := func(reason, hint string) error {
		return &policy.FieldError{Field: name, Value: text, Reason: reason, Hint: hint}
	}
	if !f.Bytes && !utf8.ValidString(text) {
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
			return nil, refuse("it is not a whole number from 0 to 2^64-1", name+" "+f.Arg+": "+f.Help)
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
	if f.Bytes {
		return osstring.String(text), nil
	}
	return text, nil
}

// offered reports whether programs are shown a field: whether it is not for the command
// line only, and the ceiling leaves a choice in what its tag "within" names. A model that is
// shown fields that would only be refused chooses worse among the others.
func offered(f reflect.StructField, c *policy.Ceiling) bool {
	if f.Tag.Get("only") == "cli" {
		return false
	}
	if c == nil {
		return true
	}
	switch f.Tag.Get("within") {
	case "files": // files of the host that Paddock itself reads
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
	case "rules":
		return len(c.NetworkRules) > 0
	case "ssh":
		return c.SSHAgent != nil
	case "host_sockets":
		return len(c.HostSockets) > 0
	case "host_ports":
		return len(c.HostPorts) > 0
	case "publish":
		return len(c.Publish) > 0
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

// jsonField is a field of a struct with its key in JSON.
type jsonField struct {
	reflect.StructField
	key  string
	omit bool // it may be absent
}

// required reports whether the field must be present.
func (f jsonField) required() bool { return !f.omit }

// jsonFields returns the fields of a struct and of those embedded in it, in order.
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

// elem returns a type without its pointers.
func elem(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// plain returns elem(t), or nil for a type that decodes JSON itself or is an interface.
func plain(t reflect.Type) reflect.Type {
	if t = elem(t); t == nil || t.Kind() == reflect.Interface || readsJSON(t) {
		return nil
	}
	return t
}

func readsJSON(t reflect.Type) bool {
	return t != nil && !isOSString(t) && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// OSText marks a type that decodes JSON itself, and whose texts need not be UTF-8, as those of the
// kernel (see package osstring).
type OSText interface{ OSText() }

// holdsBytes reports whether a type's texts need not be UTF-8.
func holdsBytes(t reflect.Type) bool {
	return t != nil && (isOSString(t) || t.Implements(reflect.TypeFor[OSText]()))
}

func isOSString(t reflect.Type) bool {
	return t == reflect.TypeFor[osstring.String]() || t == reflect.TypeFor[osstring.List]()
}

// isText reports whether a type is written as a string in its own notation.
func isText(t reflect.Type) bool {
	return t != nil && reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// specFields maps fields of a spec to the input fields that set them, if they are not named
// like the last part of the spec's field. If several are listed, the one that was given is
// meant.
var specFields = map[string][]string{
	"workspace.source": {"workspace"}, "workspace.mode": {"workspace_mode"}, "workspace.unprotected": {"unprotect"},
	"mounts": {"ro", "rw"}, "env": {"env", "env_pass"}, "redaction": {"redact"}, "limits.output": {"max_output"},
	"ssh_agent.keys": {"ssh_keys"}, "ssh_agent.sign": {"ssh_agent"},
	"docker": {"image", "engine", "user", "read_only_rootfs", "engine_args"}, "docker.binary": {"engine"}, "docker.extra_run_args": {"engine_args"},
	"codex": {"codex_config"}, "codex.config_overrides": {"codex_config"}, "wrapper": {"wrapper", "wrapper_agent"}, "wrapper.command": {"wrapper"}, "wrapper.agent": {"wrapper_agent"},
}

// specPath matches a field of a spec, or of an input, in the text of an error.
var specPath = lazyregexp.New(`\b(?:limits\.[a-z_]+|[a-z]+_[a-z_]+)\b`)

// NameFields changes an error of Call so that it uses the caller's names: the fields of the
// input, in the door's notation (say), instead of the fields of the spec that they set. An
// error about something that only the spec file can have set gets the name of that file.
func (o Op) NameFields(err error, input []byte, say func(Field) string) {
	NameFields(o.Fields(), err, input, say)
}

// NameFields is [Op.NameFields] for callers that have such fields without an operation.
func NameFields(fields []Field, err error, input []byte, say func(Field) string) {
	given := givenIn(input)
	if given == nil {
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
		return specPath().ReplaceAllStringFunc(text, func(name string) string {
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
		// A field that was not written is missing, or is the current directory.
		_, written := given[f.JSON]
		switch missing := base == f.JSON || base == "workspace.source" && say(f) != f.JSON; {
		case ok && (written || missing && (file == "" || !specKey(e.Field))):
			name, member := say(f), memberOf(base)
			if e.Value == member {
				e.Value = "" // the name includes it
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
			e.Reason = inText(e.Reason)
		case file != "" && specKey(e.Field):
			e.File = file
		}
	}
}

// LocateFields adds file and line to each error about a field that is set by the spec file
// and not by the input, and the way around a project's file. It does nothing if spec is nil.
func LocateFields(err error, input []byte, spec *specfile.File) {
	given := givenIn(input)
	if spec == nil || given == nil {
		return
	}
	for _, e := range policy.FieldErrors(err) {
		_, written := given[inputKey(given, e)]
		if !written && e.File == "" && e.Line == 0 {
			spec.LocateField(e)
			if e.Line > 0 && spec.IsProject() {
				e.Hint = strings.TrimPrefix(e.Hint+"; `no_project_file` leaves out the project's file", "; ")
			}
		}
	}
}

// givenIn returns the fields that an input has: those that are not null. It returns nil if the input
// is no object.
func givenIn(input []byte) (given map[string]json.RawMessage) {
	if json.Unmarshal(input, &given) != nil {
		return nil
	}
	maps.DeleteFunc(given, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	return given
}

// JSONName returns the name of a field in JSON.
func JSONName(f Field) string { return f.JSON }

// baseOf returns a field without the index of an entry and everything after that.
func baseOf(field string) string {
	if memberOf(field) != "" {
		return field // brackets in a name are not an index
	}
	base, _, _ := strings.Cut(field, "[")
	return base
}

// specKey reports whether a field is, or is in, a field of a spec, which a file can set.
func specKey(field string) bool {
	root, _, _ := strings.Cut(baseOf(field), ".")
	return slices.ContainsFunc(reflect.VisibleFields(reflect.TypeFor[policy.Spec]()), func(f reflect.StructField) bool {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return name == root
	})
}

// memberOf returns the name of a variable or of a codex setting in a field, or "".
func memberOf(field string) string {
	for _, parent := range []string{"env.", "codex.config_overrides."} {
		if member, ok := strings.CutPrefix(field, parent); ok {
			return member
		}
	}
	return ""
}

// entryOf returns which entry of a list is refused, if the error does not show its text.
func entryOf(e *policy.FieldError) string {
	_, i, _ := strings.Cut(strings.TrimSuffix(e.Field, "]"), "[")
	if n, err := strconv.Atoi(i); err == nil && e.Value == "" {
		return " number " + strconv.Itoa(n+1)
	}
	return ""
}

// inputKey returns the field of the input that sets the field of a spec in an error. If
// several can, it is the one that was given.
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
	rules := (name == "network.allow" || name == "network.deny") && e.Value != ""
	i := slices.IndexFunc(keys, func(key string) bool {
		var list []string
		raw, ok := given[key]
		if !ok || name != "mounts" && member == "" && !rules || json.Unmarshal(raw, &list) != nil {
			return ok
		}
		return slices.ContainsFunc(list, func(text string) bool {
			if rules {
				return strings.HasPrefix(strings.ToLower(text), strings.ToLower(e.Value)) // a rule can have ports
			}
			if member != "" {
				set, _, _ := strings.Cut(text, "=")
				return set == member || policy.FieldPath("", set) == member
			}
			m, _ := parseMount("", text)
			return isMount(m, e.Value)
		})
	})
	if i < 0 && (len(keys) > 1 || member != "" || rules && given[keys[0]] != nil) {
		return ""
	}
	return keys[max(i, 0)]
}

// isMount reports whether a refused value is the source or the target of a mount.
func isMount(m policy.Mount, value string) bool {
	return slices.ContainsFunc([]string{m.Source, m.Target}, func(p string) bool {
		return p != "" && (p == value || path.Clean(p) == value || strings.HasSuffix(value, "/"+strings.TrimPrefix(path.Clean(p), "~/")))
	})
}
