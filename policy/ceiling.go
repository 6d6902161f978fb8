package policy

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Ceiling is the most that somebody's specs may ask for. A field that is left
// out allows the default alone, and where a spec must name something, nothing:
// the zero Ceiling refuses every spec, because none may have a workspace.
//
//	workspace: [{source: /srv/agents, mode: rw}]
//	mounts: [{source: /usr/share/data, mode: ro}]
//	limits: {memory: 1GiB, processes: 256, timeout: 10m}
//
// Sources are compared as text, directory by directory: "/srv" contains
// "/srv/a" and not "/srv2". What a link in an allowed directory leads to is
// not looked at here, and who may write to such a directory may put a link
// there: under a ceiling the backend follows none.
//
// [Spec.Env] and [Spec.Hostname] reach nothing but the sandbox, and have no
// ceiling; which variables of the host may be handed on has one.
type Ceiling struct {
	// Backends that may be named. Default: "linux".
	Backends []string `json:"backends,omitempty"`
	// Levels that may be named. Default: "full".
	Levels []string `json:"levels,omitempty"`
	// Seccomp are the profiles that may be named. Default: "default" and
	// "strict".
	Seccomp []string `json:"seccomp,omitempty"`
	// RootFS is "host" and directories that contain what may be named.
	// Default: "host".
	RootFS []string `json:"rootfs,omitempty"`
	// Workspace contains the directories that may be a workspace. No default.
	Workspace []Place `json:"workspace,omitempty"`
	// Unprotected are the protected paths of the workspace that may be opened,
	// "*" for all. Default: none.
	Unprotected []string `json:"unprotected,omitempty"`
	// Mounts contains the sources that may be mounted. Default: none.
	Mounts []Place `json:"mounts,omitempty"`
	// Network are the networks that may be used, by name or by default: "none",
	// "host", "engine" ([NetworkEngine]). Default: "none".
	Network []string `json:"network,omitempty"`
	// Env are the variables of the caller's environment that may be handed on,
	// by name; "LC_*" is all that start with "LC_". Default: none.
	Env []string `json:"env,omitempty"`
	// AllowDegraded are the words of [Degradations] that may be used. Default:
	// none.
	AllowDegraded []string `json:"allow_degraded,omitempty"`
	// Docker, Codex and Wrapper bound the options of the backends of these
	// names, which Backends must name too. Without them next to nothing may be
	// written there.
	Docker  *DockerCeiling  `json:"docker,omitempty"`
	Codex   *CodexCeiling   `json:"codex,omitempty"`
	Wrapper *WrapperCeiling `json:"wrapper,omitempty"`
	// Redaction are rules that hold for every spec, before its own. A spec
	// cannot take them away or replace them.
	Redaction []Redaction `json:"redaction,omitempty"`
	// Limits are maxima; 0 is none. A spec that leaves a limit open gets the
	// maximum, or the limit's own default where that is less.
	//
	// That is safe, because each limit is kept or the sandbox is refused: who
	// left out a limit of memory can be refused on a host that cannot keep one.
	// Disk is set for workspaces of mode "copy" alone, since no other has such
	// a bound. MemoryHigh is not set where it is left open, and may not exceed
	// Memory. Swap is bounded where Memory is, by 0 if it is left out.
	Limits Limits `json:"limits,omitzero"`
}

// Place is a directory, or a file, of the host, with all that is below it.
type Place struct {
	// Source is an absolute path.
	Source string `json:"source"`
	// Mode is "ro" (default) or "rw": what commands may do with it. A workspace
	// of mode "copy" only reads its source.
	Mode string `json:"mode,omitempty"`
}

// CeilingError is something in a spec that is more than a ceiling allows.
type CeilingError struct {
	// Rule is the field of the ceiling, "ceiling.limits.memory".
	Rule string
	// FieldError says which field of the spec it is, what was written, why it
	// is refused, and what to write instead.
	FieldError
}

// Layer is what refuses: "privilege", as in a denial.
func (e *CeilingError) Layer() string { return "privilege" }

// Unwrap gives the [*FieldError].
func (e *CeilingError) Unwrap() error { return &e.FieldError }

// Apply returns the spec with the ceiling's limits where it leaves them open,
// or an error that joins one [*CeilingError] for each field that asks for more
// than is allowed. It comes before [Spec.Resolve], which then still checks what
// the spec means. Sources must be absolute here: what relative ones are
// relative to is not the asker's to say.
//
// A nil ceiling allows everything: it is that of the operator. One that is not
// valid ([Ceiling.Validate]) allows nothing.
func (c *Ceiling) Apply(s Spec) (Spec, error) {
	if c == nil {
		return s, nil
	}
	if err := c.Validate(); err != nil {
		return Spec{}, err
	}
	a := applier{c: c}
	backend := cmp.Or(s.Backend, DefaultBackend)
	a.word("backend", "backends", backend, c.backends())
	if backend == BackendLinux || s.Level != "" {
		a.word("level", "levels", cmp.Or(s.Level, LevelFull), c.levels())
	}
	a.word("seccomp", "seccomp", cmp.Or(s.Seccomp, "default"), c.profiles())
	a.network(s)
	if backend == BackendLinux || s.RootFS != "" {
		a.rootFS(cmp.Or(s.RootFS, RootHost))
	}
	a.options(s)
	a.workspace(s)
	for i, m := range s.Mounts {
		a.source(index("mounts", i)+".source", "mounts", m.Source, m.Mode == "rw", c.Mounts)
	}
	for i, name := range s.AllowDegraded {
		a.word(index("allow_degraded", i), "allow_degraded", name, c.AllowDegraded)
	}
	s.Redaction = a.redaction(s.Redaction)
	s.Limits = a.limits(s.Limits, s.Workspace.Mode == ModeCopy)
	if len(a.errs) > 0 {
		return Spec{}, errors.Join(a.errs...)
	}
	return s, nil
}

