package policy

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// The bounds of an environment, in bytes.
const (
	maxEnvName = 255
	// maxVariable is the kernel's bound of NAME=VALUE, without the
	// terminating NUL (MAX_ARG_STRLEN).
	maxVariable = 128<<10 - 1
	maxEnv      = 1 << 20
)

// env checks names and values. No error repeats a value: it may be a secret.
func (r *resolver) env(env map[string]string) {
	total := 0
	for name, value := range env {
		total += len(name) + len(value) + len("=\x00")
	}
	if total > maxEnv {
		r.refuse("env", "", "it is larger than 1MiB in total", "put large data into a file")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if reason := checkVariable(name, env[name]); reason != "" {
			r.refuse(FieldPath("env", name), "", reason, "")
		}
	}
}

// fixedPath refuses what would find other programs, or load more into them,
// than the rules for commands are about.
func (r *resolver) fixedPath(env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if name == "PATH" || strings.HasPrefix(name, "LD_") {
			r.refuse(FieldPath("env", name), "", "with commands the sandbox sets it", "leave it out")
		}
	}
}

func checkVariable(name, value string) (reason string) {
	switch {
	case name == "":
		return "the name is empty"
	case !isEnvName(name):
		return "a name is letters, digits and underscores, and does not start with a digit"
	case len(name) > maxEnvName:
		return "the name is longer than 255 bytes"
	case strings.ContainsRune(value, 0):
		return "the value contains a NUL byte"
	case !utf8.ValidString(value):
		return "the value is not valid UTF-8"
	case len(name)+len("=")+len(value) > maxVariable:
		return "name and value are longer than 128KiB, the kernel's bound"
	}
	return ""
}

func isEnvName(name string) bool {
	for i := 0; i < len(name); i++ {
		c := name[i]
		if !isLetter(c) && c != '_' && (i == 0 || !isDigit(c)) {
			return false
		}
	}
	return name != ""
}

// OfflineEnv returns variables by which package managers fail at once, rather than
// after a minute of new attempts, in a sandbox without a network, and take what their
// caches have. It is empty with a network, and lacks what [Spec.Env] sets, npm's in
// capitals too. Registries on loopback still work, but for those of go and cargo.
func (s Spec) OfflineEnv() map[string]string {
	if s.Network != "none" {
		return nil
	}
	env := map[string]string{
		"npm_config_fetch_retries":  "0",
		"npm_config_prefer_offline": "true",
		"PIP_RETRIES":               "0",
		"CARGO_NET_OFFLINE":         "true",
		"GOPROXY":                   "off",
	}
	maps.DeleteFunc(env, func(name, _ string) bool {
		_, set := s.Env[name]
		_, capitals := s.Env[strings.ToUpper(name)]
		return set || capitals
	})
	return env
}
