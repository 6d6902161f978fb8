package codex

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// The words of the option platform.
const (
	platformAuto  = "auto"
	platformLinux = "linux"
	platformMacOS = "macos"
)

// errPlatform is the error on a system for which the option platform must be set.
var errPlatform = errors.New("Codex sandbox policy could not determine a supported platform; set 'platform' explicitly.") //nolint:revive,staticcheck // the contract fixes the text

// missingError is the error of a CLI that is not installed.
type missingError struct{ binary string }

// Error returns the text that the contract fixes.
func (e *missingError) Error() string {
	return fmt.Sprintf("Codex sandbox policy requires the '%s' CLI to be installed and available on PATH.", e.binary)
}

// Remedy returns how to install it.
func (e *missingError) Remedy() string { return "npm install -g @openai/codex" }

// platform returns the platform that the option stands for on this machine.
func platform(option string) (string, error) { return platformOn(runtime.GOOS, option) }

func platformOn(goos, option string) (string, error) {
	switch option {
	case platformLinux, platformMacOS:
		return option, nil
	case "", platformAuto:
		switch goos {
		case "linux":
			return platformLinux, nil
		case "darwin":
			return platformMacOS, nil
		}
		return "", errPlatform
	}
	return "", fmt.Errorf("must be one of %s, %s, %s", platformAuto, platformLinux, platformMacOS)
}

// dialect is how a version of the CLI takes its arguments.
type dialect struct {
	// word: "sandbox" takes the platform as a subcommand.
	word bool
	// fullAuto: the flag --full-auto chooses the mode of the sandbox, and the
	// setting sandbox_mode is ignored.
	fullAuto bool
}

// String returns the form of the arguments, for people.
func (d dialect) String() string {
	switch {
	case d.word && d.fullAuto:
		return "sandbox PLATFORM --full-auto"
	case d.word:
		return "sandbox PLATFORM"
	}
	return "sandbox"
}

// arguments returns the wall's command line, up to the command inside.
func (d dialect) arguments(binary, platform string, s settings) []string {
	argv := []string{binary, "sandbox"}
	if d.word {
		argv = append(argv, platform)
	}
	if d.fullAuto && s[keyMode] == quoted(modeWrite) {
		argv = append(argv, "--full-auto")
	}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		argv = append(argv, "-c", key+"="+s[key])
	}
	return append(argv, "--")
}

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

// networkHost is the value of Spec.Network for the host's own network.
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

// own reports whether the spec's overrides alone decide what can be written: with
// permission profiles, the CLI ignores the other settings.
func (s settings) own() bool { return s[keyPermissions] != "" }

// fill adds the settings that make the sandbox as the spec asks for: commands can write
// the directory that the CLI is started in and scratch, and nothing else. It gives every
// setting, even with its default value, because given settings take precedence over any
// file of settings that the CLI might read.
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
	s.byDefault(keyRoots, "[]") // the directories that commands may write
	inner, isList := strings.CutPrefix(s[keyRoots], "[")
	if !isList {
		return &policy.FieldError{Field: policy.FieldPath(overridesField, keyRoots), Value: s[keyRoots], Reason: "must be a list"}
	}
	if inner = strings.TrimSuffix(inner, "]"); inner != "" {
		inner += ", "
	}
	s[keyRoots] = "[" + inner + quoted(scratch) + "]"
	return nil
}

// byDefault sets a setting that the spec does not.
func (s settings) byDefault(key, value string) {
	if _, ok := s[key]; !ok {
		s[key] = value
	}
}

// maxDepth is how deep lists and tables may be nested.
const maxDepth = 8

// overridesField is the spec's field with the settings.
const overridesField = "codex.config_overrides"

// settings are the settings that the CLI gets with -c: rendered values by key.
type settings map[string]string

// readOverrides renders the settings of a spec. Their keys were checked when the spec was
// resolved: the CLI splits "key=value" at the first "=" and the key at each dot, and
// does not support quotes.
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

// renderValue renders a value as TOML, which the CLI reads; it takes anything else as plain
// text. Words, numbers, strings and lists are the same as in JSON; tables and some
// characters differ.
func renderValue(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("cannot render it: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var plain any
	if err := d.Decode(&plain); err != nil {
		return "", fmt.Errorf("cannot render it: %v", err)
	}
	var b strings.Builder
	if err := writeValue(&b, plain, 0); err != nil {
		return "", err
	}
	return b.String(), nil
}

func writeValue(b *strings.Builder, value any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("must not be nested deeper than %d levels", maxDepth)
	}
	switch v := value.(type) {
	case nil:
		return errors.New("must not be null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case json.Number: // the CLI would read a longer integer as a string
		if !strings.ContainsAny(v.String(), ".eE") {
			if _, err := v.Int64(); err != nil {
				return fmt.Errorf("the number %s has more than 64 bits", v)
			}
		}
		b.WriteString(v.String())
	case string:
		writeString(b, v)
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			if err := writeValue(b, item, depth+1); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b.WriteString(", ")
			}
			writeString(b, key)
			b.WriteString(" = ")
			if err := writeValue(b, v[key], depth+1); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	}
	return nil
}

// short are the escapes that JSON and TOML share.
var short = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`}

// writeString writes a text as a TOML string in ASCII. JSON's form of characters beyond 16
// bits, a pair of surrogates, would be invalid.
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
