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
	// DefaultProcesses is far above what builds and tests start, and far below
	// what a fork bomb needs to bring a host down.
	DefaultProcesses = 4096
)

// The bounds of the spec's lists.
const (
	maxMounts    = 256
	maxUnprotect = 256
)

// Base is what a spec is resolved against.
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
// mounts ordered so that a target comes after the targets that contain it. What
// the backend cannot keep is refused ([Fields]). What it returns is valid, and
// resolves to itself.
//
// It is a function of text alone and touches no file. The error joins one
// [*FieldError] for each field that cannot be used, in the spec's order.
func (s Spec) Resolve(base Base) (Spec, error) {
	r := resolver{base: base, fields: Fields()}
	choose(&r, "backend", &s.Backend, Backends()...)
	r.backend = s.Backend // of one that is not known, the rest is checked as if it kept all
	r.kept(s)
	r.options(&s)
	r.word("level", &s.Level, LevelFull, LevelLandlock)
	r.word("seccomp", &s.Seccomp, "default", "strict", "debug")
	if s.RootFS != "" || r.keeps("rootfs") {
		s.RootFS = r.rootFS(s.RootFS)
	}
	s.AllowDegraded = r.degradations(s.AllowDegraded)
	s.Workspace = r.workspace(s.Workspace, s.elsewhere())
	s.Mounts = r.mounts(s.Mounts)
	r.network(&s)
	if s.Workspace.Mode == ModeCopy && s.Limits.Disk == 0 && r.keeps("limits.disk") {
		s.Limits.Disk = DefaultDisk
	}
	s.Limits = r.limits(s.Limits)
	s.Env = maps.Clone(s.Env)
	r.env(s.Env)
	if s.Hostname != "" || r.keeps("hostname") {
		r.hostname(&s.Hostname)
	}
	s.Commands = r.commands(s.Commands)
	s.Redaction = r.redaction(s.Redaction)
	r.combine(s)
	if len(r.errs) > 0 {
		return Spec{}, errors.Join(r.errs...)
	}
	return s, nil
}

// resolver gathers what is wrong with a spec.
type resolver struct {
	base    Base
	backend string
	fields  []FieldRow
	errs    []error
}

func (r *resolver) refuse(field, value, reason, hint string) {
	r.errs = append(r.errs, &FieldError{Field: field, Value: value, Reason: reason, Hint: hint})
}

// choose sets an empty value to the first choice, and refuses one that is no choice.
func choose(r *resolver, field string, value *string, choices ...string) {
	if *value == "" {
		*value = choices[0]
	}
	if slices.Contains(choices, *value) {
		return
	}
	reason := "it must be " + strconv.Quote(choices[0])
	for _, c := range choices[1:] {
		reason += " or " + strconv.Quote(c)
	}
	r.refuse(field, *value, reason, "")
}

// word is choose for fields that not every backend keeps: there nothing is
// filled in.
func (r *resolver) word(field string, value *string, choices ...string) {
	if *value != "" || r.keeps(field) {
		choose(r, field, value, choices...)
	}
}

// workspace checks the workspace. Elsewhere, where an agent is uploaded, there
// is no directory of the host to be one.
func (r *resolver) workspace(w Workspace, elsewhere bool) Workspace {
	switch {
	case !elsewhere:
		fill(&w.Source, ".")
		w.Source = r.workspaceSource(w.Source)
	case w.Source != "":
		r.refuse("workspace.source", w.Source, "the agent is uploaded, and no directory of the host is seen where it runs",
			"name a directory there with wrapper.workspace")
	}
	choose(r, "workspace.mode", &w.Mode, ModeBind, ModeCopy)
	choose(r, "workspace.access", &w.Access, "rw", "ro")
	w.Unprotected = slices.Clone(w.Unprotected)
	r.unprotected(w.Unprotected)
	return w
}

func (r *resolver) workspaceSource(written string) string {
	const field = "workspace.source"
	source, ok := r.hostPath(field, written)
	switch {
	case !ok:
		return written
	case source == "/":
		r.refuse(field, written, "the whole host cannot be a workspace", "name a directory below /")
	case within(source, kernelDirs()) != "":
		r.refuse(field, written, within(source, kernelDirs())+" belongs to the kernel", "")
	}
	return source
}

func (r *resolver) unprotected(paths []string) {
	const field = "workspace.unprotected"
	if len(paths) > maxUnprotect {
		r.refuse(field, "", "it has more than 256 entries", "")
		return
	}
	r.opened(field, paths)
}

// opened refuses what is no protected path. Of those that there are it shows
// the ones below the same directory.
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
// repository below the workspace: DIR/.git, or a bare one, DIR.git. What it
// holds can then be changed, and removed, and is compared.
func NestedRepository(name string) bool {
	return strings.HasSuffix(name, ".git") && name != ".git" && filepath.IsLocal(name) && path.Clean(name) == name && strings.IndexFunc(name, unicode.IsControl) < 0
}

func index(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }
