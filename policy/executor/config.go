// Package executor holds the settings of the command executor: its limits and
// their defaults, the environment that it gives to commands, and its older
// configuration file, config.json, which is accepted as it is.
//
// Everything here becomes part of a policy.Spec; nothing is enforced here.
// [Parse] gives the settings that a file has written, [Config.Apply] puts them
// below what a spec says itself, and [Settle] fills in what nobody wrote.
package executor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/paddock-dev/paddock/policy"
)

// MaxSize bounds a configuration file, in bytes.
const MaxSize = 1 << 20

// Config is what a configuration file says.
type Config struct {
	// Disabled says that no command is to be executed at all.
	Disabled bool
	// Network is "none" or "host", empty where the file does not say.
	Network string
	// Limits are those that the file has.
	Limits policy.Limits
	// Ignored are the sections that are about other parts of that server.
	Ignored []string
}

// others are the sections of the file that say nothing about commands.
var others = []string{
	"admin_token", "security", "mcp", "preview", "admin_web", "fs", "kb", "web_search", "web_crawl", "excel", "image_generator",
}

// ours are the keys of the section that is about commands.
var ours = []string{"enabled", "network_isolated", "limits"}

// Parse reads a configuration from data; name is for messages. Its error joins
// one [*policy.FieldError] for each problem, in the order of the file.
func Parse(name string, data []byte) (Config, error) {
	r := reader{file: name}
	root, err := parse(data)
	if err != nil {
		r.refuse(&value{line: err.line}, whole, err.reason, "")
		return Config{}, errors.Join(r.errs...)
	}
	r.top(root)
	if len(r.errs) > 0 {
		return Config{}, errors.Join(r.errs...)
	}
	return r.config, nil
}

// Apply puts the file's settings where the spec has none of its own.
func (c Config) Apply(spec policy.Spec) policy.Spec {
	fill(&spec.Network, c.Network)
	l := &spec.Limits
	fill(&l.CPUTime, c.Limits.CPUTime)
	fill(&l.FileSize, c.Limits.FileSize)
	fill(&l.Processes, c.Limits.Processes)
	fill(&l.OpenFiles, c.Limits.OpenFiles)
	fill(&l.Timeout, c.Limits.Timeout)
	fill(&l.MaxTimeout, c.Limits.MaxTimeout)
	if l.MemoryHigh == 0 {
		fill(&l.Memory, c.Limits.Memory)
	}
	return spec
}

// whole stands for the file in messages that are about none of its keys.
const whole = "config"

// reader carries the file's tree over into a Config.
type reader struct {
	file   string
	config Config
	errs   []error
}

func (r *reader) refuse(v *value, field, reason, hint string) {
	r.errs = append(r.errs, &policy.FieldError{Field: field, Value: v.text, Reason: reason, Hint: hint, File: r.file, Line: v.line})
}

// each calls know for every key of an object, which says whether it knows it.
// A key that is given again is refused.
func (r *reader) each(v *value, field string, know func(key, field string, v *value) bool) {
	if v.kind != kindObject {
		r.refuse(v, cmp.Or(field, whole), "it must be an object", "")
		return
	}
	first := map[string]int{}
	for i, key := range v.keys {
		child := v.values[i]
		path := policy.FieldPath(field, key)
		if line, again := first[key]; again {
			r.refuse(&value{line: child.keyLine}, path, fmt.Sprintf("it is given twice, first on line %d", line), "")
			continue
		}
		first[key] = child.keyLine
		if !know(key, path, child) {
			hint := ""
			if field == "" && slices.Contains(ours, key) {
				hint = fmt.Sprintf(`it belongs into the section "command": {"command": {%q: …}}`, key)
			}
			r.refuse(&value{line: child.keyLine}, path, "unknown key", hint)
		}
	}
}

func (r *reader) top(root *value) {
	r.each(root, "", func(key, field string, v *value) bool {
		if key == "command" {
			r.each(v, field, r.command)
			return true
		}
		if slices.Contains(others, key) {
			r.config.Ignored = append(r.config.Ignored, key)
			return true
		}
		return false
	})
}

func (r *reader) command(key, field string, v *value) bool {
	switch key {
	case "enabled":
		r.config.Disabled = !r.boolean(v, field)
	case "network_isolated":
		r.config.Network = "host"
		if r.boolean(v, field) {
			r.config.Network = "none"
		}
	case "limits":
		r.each(v, field, r.limit)
	default:
		return false
	}
	return true
}

// boolean refuses what other languages take for true: a text, "false" say.
func (r *reader) boolean(v *value, field string) bool {
	if v.kind == kindBool {
		return v.text == "true"
	}
	hint := ""
	if v.kind == kindText && (v.text == "true" || v.text == "false") {
		hint = "remove the quotes"
	}
	r.refuse(v, field, "it must be true or false", hint)
	return true
}
