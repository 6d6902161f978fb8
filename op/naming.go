package op

import (
	"encoding/json"
	"errors"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/token"
)

// specFields are the fields of inputs that set fields of a spec and are called
// something else than their last word. Of several the one that was given is meant.
var specFields = map[string][]string{
	"workspace.source": {"workspace"}, "workspace.mode": {"workspace_mode"}, "workspace.unprotected": {"unprotect"},
	"mounts": {"ro", "rw"}, "env": {"env", "env_pass"}, "redaction": {"redact"}, "limits.output": {"max_output"},
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
			e.Reason = inText(e.Reason)
		case file != "" && specKey(e.Field):
			e.File = file
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

// HintOf is what an error says to do about it, empty where it says nothing.
func HintOf(err error) string {
	field, start, own := (*policy.FieldError)(nil), (*backend.StartError)(nil), (*paddock.Error)(nil)
	denied, tokens := (*privilege.Denied)(nil), (*token.UnavailableError)(nil)
	var fixed interface{ Remedy() string } // an error whose text a contract fixes
	switch {
	case errors.As(err, &tokens):
		return tokens.Hint
	case errors.As(err, &denied):
		return denied.Hint
	case errors.As(err, &field):
		return field.Hint
	case errors.As(err, &start):
		return start.Hint
	case errors.As(err, &own):
		return own.Hint
	case errors.As(err, &fixed):
		return fixed.Remedy()
	}
	return ""
}
