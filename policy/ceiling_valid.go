package policy

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
)

// maxAllowed bounds each list of a ceiling.
const maxAllowed = 1024

// Validate refuses a ceiling that cannot be meant: words that no spec knows,
// paths that nothing is below, maxima that no limit may have, and fields that
// contradict each other. The error joins one [*FieldError] for each, with the
// field of the ceiling.
func (c *Ceiling) Validate() error {
	var r resolver
	r.words("backends", c.Backends, Backends()...)
	r.words("levels", c.Levels, LevelFull, LevelLandlock)
	r.words("seccomp", c.Seccomp, "default", "strict", "debug")
	r.words("network", c.Network, "none", "host", NetworkEngine)
	r.roots(c.RootFS)
	r.places("workspace", c.Workspace)
	r.places("mounts", c.Mounts)
	if len(c.Workspace) == 0 && !slices.Equal(c.Backends, []string{BackendWrapper}) { // behind which it may be elsewhere
		r.refuse("workspace", "", "no directory may be a workspace, and every spec has one", "name one: [{source: /srv/agents, mode: rw}]")
	}
	if len(c.Unprotected) > maxAllowed {
		r.tooMany("unprotected")
	} else {
		r.opened("unprotected", c.Unprotected)
	}
	r.passed(c.Env)
	r.degradations(c.AllowDegraded)
	r.optionLists(c)
	r.redaction(c.Redaction)
	r.maxima(c.Limits)
	r.contradictions(c)
	return errors.Join(r.errs...)
}

func (r *resolver) tooMany(field string) {
	r.refuse(field, "", "it has more than "+strconv.Itoa(maxAllowed)+" entries", "")
}

// words refuses a list that holds something else than these words, or nothing:
// who leaves it out gets the default, who writes it empty meant something else.
func (r *resolver) words(field string, list []string, known ...string) {
	switch {
	case list == nil:
	case len(list) == 0:
		r.refuse(field, "", "it allows nothing, and every spec needs one", "leave it out for the default")
	case len(list) > maxAllowed:
		r.tooMany(field)
	}
	for i, word := range list[:min(len(list), maxAllowed)] {
		if !slices.Contains(known, word) {
			r.refuse(index(field, i), word, "there is none of this name", "the words are "+strings.Join(known, ", "))
		}
	}
}

func (r *resolver) roots(list []string) {
	const field = "rootfs"
	if list != nil && len(list) == 0 {
		r.words(field, list)
	}
	if len(list) > maxAllowed {
		r.tooMany(field)
		return
	}
	for i, root := range list {
		if root != RootHost {
			r.place(index(field, i), root)
		}
	}
}

func (r *resolver) places(field string, places []Place) {
	if len(places) > maxAllowed {
		r.tooMany(field)
		return
	}
	modes := make(map[string]bool, len(places))
	for i, p := range places {
		at := index(field, i)
		r.place(at+".source", p.Source)
		mode := p.Mode
		choose(r, at+".mode", &mode, "ro", "rw")
		if modes[p.Source] {
			r.refuse(at+".source", p.Source, "it is there twice", "rw allows ro, too")
		}
		modes[p.Source] = true
	}
}

func (r *resolver) place(field, source string) {
	reason, hint := checkPath(source)
	switch {
	case reason != "":
	case !path.IsAbs(source):
		reason = "it is not an absolute path"
	case path.Clean(source) != source:
		reason, hint = "it is not a clean path", "write "+quoteShort(path.Clean(source))
	case within(source, kernelDirs()) != "":
		reason = within(source, kernelDirs()) + " belongs to the kernel, and no spec can have it"
	}
	if reason != "" {
		r.refuse(field, source, reason, hint)
	}
}

func (r *resolver) passed(names []string) {
	if len(names) > maxAllowed {
		r.tooMany("env")
		return
	}
	for i, name := range names {
		if prefix, all := strings.CutSuffix(name, "*"); !isEnvName(prefix) && (!all || prefix != "") {
			r.refuse(index("env", i), name, "a name is letters, digits and underscores, and may end in *", "")
		}
	}
}

// contradictions refuses what one field allows and another forbids.
func (r *resolver) contradictions(c *Ceiling) {
	landlock := slices.Contains(c.Levels, LevelLandlock)
	if slices.Contains(c.AllowDegraded, DegradeNamespaces) && !landlock {
		r.refuse("allow_degraded", DegradeNamespaces, "it gives the landlock level, which levels does not allow", "name landlock in levels too")
	}
	if landlock && c.Limits.Tmp > 0 {
		r.refuse("limits.tmp", c.Limits.Tmp.String(), "the landlock level, which levels allows, cannot keep it", "leave one of the two out")
	}
}
