package op

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/internal/text"
)

// How much of an input is recorded.
const (
	redacted  = "[redacted]"
	MinSecret = 4        // bytes of a secret; shorter texts occur everywhere by chance
	maxArg    = 1 << 10  // bytes of a text; of a longer one the length and hash are recorded
	headArg   = 128      // and this much of its beginning
	maxList   = 64       // elements of a list, fields of an object
	maxArgs   = 16 << 10 // bytes of all together
)

// The ways to hide a field, in its tag secret.
const (
	secretAll = "all" // its value
	secretEnv = "env" // what follows "=" in its strings, or the values of its map
	secretNot = "no"  // nothing, even if the name is one of secretNames
)

// secretNames are fields that are hidden without a tag, so that none is forgotten.
var secretNames = map[string]string{
	"env": secretEnv, "environment": secretEnv, "stdin": secretAll, "secret": secretAll, "secrets": secretAll,
	"token": secretAll, "password": secretAll, "redact_values": secretAll,
}

// describe returns an input as it is recorded, and the secrets that were left out of it. It
// omits absent and empty fields.
func describe(in any) (args json.RawMessage, secrets []string) {
	r := redactor{}
	r.value(reflect.ValueOf(in), "")
	args = r.b.Bytes()
	if len(args) > maxArgs {
		r.b.Reset()
		r.long("", args)
		args = r.b.Bytes()
	}
	return args, r.secrets
}

// redactor writes JSON without secrets.
type redactor struct {
	b       bytes.Buffer
	secrets []string
}

func (r *redactor) value(v reflect.Value, secret string) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			r.encode(nil)
			return
		}
		v = v.Elem()
	}
	switch t := v.Type(); {
	case secret == secretAll:
		r.keep(v)
		r.encode(redacted)
	case t == reflect.TypeFor[json.Number]():
		r.encode(v.Interface())
	case isText(t) || plain(t) == nil:
		r.marshaled(v, secret)
	case t.Kind() == reflect.Struct:
		r.object(v)
	case t.Kind() == reflect.Map:
		r.keys(v, secret)
	case isBytes(t):
		r.long("", v.Bytes())
	case t.Kind() == reflect.Slice:
		r.list(v, secret)
	case t.Kind() == reflect.String:
		r.text(v.String(), secret)
	default:
		r.encode(v.Interface())
	}
}

// marshaled writes a value that has its own MarshalJSON. Objects and lists in it are
// treated like others.
func (r *redactor) marshaled(v reflect.Value, secret string) {
	text, err := json.Marshal(v.Interface())
	var plainly any
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		err = dec.Decode(&plainly)
	}
	if err != nil {
		plainly = redacted // it cannot be inspected
	}
	r.value(reflect.ValueOf(&plainly).Elem(), secret)
}

// object writes the fields of a struct that are set.
func (r *redactor) object(v reflect.Value) {
	r.b.WriteByte('{')
	first := true
	for _, f := range jsonFields(v.Type()) {
		found, _ := v.Type().FieldByName(f.Name) // in the struct, or in one embedded in it
		field, err := v.FieldByIndexErr(found.Index)
		if err != nil || field.IsZero() {
			continue
		}
		if !first {
			r.b.WriteByte(',')
		}
		first = false
		r.encode(f.key)
		r.b.WriteByte(':')
		r.value(field, cmp.Or(f.Tag.Get("secret"), secretNames[f.key]))
	}
	r.b.WriteByte('}')
}

// keys writes a map, with its keys sorted.
func (r *redactor) keys(v reflect.Value, secret string) {
	r.b.WriteByte('{')
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for i, key := range keys {
		if i > 0 {
			r.b.WriteByte(',')
		}
		if i == maxList {
			r.b.WriteString(`"…":`)
			r.encode(len(keys) - i)
			break
		}
		r.encode(key.String())
		r.b.WriteByte(':')
		below := cmp.Or(secret, secretNames[key.String()])
		if secret == secretEnv {
			below = secretAll
		}
		r.value(v.MapIndex(key), below)
	}
	r.b.WriteByte('}')
}

func (r *redactor) list(v reflect.Value, secret string) {
	r.b.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			r.b.WriteByte(',')
		}
		if i == maxList {
			r.encode(map[string]int{"more": v.Len() - i})
			break
		}
		r.value(v.Index(i), secret)
	}
	r.b.WriteByte(']')
}

// text writes a string; of an environment variable only the name.
func (r *redactor) text(s, secret string) {
	if secret == secretEnv {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			name, value = "", s // perhaps a secret without a name
		}
		r.secrets = append(r.secrets, value)
		s = name + "=" + redacted
	}
	if len(s) > maxArg {
		r.long(s, []byte(s))
		return
	}
	r.encode(s)
}

// long writes the beginning, length and hash of a long value.
func (r *redactor) long(s string, whole []byte) {
	sum := sha256.Sum256(whole)
	r.encode(struct {
		Head   string `json:"head,omitempty"`
		Bytes  int    `json:"bytes"`
		SHA256 string `json:"sha256"`
	}{text.Prefix(s, headArg), len(whole), hex.EncodeToString(sum[:])})
}

// keep remembers the strings of a secret, so that they can be hidden in error messages.
func (r *redactor) keep(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		r.secrets = append(r.secrets, v.String())
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			r.keep(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			r.keep(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			r.keep(v.MapIndex(key))
		}
	}
}

// encode writes a value whose encoding cannot fail.
func (r *redactor) encode(v any) {
	enc := json.NewEncoder(&r.b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	r.b.Truncate(r.b.Len() - 1) // its newline
}
