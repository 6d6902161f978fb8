package policy

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"
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

// The bounds of [Limits] and of the spec's lists.
const (
	minTimeout   = Duration(time.Millisecond)
	maxTimeout   = Duration(7 * 24 * time.Hour)
	minCPUTime   = Duration(time.Second)
	maxCPUTime   = Duration(365 * 24 * time.Hour)
	maxOutput    = 1 * GiB
	minTmp       = 1 * MiB
	minOpenFiles = 16
	maxOpenFiles = 1 << 20
	minProcesses = 4
	maxProcesses = 1 << 22
	minMemory    = 4 * MiB
	minCPUs      = CPUs(10)
	minDisk      = 1 * MiB
	maxMounts    = 256
	maxUnprotect = 256
)

// Base is where a spec's relative words start.
type Base struct {
	// Dir is an absolute directory; relative sources start there.
	Dir string
	// Home is the absolute home directory of the caller, "~" in a spec. It
	// may be empty where there is none.
	Home string
}

// Resolve returns the spec with every default filled in, sources and targets
// made absolute, durations rounded as [Limits] says, and mounts ordered so that
// a target comes after the targets that contain it. What it returns is valid, and
// resolves to itself.
//
// It is a function of text alone and touches no file. The error joins one
// [*FieldError] for each field that cannot be used, in the spec's order.
func (s Spec) Resolve(base Base) (Spec, error) {
	r := resolver{base: base}
	choose(&r, "backend", &s.Backend, DefaultBackend)
	choose(&r, "level", &s.Level, LevelFull, LevelLandlock)
	choose(&r, "seccomp", &s.Seccomp, "default", "strict", "debug")
	s.RootFS = r.rootFS(s.RootFS)
	s.AllowDegraded = r.degradations(s.AllowDegraded)
	s.Workspace = r.workspace(s.Workspace)
	s.Mounts = r.mounts(s.Mounts)
	choose(&r, "network", &s.Network, "none", "host")
	if s.Workspace.Mode == ModeCopy && s.Limits.Disk == 0 {
		s.Limits.Disk = DefaultDisk
	}
	s.Limits = r.limits(s.Limits)
	s.Env = maps.Clone(s.Env)
	r.env(s.Env)
	r.hostname(&s.Hostname)
	s.Commands = r.commands(s.Commands)
	r.combine(s)
	if len(r.errs) > 0 {
		return Spec{}, errors.Join(r.errs...)
	}
	return s, nil
}

// resolver gathers what is wrong with a spec.
type resolver struct {
	base Base
	errs []error
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

func (r *resolver) workspace(w Workspace) Workspace {
	const field = "workspace.source"
	if w.Source == "" {
		w.Source = "."
	}
	if source, ok := r.hostPath(field, w.Source); ok {
		if source == "/" {
			r.refuse(field, w.Source, "the whole host cannot be a workspace", "name a directory below /")
		} else if top := within(source, kernelDirs()); top != "" {
			r.refuse(field, w.Source, top+" belongs to the kernel", "")
		}
		w.Source = source
	}
	choose(r, "workspace.mode", &w.Mode, ModeBind, ModeCopy)
	choose(r, "workspace.access", &w.Access, "rw", "ro")
	w.Unprotected = slices.Clone(w.Unprotected)
	r.unprotected(w.Unprotected)
	return w
}

func (r *resolver) unprotected(paths []string) {
	const field = "workspace.unprotected"
	if len(paths) > maxUnprotect {
		r.refuse(field, "", "it has more than 256 entries", "")
		return
	}
	known := ProtectedPaths()
	for i, p := range paths {
		if p != "*" && !slices.Contains(known, p) {
			r.refuse(index(field, i), p, "it is not a protected path", protectedHint(known))
		}
	}
}

func protectedHint(known []string) string {
	hint := `"*" opens all of the protected paths:`
	for _, k := range known {
		hint += " " + k
	}
	return hint
}

func index(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }
