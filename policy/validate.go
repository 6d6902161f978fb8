package policy

import (
	"errors"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The defaults that [Spec.Resolve] fills in, beside the zero values that stay.
const (
	DefaultBackend  = "linux"
	DefaultDisk     = 1 * GiB
	DefaultHostname = "paddock"
	DefaultOutput   = 1 * MiB
	DefaultTmp      = 1 * GiB
	// DefaultProcesses is far above the number of processes of builds and tests, and far
	// below the number that a fork bomb needs to bring a host down.
	DefaultProcesses = 4096
)

// The bounds of the spec's lists.
const (
	maxMounts    = 256
	maxUnprotect = 1024
)

// Base is the context that a spec is resolved in.
type Base struct {
	// Dir is the absolute directory that relative sources start from.
	Dir string
	// Home is the absolute home directory of the caller, "~" in a spec. Empty:
	// the caller has none.
	Home string
	// CheckRedactions checks redaction rules as the engine does that will apply
	// them, and returns a [*RedactionError]. nil: [CheckRedactions] of this
	// package, which does not know how large a pattern the engine accepts.
	CheckRedactions func([]Redaction) error
}

// Resolve returns the spec with every default filled in that its backend has,
// sources and targets made absolute, durations rounded as [Limits] says, and
// mounts ordered so that a target comes after the targets that contain it. It
// refuses fields that the backend cannot enforce ([Fields]). The result is valid, and
// resolves to itself.
//
// Resolve looks at text alone and touches no file. The error joins one
// [*FieldError] for each field that cannot be used, in the spec's order.
func (s Spec) Resolve(base Base) (Spec, error) {
	r := resolver{base: base, fields: Fields()}
	choose(&r, "backend", &s.Backend, Backends()...)
	r.backend = s.Backend // an unknown one is taken to keep all fields
	r.kept(s)
	r.options(&s)
	r.word("level", &s.Level, LevelFull, LevelLandlock)
	r.word("seccomp", &s.Seccomp, "default", "strict", "debug")
	if s.RootFS != "" || r.keeps("rootfs") {
		s.RootFS = r.rootFS(s.RootFS)
	}
	s.AllowDegraded = r.degradations(s.AllowDegraded)
	s.Workspace = r.workspace(s.Workspace, s.Elsewhere())
	s.Mounts = r.mounts(s.Mounts)
	s.Caches = r.caches(s.Caches)
	s.Home = r.home(s.Home)
	r.network(&s)
	r.hostSockets(&s)
	r.sshAgent(&s)
	if s.Workspace.Mode == ModeCopy && s.Limits.Disk == 0 && r.keeps("limits.disk") {
		s.Limits.Disk = DefaultDisk
	}
	s.Limits = r.limits(s.Limits)
	s.Env = maps.Clone(s.Env)
	r.env(s.Env)
	if s.Hostname != "" || r.keeps("hostname") {
		fill(&s.Hostname, DefaultHostname)
		r.check("hostname", s.Hostname, checkHostname(s.Hostname))
	}
	if s.Commands != nil {
		for _, e := range s.Commands.Check() {
			r.errs = append(r.errs, e)
		}
		own := s.Commands.Clone()
		s.Commands = &own
	}
	s.Redaction = r.redaction(s.Redaction)
	r.combine(s)
	if len(r.errs) > 0 {
		return Spec{}, errors.Join(r.errs...)
	}
	return s, nil
}

// resolver collects the errors of a spec or a ceiling.
type resolver struct {
	base    Base
	backend string
	fields  []FieldRow
	errs    []error
}

func (r *resolver) refuse(field, value, reason, hint string) {
	r.errs = append(r.errs, &FieldError{Field: field, Value: value, Reason: reason, Hint: hint})
}

// Choices returns the words that a value may be, as a reason has them: "a", "b" or "c".
func Choices(words []string) string {
	list, last := "", len(words)-1
	for i, w := range words {
		switch i {
		case 0:
		case last:
			list += " or "
		default:
			list += ", "
		}
		list += strconv.Quote(w)
	}
	return list
}

// choose sets an empty value to the first choice, and refuses one that is not a choice.
func choose(r *resolver, field string, value *string, choices ...string) {
	if *value == "" {
		*value = choices[0]
	}
	if slices.Contains(choices, *value) {
		return
	}
	reason := "it must be " + Choices(choices)
	hint := ""
	if near := Nearest(*value, choices); near != "" {
		hint = "did you mean " + near + "?"
	}
	r.refuse(field, *value, reason, hint)
}

// word is choose for a field that not every backend keeps: the default is filled in
// only if the backend keeps it.
func (r *resolver) word(field string, value *string, choices ...string) {
	if *value != "" || r.keeps(field) {
		choose(r, field, value, choices...)
	}
}

// workspace returns the workspace with its defaults. Elsewhere, where an agent is
// uploaded, no directory of the host can be one.
func (r *resolver) workspace(w Workspace, elsewhere bool) Workspace {
	if elsewhere && w.Source != "" {
		r.refuse("workspace.source", w.Source, "the agent is uploaded, and no directory of the host is seen where it runs",
			"name a directory there with wrapper.workspace")
	}
	if !elsewhere {
		const field = "workspace.source"
		fill(&w.Source, ".")
		source, ok := r.hostPath(field, w.Source)
		switch {
		case !ok:
			source = w.Source
		case source == "/":
			r.refuse(field, w.Source, "the whole host cannot be a workspace", "name a directory below /")
		case within(source, kernelDirs) != "":
			r.refuse(field, w.Source, within(source, kernelDirs)+" belongs to the kernel", "")
		}
		w.Source = source
	}
	choose(r, "workspace.mode", &w.Mode, ModeBind, ModeCopy, ModeOverlay)
	if w.Layers != "" {
		if dir, ok := r.hostPath("workspace.layers", w.Layers); ok {
			w.Layers = dir
		}
	}
	choose(r, "workspace.access", &w.Access, "rw", "ro")
	w.Unprotected = slices.Clone(w.Unprotected)
	if len(w.Unprotected) > maxUnprotect {
		r.refuse("workspace.unprotected", "", "it has more than 1024 entries", "")
	} else {
		r.opened("workspace.unprotected", w.Unprotected)
	}
	return w
}

// opened refuses paths that are not protected. The hint names some below the same
// directory that are.
func (r *resolver) opened(field string, paths []string) {
	if len(paths) == 0 {
		return
	}
	known := ProtectedPaths()
	for i, p := range paths {
		if p == "*" || slices.Contains(known, p) || NestedRepository(p) {
			continue
		}
		first, _, _ := strings.Cut(p, "/")
		hint := `"*" opens all protected paths, which paddock plan lists; DIR/.git opens a repository below the workspace`
		if near := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.HasPrefix(k, first+"/") || len(k) > 40 }); first != "" && len(near) > 0 {
			hint = "name one of " + strings.Join(near[:min(len(near), 9)], " ") + "; " + hint
		}
		r.refuse(index(field, i), p, "it is not a protected path", hint)
	}
}

// NestedRepository reports whether a name in [Workspace].Unprotected opens a
// repository below the workspace: DIR/.git, or a bare one, DIR.git. Its content
// can then be changed and removed, and is compared.
func NestedRepository(name string) bool {
	return strings.HasSuffix(name, ".git") && name != ".git" && filepath.IsLocal(name) && path.Clean(name) == name && strings.IndexFunc(name, unicode.IsControl) < 0
}

func index(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

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
		value := env[name]
		var reason string
		switch {
		case name == "":
			reason = "the name is empty"
		case !isEnvName(name):
			reason = "a name is letters, digits and underscores, and does not start with a digit"
		case len(name) > maxEnvName:
			reason = "the name is longer than 255 bytes"
		case strings.ContainsRune(value, 0):
			reason = "the value contains a NUL byte"
		case len(name)+len("=")+len(value) > maxVariable:
			reason = "name and value are longer than 128KiB, the kernel's bound"
		default:
			continue
		}
		r.refuse(FieldPath("env", name), "", reason, "")
	}
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

// NetworkEnv returns variables for package managers. In a sandbox without a network they use
// their caches, and fail at once instead of trying again for a minute; registries on loopback
// still work, except for go and cargo. In one with rules they try again soon, since a host that
// no rule opens stays closed. It is empty with the host's network, and leaves out what [Spec.Env]
// sets (npm's variables in capitals too).
func (s Spec) NetworkEnv() map[string]string {
	var env map[string]string
	switch s.Network.Mode {
	case NetworkNone:
		env = map[string]string{
			"npm_config_fetch_retries":  "0",
			"npm_config_prefer_offline": "true",
			"PIP_RETRIES":               "0",
			"CARGO_NET_OFFLINE":         "true",
			"GOPROXY":                   "off",
		}
	case NetworkAllow, NetworkObserve:
		env = map[string]string{
			"npm_config_fetch_retry_mintimeout": "500", // ms
			"npm_config_fetch_retry_maxtimeout": "2000",
			"PIP_RETRIES":                       "1",
		}
	}
	maps.DeleteFunc(env, func(name, _ string) bool {
		_, set := s.Env[name]
		_, capitals := s.Env[strings.ToUpper(name)]
		return set || capitals
	})
	return env
}

// maxHostname is the kernel's bound (HOST_NAME_MAX), in bytes.
const maxHostname = 64

// checkHostname returns the reason why a host name is invalid by RFC 1123, or "".
func checkHostname(name string) (reason string) {
	if len(name) > maxHostname {
		return "it is longer than 64 bytes"
	}
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return "a part between dots is empty"
		case len(label) > 63:
			return "a part between dots is longer than 63 bytes"
		case strings.ContainsFunc(label, func(c rune) bool { return !isLetterOrDigit(c) && c != '-' }):
			return "a host name is letters, digits, hyphens and dots"
		case label[0] == '-' || label[len(label)-1] == '-':
			return "a part between dots starts or ends with a hyphen"
		}
	}
	return ""
}