// Holds reports whether a mount shows what a workspace or a mount below the ceiling
// may show as well. A nil ceiling holds everything.
func (c *Ceiling) Holds(m Mount) bool {
	return c == nil || slices.ContainsFunc(slices.Concat(c.Workspace, c.Mounts), func(p Place) bool {
		return within(path.Clean(m.Source), []string{p.Source}) != "" && (m.Mode != "rw" || p.Mode == "rw")
	})
}

// PassEnv refuses a variable of the caller's environment that may not be
// handed on. The error is a [*CeilingError].
func (c *Ceiling) PassEnv(name string) error {
	if c == nil || slices.ContainsFunc(c.Env, func(allowed string) bool { return matches(allowed, name) }) {
		return nil
	}
	a := applier{c: c}
	a.refuse("env_pass", "env", name, "the ceiling does not let it be handed on", "")
	return a.errs[0]
}

func (c *Ceiling) backends() []string { return orDefault(c.Backends, DefaultBackend) }
func (c *Ceiling) levels() []string   { return orDefault(c.Levels, LevelFull) }
func (c *Ceiling) profiles() []string { return orDefault(c.Seccomp, "default", "strict") }
func (c *Ceiling) roots() []string    { return orDefault(c.RootFS, RootHost) }
func (c *Ceiling) networks() []string { return orDefault(c.Network, "none") }

func orDefault(list []string, words ...string) []string {
	if list == nil {
		return words
	}
	return list
}

// applier gathers what is more than a ceiling allows.
type applier struct {
	c    *Ceiling
	errs []error
}

func (a *applier) refuse(field, rule, value, reason, hint string) {
	a.errs = append(a.errs, &CeilingError{"ceiling." + rule, FieldError{Field: field, Value: value, Reason: reason, Hint: hint}})
}

func (a *applier) word(field, rule, value string, allowed []string) {
	if slices.Contains(allowed, value) {
		return
	}
	hint := "nothing of that may be asked for"
	if len(allowed) > 0 {
		hint = "what may be asked for: " + strings.Join(allowed, ", ")
	}
	a.refuse(field, rule, value, "the ceiling does not allow it", hint)
}

func (a *applier) rootFS(written string) {
	if written == RootHost {
		a.word("rootfs", "rootfs", written, a.c.roots())
		return
	}
	var places []Place
	for _, root := range a.c.roots() {
		if root != RootHost {
			places = append(places, Place{Source: root})
		}
	}
	a.source("rootfs", "rootfs", written, false, places)
}

func (a *applier) workspace(s Spec) {
	w := s.Workspace
	write := w.Access != "ro" && w.Mode != ModeCopy
	if w.Source != "" || !s.elsewhere() {
		a.source("workspace.source", "workspace", w.Source, write, a.c.Workspace)
	}
	for i, name := range w.Unprotected {
		if !slices.Contains(a.c.Unprotected, "*") {
			a.word(index("workspace.unprotected", i), "unprotected", name, a.c.Unprotected)
		}
	}
}

// source refuses a path of the host that is in none of the places.
func (a *applier) source(field, rule, written string, write bool, places []Place) {
	reason, _ := checkPath(written)
	if reason == "" && !path.IsAbs(written) {
		reason = "it is not an absolute path"
	}
	if reason != "" {
		a.refuse(field, rule, written, reason, "write it in full; "+placesHint(places))
		return
	}
	source, known := path.Clean(written), false
	for _, p := range places {
		if within(source, []string{p.Source}) == "" {
			continue
		}
		if !write || p.Mode == "rw" {
			return
		}
		known = true
	}
	if known {
		hint := "write mode: ro"
		if rule == "workspace" {
			hint = "write access: ro, or mode: copy"
		}
		a.refuse(field, rule, written, "the ceiling allows to read it, not to change it", hint)
		return
	}
	a.refuse(field, rule, written, "the ceiling does not allow it", placesHint(places))
}

func placesHint(places []Place) string {
	if len(places) == 0 {
		return "nothing of that may be asked for"
	}
	var all []string
	for _, p := range places[:min(len(places), 10)] {
		all = append(all, quoteShort(p.Source)+" ("+cmp.Or(p.Mode, "ro")+")")
	}
	if more := len(places) - len(all); more > 0 {
		all = append(all, strconv.Itoa(more)+" more")
	}
	return "what may be asked for is in " + strings.Join(all, ", ")
}
