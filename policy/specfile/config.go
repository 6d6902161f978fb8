package specfile

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/executor"
)

// otherSections are the sections of config.json that say nothing about commands.
var otherSections = []string{
	"admin_token", "security", "mcp", "preview", "admin_web", "fs", "kb", "web_search", "web_crawl", "excel", "image_generator",
}

// commandKeys are the keys of the section that is about commands.
var commandKeys = []string{"enabled", "network_isolated", "limits"}

// The bounds of the limits, in the file's units; those of policy.Limits.
const (
	minMemory     = 4
	maxMegabytes  = math.MaxInt64 >> 20
	maxCPUSeconds = 365 * 24 * 3600
	minProcesses  = 4
	maxProcesses  = 1 << 22
	minOpenFiles  = 16
	maxOpenFiles  = 1 << 20
)

// wholeConfig stands for the file in messages about the file as a whole.
const wholeConfig = "config"

// DecodeConfig reads a configuration file of the command executor, config.json;
// name is for messages. Its error joins one [*policy.FieldError] for each
// problem, in the order of the file.
func DecodeConfig(name string, data []byte) (executor.Config, error) {
	r := configReader{name: name}
	root, problem := (*yaml.Node)(nil), &policy.FieldError{Reason: "it is larger than 1MiB"}
	if len(data) <= MaxSize {
		root, problem = parseJSON(data)
	}
	if problem != nil {
		problem.Field, problem.File = wholeConfig, name
		return executor.Config{}, problem
	}
	r.each(root, "", func(key, field string, v *yaml.Node) bool {
		switch {
		case key == "command":
			r.each(v, field, r.command)
		case slices.Contains(otherSections, key):
			r.config.Ignored = append(r.config.Ignored, key)
		default:
			return false
		}
		return true
	})
	if len(r.errs) > 0 {
		return executor.Config{}, errors.Join(r.errs...)
	}
	return r.config, nil
}

// configReader decodes the file's tree into a Config.
type configReader struct {
	name   string
	config executor.Config
	errs   []error
}

func (r *configReader) refuse(v *yaml.Node, field, reason, hint string) {
	e := &policy.FieldError{Field: field, Value: v.Value, Reason: reason, Hint: hint, File: r.name, Line: v.Line}
	if isNull(v) {
		e.Value = ""
	}
	r.errs = append(r.errs, e)
}

// each calls read for every key of an object; read reports whether the key is valid. A key
// that appears twice is refused.
func (r *configReader) each(v *yaml.Node, field string, read func(key, field string, v *yaml.Node) bool) {
	if v.Kind != yaml.MappingNode {
		r.refuse(v, cmp.Or(field, wholeConfig), "it must be an object", "")
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(v.Content); i += 2 {
		key, at := v.Content[i].Value, &yaml.Node{Line: v.Content[i].Line}
		path := policy.FieldPath(field, key)
		if line, again := first[key]; again {
			r.refuse(at, path, fmt.Sprintf("it is given twice, first on line %d", line), "")
			continue
		}
		first[key] = at.Line
		if !read(key, path, v.Content[i+1]) {
			hint := ""
			if field == "" && slices.Contains(commandKeys, key) {
				hint = fmt.Sprintf(`it belongs into the section "command": {"command": {%q: …}}`, key)
			}
			r.refuse(at, path, "unknown key", hint)
		}
	}
}

// command reads a key of the section about commands.
func (r *configReader) command(key, field string, v *yaml.Node) bool {
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

// boolean refuses values that other languages take for true, such as the text "false".
func (r *configReader) boolean(v *yaml.Node, field string) bool {
	if v.Tag == "!!bool" {
		return v.Value == "true"
	}
	hint := ""
	if v.Tag == "!!str" && (v.Value == "true" || v.Value == "false") {
		hint = "remove the quotes"
	}
	r.refuse(v, field, "it must be true or false", hint)
	return true
}

// limit reads a limit.
func (r *configReader) limit(key, field string, v *yaml.Node) bool {
	l := &r.config.Limits
	switch key {
	case "max_memory_mb":
		l.Memory = policy.Size(r.whole(v, field, minMemory, maxMegabytes)) * policy.MiB
	case "max_cpu_seconds":
		l.CPUTime = policy.Duration(r.whole(v, field, 1, maxCPUSeconds)) * policy.Duration(time.Second)
	case "max_file_size_mb":
		l.FileSize = policy.Size(r.whole(v, field, 1, maxMegabytes)) * policy.MiB
	case "max_processes":
		l.Processes = r.whole(v, field, minProcesses, maxProcesses)
	case "max_open_files":
		l.OpenFiles = r.whole(v, field, minOpenFiles, maxOpenFiles)
	case "timeout_seconds":
		l.Timeout = r.seconds(v, field)
	case "max_timeout_seconds":
		l.MaxTimeout = r.seconds(v, field)
	default:
		return false
	}
	return true
}

// number returns the text of a number, and refuses anything else. It may be in quotes,
// which the older server accepted.
func (r *configReader) number(v *yaml.Node, field, want string) (text string, ok bool) {
	switch text := strings.TrimSpace(v.Value); {
	case v.Tag == "!!int" || v.Tag == "!!float":
		return text, true
	case v.Tag == "!!str" && strings.Trim(text, "+-0123456789.") == "" && strings.ContainsAny(text, "0123456789"):
		return strings.TrimPrefix(text, "+"), true
	}
	r.refuse(v, field, "it must be "+want, "")
	return "", false
}

// whole returns a whole number between the bounds, or 0 if it is refused.
func (r *configReader) whole(v *yaml.Node, field string, least, most uint64) uint64 {
	const want = "a whole number"
	text, ok := r.number(v, field, want)
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	switch {
	case strings.HasPrefix(text, "-"):
		r.refuse(v, field, "it must not be negative", "")
	case strings.Trim(text, "0123456789") != "":
		r.refuse(v, field, "it must be "+want, "")
	case err != nil || n > most:
		r.refuse(v, field, "it is more than "+strconv.FormatUint(most, 10), "")
	case n < least:
		r.refuse(v, field, "it is less than "+strconv.FormatUint(least, 10), "")
	default:
		return n
	}
	return 0
}

// seconds returns a duration, including fractions of a second.
func (r *configReader) seconds(v *yaml.Node, field string) policy.Duration {
	text, ok := r.number(v, field, "a number of seconds")
	if !ok {
		return 0
	}
	d, reason := executor.Seconds(text)
	if reason != "" {
		r.refuse(v, field, reason, "")
	}
	return d
}
