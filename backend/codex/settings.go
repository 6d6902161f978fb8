package codex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// The settings of the CLI that decide what its sandbox is.
const (
	keyMode        = "sandbox_mode"
	keyPermissions = "default_permissions"
	keyWrite       = "sandbox_workspace_write"
	keyRoots       = keyWrite + ".writable_roots"
	keyNetwork     = keyWrite + ".network_access"
	keySlashTmp    = keyWrite + ".exclude_slash_tmp"
	keyTmpdir      = keyWrite + ".exclude_tmpdir_env_var"
)

// networkHost is the word of Spec.Network for the host's own.
const networkHost = "host"

// The values of keyMode.
const (
	modeRead  = "read-only"
	modeWrite = "workspace-write"
)

func quoted(s string) string {
	var b strings.Builder
	writeString(&b, s)
	return b.String()
}

// own reports whether the spec's overrides decide by themselves what can be
// written: with permission profiles, the other settings mean nothing.
func (s settings) own() bool { return s[keyPermissions] != "" }

// fill adds what makes the sandbox what the spec asks for: commands write the
// directory that the CLI is started in, the one that is named here, and nothing
// else. Every setting is given, also where it is the default: what is given
// outweighs each file of settings that the CLI might read.
func (s settings) fill(network, scratch string) error {
	if s.own() {
		return nil
	}
	if _, ok := s[keyWrite]; ok {
		return &policy.FieldError{Field: policy.FieldPath(overridesField, keyWrite), Reason: "the parts of this table are settings of their own",
			Hint: "write them one by one, as " + keySlashTmp}
	}
	s.byDefault(keyMode, quoted(modeWrite))
	if s[keyMode] != quoted(modeWrite) {
		return nil
	}
	s.byDefault(keySlashTmp, "true")
	s.byDefault(keyTmpdir, "true")
	access := strconv.FormatBool(network == networkHost)
	s.byDefault(keyNetwork, access)
	if s[keyNetwork] != access {
		return &policy.FieldError{Field: policy.FieldPath(overridesField, keyNetwork), Value: s[keyNetwork], Reason: "network is " + network, Hint: "write network: host or none, and leave this out"}
	}
	return s.addRoot(scratch)
}

func (s settings) byDefault(key, value string) {
	if _, ok := s[key]; !ok {
		s[key] = value
	}
}

// addRoot adds a directory to those that commands may write.
func (s settings) addRoot(dir string) error {
	s.byDefault(keyRoots, "[]")
	inner, isList := strings.CutPrefix(s[keyRoots], "[")
	if !isList {
		return &policy.FieldError{Field: policy.FieldPath(overridesField, keyRoots), Value: s[keyRoots], Reason: "it is not a list"}
	}
	if inner = strings.TrimSuffix(inner, "]"); inner != "" {
		inner += ", "
	}
	s[keyRoots] = "[" + inner + quoted(dir) + "]"
	return nil
}

// maxDepth bounds how far lists and tables go into each other.
const maxDepth = 8

// overridesField is where a spec has the settings.
const overridesField = "codex.config_overrides"

// settings are what is handed over with -c: the rendered values by key.
type settings map[string]string

// readOverrides renders what a spec hands over. Its keys were checked when the
// spec was resolved: the CLI cuts "key=value" at the first "=" and the key at
// each dot, and knows no quotes.
func readOverrides(written map[string]any) (settings, error) {
	s := settings{}
	for _, key := range slices.Sorted(maps.Keys(written)) {
		text, err := renderValue(written[key])
		if err != nil {
			return nil, &policy.FieldError{Field: policy.FieldPath(overridesField, key), Reason: err.Error()}
		}
		s[key] = text
	}
	return s, nil
}

// renderValue writes a value as the CLI reads it, which is TOML, and takes as
// plain text what is none. Where JSON is TOML too (words, numbers, texts, lists
// of them) it is the JSON text; tables and some characters differ.
func renderValue(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("it cannot be written down: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var plain any
	if err := d.Decode(&plain); err != nil {
		return "", fmt.Errorf("it cannot be written down: %v", err)
	}
	var b strings.Builder
	if err := writeValue(&b, plain, 0); err != nil {
		return "", err
	}
	return b.String(), nil
}

func writeValue(b *strings.Builder, value any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it goes deeper than %d levels", maxDepth)
	}
	switch v := value.(type) {
	case nil:
		return fmt.Errorf("the CLI's settings know no null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case json.Number:
		return writeNumber(b, v.String())
	case string:
		writeString(b, v)
	case []any:
		return writeList(b, v, depth)
	case map[string]any:
		return writeTable(b, v, depth)
	}
	return nil
}

// writeNumber keeps numbers as they are, but for those that the CLI would take
// for a text because they are too long.
func writeNumber(b *strings.Builder, text string) error {
	if !strings.ContainsAny(text, ".eE") {
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return fmt.Errorf("the number %s has more than 64 bits", text)
		}
	}
	b.WriteString(text)
	return nil
}

func writeList(b *strings.Builder, list []any, depth int) error {
	b.WriteByte('[')
	for i, item := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		if err := writeValue(b, item, depth+1); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

func writeTable(b *strings.Builder, table map[string]any, depth int) error {
	b.WriteByte('{')
	for i, key := range slices.Sorted(maps.Keys(table)) {
		if i > 0 {
			b.WriteString(", ")
		}
		writeString(b, key)
		b.WriteString(" = ")
		if err := writeValue(b, table[key], depth+1); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// short are the escapes that both notations share.
var short = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`}

// writeString quotes a text in ASCII. JSON would write what is beyond 16 bits
// as two halves, which TOML refuses.
func writeString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case short[r] != "":
			b.WriteString(short[r])
		case r > 0xffff:
			fmt.Fprintf(b, `\U%08x`, r)
		case r < ' ' || r > '~':
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}
