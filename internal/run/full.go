package run

import (
	"path"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/lazyregexp"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// noSpace matches what programs print if a file system has no room, with the path that they name.
var noSpace = lazyregexp.New(`(?:(/[^\s'"‘’:]+)['"’]?: (?:write error: )?)?(?:[Nn]o space left on device|ENOSPC)`)

// disk is a file system of this host that commands can write.
type disk struct {
	inside, outside string
	words           string // what it is
}

// disks returns them, as far as they are on this host.
func (h Hints) disks() []disk {
	if h.Spec.Backend == policy.BackendWrapper {
		return nil // which may have put the sandbox on another host
	}
	var all []disk
	for _, m := range h.Spec.Mounts {
		if m.Mode == "rw" {
			all = append(all, disk{m.Target, m.Source, "there"})
		}
	}
	at, home := policy.WorkspacePath, policy.HomePath
	if h.unbounded() {
		at, home = h.Spec.Workspace.Source, h.Spec.Home
	}
	switch mode := h.Spec.Workspace.Mode; {
	case mode == policy.ModeOverlay:
		all = append(all, disk{at, h.Layer, "of the layer, which has the changes,"})
	case mode != policy.ModeCopy && h.Spec.Workspace.Access != "ro":
		all = append(all, disk{at, h.Spec.Workspace.Source, "of the workspace"})
	}
	if h.Spec.Home != "" {
		all = append(all, disk{home, h.Spec.Home, "of the HOME that is kept"})
	}
	return all
}

// unbounded reports whether the sandbox has the host's file systems alone, at their paths there.
func (h Hints) unbounded() bool {
	return h.Spec.Level == policy.LevelLandlock || h.Spec.Backend == policy.BackendHost
}

// private are the places of file systems that a limit bounds.
var private = []string{"/tmp", "/var/tmp", "/dev/shm", "/home"}

// full returns which file system a program has found full, by its output: one of this host, if
// that is full now or has the path that the program names, or else one that a limit bounds. Its
// Rule is "" if the program has found none full.
func (h Hints) full(said []byte) wire.Denial {
	found := noSpace().FindSubmatch(said)
	if found == nil {
		return wire.Denial{}
	}
	named := string(found[1])
	within := func(dir string) bool {
		_, in := hostpath.Within(path.Clean(named), dir)
		return named != "" && in
	}
	for _, d := range h.disks() {
		if within(d.inside) || named == "" && diskFull(d.outside) {
			return wire.Denial{Layer: "mount", Rule: "disk full", Object: d.inside, Guess: true,
				Hint: "this host's file system " + d.words + " has no room left: make some; no limit of the sandbox is met"}
		}
	}
	if h.unbounded() || h.Spec.Backend != policy.BackendLinux {
		return wire.Denial{} // no limit bounds temporary files there
	}
	if within("/run") {
		return wire.Denial{Layer: "limit", Rule: "run", Object: "/run", Guess: true, Hint: "/run is small, and no setting makes it larger: write to /tmp"}
	}
	tmp := wire.Denial{Layer: "limit", Rule: "tmp", Guess: true, Hint: "the private file systems are bounded: `limits.tmp`"}
	for _, dir := range private {
		if within(dir) {
			tmp.Object = dir
			return tmp
		}
	}
	if h.Spec.Workspace.Mode == policy.ModeCopy {
		disk := wire.Denial{Layer: "limit", Rule: "disk", Object: policy.WorkspacePath, Guess: true, Hint: "the copied workspace is bounded: `limits.disk`"}
		if within(policy.WorkspacePath) {
			return disk
		}
		tmp.Hint += ", and the copied workspace by `limits.disk`"
	}
	return tmp
}
