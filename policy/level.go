package policy

import (
	"maps"
	"slices"
	"strings"
)

// The levels of [Spec].Level.
const (
	LevelFull     = "full"
	LevelLandlock = "landlock"
)

// The modes of [Workspace].Mode.
const (
	ModeBind    = "bind"
	ModeCopy    = "copy"
	ModeOverlay = "overlay"
)

// RootHost is the [Spec].RootFS that stands for the host's system directories.
const RootHost = "host"

// The words of [Spec].AllowDegraded.
const (
	DegradeMemory     = "memory"
	DegradeProcesses  = "processes"
	DegradeSwap       = "swap"
	DegradeCPUs       = "cpus"
	DegradeDisk       = "disk"
	DegradeNamespaces = "namespaces"
	DegradeSockets    = "abstract_sockets"
	DegradeIdentity   = "identity"
)

// Degradation is a guarantee that a spec may allow to be missing or weaker.
type Degradation struct {
	// Name is the word for it in [Spec].AllowDegraded.
	Name string
	// Loss says what is then not kept.
	Loss string
}

// Degradations lists what a spec may allow to be missing or weaker.
func Degradations() []Degradation {
	return []Degradation{
		{DegradeMemory, "memory is bounded for each process alone and in part (RLIMIT_DATA): shared mappings and files in memory are not counted"},
		{DegradeProcesses, "without namespaces and control groups the number of processes is bounded for all that the user runs on the host, as by default"},
		{DegradeSwap, "the use of swap is not bounded"},
		{DegradeCPUs, "how much of the processors commands take is not bounded"},
		{DegradeDisk, "what the workspace may hold is not bounded"},
		{DegradeNamespaces, "where user namespaces are forbidden, the landlock level takes the place of the full one"},
		{DegradeSockets, "with the host's network, commands reach its abstract Unix sockets, and through some of them all that the caller may do"},
		{DegradeIdentity, "commands keep the caller's own uid 0, without capabilities"},
	}
}

// Allows reports whether the spec allows this degradation.
func (s Spec) Allows(name string) bool { return slices.Contains(s.AllowDegraded, name) }

// rootFS returns the root file system, made absolute.
func (r *resolver) rootFS(written string) string {
	const field = "rootfs"
	if written == "" || written == RootHost {
		return RootHost
	}
	dir, ok := r.hostPath(field, written)
	switch {
	case !ok:
	case dir == "/":
		r.refuse(field, written, "the whole host cannot be shown", `"host" shows its system directories`)
	case within(dir, kernelDirs) != "":
		r.refuse(field, written, within(dir, kernelDirs)+" belongs to the kernel", "")
	}
	return dir
}

// degradations returns the names sorted, each once.
func (r *resolver) degradations(names []string) []string {
	var known []string
	for _, d := range Degradations() {
		known = append(known, d.Name)
	}
	for i, name := range names {
		if !slices.Contains(known, name) {
			r.refuse(index("allow_degraded", i), name, "it is nothing that can be degraded", "the words are "+strings.Join(known, ", "))
		}
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// combine refuses fields that contradict each other, and what the landlock level
// cannot keep.
func (r *resolver) combine(s Spec) {
	l := s.Limits
	if l.MaxTimeout > 0 && l.Timeout > l.MaxTimeout {
		r.refuse("limits.timeout", l.Timeout.String(), "it is more than limits.max_timeout, "+l.MaxTimeout.String(), "")
	}
	r.memory(l)
	if l.Disk > 0 && s.Workspace.Mode == ModeBind && s.Workspace.Access == "rw" && !s.Allows(DegradeDisk) {
		r.refuse("limits.disk", l.Disk.String(), "a bind workspace lies on the host's disk, which has no bound for a directory",
			"use workspace mode copy, or allow it: `allow_degraded`="+DegradeDisk)
	}
	if s.Workspace.Access == "ro" && s.Workspace.OnlyReads() {
		what := "a copy"
		if s.Workspace.Mode == ModeOverlay {
			what = "a layer"
		}
		r.refuse("workspace.access", "ro", "commands would get "+what+" that they cannot change", "use mode bind")
	}
	r.overlay(s)
	if len(s.Caches) > 0 && s.Caches[0] != CachesAuto && s.Caches[0] != CachesNone {
		switch {
		case s.Commands != nil:
			r.refuse("caches", strings.Join(s.Caches, ","), "with commands nothing that commands have left is used again", "leave one of the two out")
		case s.RootFS != RootHost && s.RootFS != "":
			r.refuse("caches", strings.Join(s.Caches, ","), "the tools of another root file system are not the host's", "leave one of the two out")
		}
	}
	if s.Commands != nil {
		// They would find other programs, or load more into them, than the rules are
		// about.
		for _, name := range slices.Sorted(maps.Keys(s.Env)) {
			if name == "PATH" || strings.HasPrefix(name, "LD_") {
				r.refuse(FieldPath("env", name), "", "with commands the sandbox sets it", "leave it out")
			}
		}
	}
	if s.Level != LevelLandlock {
		return
	}
	const hint = "use level full"
	if s.RootFS != RootHost && s.RootFS != "" {
		r.refuse("rootfs", s.RootFS, "the landlock level shows the host's own root", hint)
	}
	switch s.Workspace.Mode {
	case ModeCopy:
		r.refuse("workspace.mode", ModeCopy, "the landlock level has no place for a copy", hint)
	case ModeOverlay:
		r.refuse("workspace.mode", ModeOverlay, "the landlock level mounts nothing", hint)
	}
	for i, m := range s.Mounts {
		if m.Target != m.Source {
			r.refuse(index("mounts", i)+".target", m.Target, "the landlock level shows paths where they are on the host", "leave the target out, or "+hint)
		}
	}
	if s.Hostname != DefaultHostname {
		r.refuse("hostname", s.Hostname, "the landlock level has the host's own name", hint)
	}
	if s.Limits.Tmp != DefaultTmp {
		r.refuse("limits.tmp", s.Limits.Tmp.String(), "the landlock level keeps temporary files on the host's disk, unbounded", hint)
	}
}

// overlay refuses what a workspace of mode "overlay" cannot have, and what is only for one.
func (r *resolver) overlay(s Spec) {
	w := s.Workspace
	if w.Mode != ModeOverlay {
		if w.Layers != "" {
			r.refuse("workspace.layers", w.Layers, "a workspace of mode "+w.Mode+" has no layers", "use workspace mode overlay, or leave it out")
		}
		return
	}
	if s.Limits.Disk > 0 && !s.Allows(DegradeDisk) {
		r.refuse("limits.disk", s.Limits.Disk.String(), "a layer lies on the host's disk, which has no bound for a directory",
			"use workspace mode copy, or allow it: `allow_degraded`="+DegradeDisk)
	}
	if len(w.Unprotected) > 0 {
		r.refuse("workspace.unprotected", strings.Join(w.Unprotected, " "), "in an overlay nothing of the workspace is protected: what would run on the host is held back when changes are committed", "leave it out, and accept paths with paddock commit and `accept`")
	}
}
