//go:build linux

package linux

import (
	"maps"
	"os"
	"slices"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
)

// toolDir returns the directory inside that is searched in place of an entry of the caller's
// PATH, because a toolchain's programs are there, or "". At the landlock level a directory of
// which only single files are visible is not searched: what else is in it would be found, and
// could not be executed.
func (b *builder) toolDir(req backend.Request, v view, entry string) string {
	dir := req.Toolchains.Search[entry]
	if dir == "" || len(b.plan.Namespaces) > 0 {
		return dir
	}
	if _, mount := v.host(dir); mount == nil {
		return ""
	}
	return dir
}

// toolLinks adds the links of toolchains, beside the mounts of what they lead to. A link in
// whose place something else is, or above it, is left out.
func (b *builder) toolLinks(req backend.Request) {
	for _, at := range slices.Sorted(maps.Keys(req.Toolchains.Links)) {
		if hostpath.Under(homeDir, at) || hostpath.Under(at, homeDir) || slices.ContainsFunc(b.mounts, func(m hostpath.Mount) bool { return hostpath.Under(m.Target, at) || hostpath.Under(at, m.Target) }) {
			continue
		}
		b.add(confine.Step{Do: confine.OpSymlink, Source: req.Toolchains.Links[at], Target: at, Why: "a link to a toolchain"})
	}
}

// withoutToolchains returns the request, and its mounts, without toolchains.
func withoutToolchains(req backend.Request, mounts []hostpath.Mount, why string) (backend.Request, []hostpath.Mount) {
	own, others := len(req.Spec.Mounts)-req.Toolchains.Mounts, len(mounts)-req.Toolchains.Mounts
	req.Spec.Mounts, mounts = req.Spec.Mounts[:own:own], mounts[:others:others]
	req.Toolchains = req.Toolchains.Without(why)
	return req, mounts
}

// bareToolchains returns the request, and its mounts, for the landlock level in place of the
// full one: without toolchains if commands could not use them there, or nothing could be
// covered in them.
func bareToolchains(req backend.Request, mounts []hostpath.Mount) (backend.Request, []hostpath.Mount) {
	if os.Geteuid() == 0 || req.Toolchains.Covered {
		return withoutToolchains(req, mounts, "level landlock cannot show this toolchain")
	}
	return req, mounts
}
