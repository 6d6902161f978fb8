package policy

import (
	"slices"
	"strings"
)

// The words of [Spec].Caches besides the names of tools.
const (
	CachesAuto = "auto"
	CachesNone = "none"
)

// HomeKeep is the [Spec].Home that stays for later sandboxes.
const HomeKeep = "keep"

// CacheTools returns the names of the tools that can have a cache which stays.
func CacheTools() []string { return []string{"cargo", "ccache", "go", "npm", "pip", "uv"} }

// keepsCaches reports whether the spec asks for caches that stay.
func (s Spec) keepsCaches() bool {
	return len(s.Caches) > 0 && !slices.Equal(s.Caches, []string{CachesNone})
}

// caches returns the tools sorted, each once, or the one word for all of them.
func (r *resolver) caches(names []string) []string {
	known := append(CacheTools(), CachesAuto, CachesNone)
	for i, name := range names {
		switch {
		case !slices.Contains(known, name):
			r.refuse(index("caches", i), name, "unknown tool", "the tools are "+strings.Join(CacheTools(), ", ")+"; auto and none stand for all of them")
		case len(names) > 1 && (name == CachesAuto || name == CachesNone):
			r.refuse(index("caches", i), name, "it stands alone", "leave the others out")
		}
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// home returns the directory at HOME, made absolute.
func (r *resolver) home(written string) string {
	if written == "" || written == HomeKeep {
		return written
	}
	const field = "home"
	dir, ok := r.hostPath(field, written)
	switch {
	case !ok:
	case dir == "/":
		r.refuse(field, written, "the whole host cannot be mounted read-write", "name a directory for it")
	case within(dir, kernelDirs) != "":
		r.refuse(field, written, within(dir, kernelDirs)+" belongs to the kernel", "a sandbox has a "+within(dir, kernelDirs)+" of its own")
	}
	return dir
}
