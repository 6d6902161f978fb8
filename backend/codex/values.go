package codex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/policy"
)

// Bounds of config_overrides: what a person writes is far below, and all of it
// becomes one argument list.
const (
	maxOverrides = 64
	maxKey       = 256     // bytes
	maxValue     = 4 << 10 // bytes, as rendered
	maxDepth     = 8       // lists and tables inside each other
)

// overridesField is where a spec has the settings.
const overridesField = "codex.config_overrides"

// settings are what is handed over with -c: the rendered values by key.
type settings map[string]string

// readOverrides checks what a spec hands over, and renders it.
func readOverrides(written map[string]any) (settings, error) {
	if len(written) > maxOverrides {
		return nil, &policy.FieldError{Field: overridesField, Reason: fmt.Sprintf("there are %d of them, and %d are the most", len(written), maxOverrides)}
	}
	s := settings{}
	for _, key := range slices.Sorted(maps.Keys(written)) {
		refused := func(reason, hint string) error {
			return &policy.FieldError{Field: policy.FieldPath(overridesField, key), Reason: reason, Hint: hint}
		}
		if reason := badKey(key); reason != "" {
			return nil, refused(reason, "a key is words with dots between them: sandbox_workspace_write.exclude_slash_tmp")
		}
		text, err := renderValue(written[key])
		if err != nil {
			return nil, refused(err.Error(), "")
		}
		if len(text) > maxValue {
			return nil, refused(fmt.Sprintf("its value takes %d bytes, and %d are the most", len(text), maxValue), "")
		}
		s[key] = text
	}
	return s, nil
}

// badKey says why a key cannot be handed over. The CLI cuts "key=value" at the
// first "=" and the key at each dot, and knows no quotes: what a key could hide
// there would change another setting.
func badKey(key string) string {
	switch {
	case key == "":
		return "the key is empty"
	case len(key) > maxKey:
		return fmt.Sprintf("the key is longer than %d bytes", maxKey)
	}
	for part := range strings.SplitSeq(key, ".") {
		if part == "" {
			return "a part of the key is empty"
		}
		if i := strings.IndexFunc(part, func(r rune) bool { return !keyRune(r) }); i >= 0 {
			r, _ := utf8.DecodeRuneInString(part[i:])
			return fmt.Sprintf("a key has no %q", r)
		}
	}
	return ""
}

// keyRune allows bare words, and what names of permissions and paths take.
func keyRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-:/~*@", r)
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
