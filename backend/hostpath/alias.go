package hostpath

import (
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath/internal/dirfd"
)

// others are the other paths of this host that lead to a path without any link,
// because a directory above it is mounted a second time, and where a part of it is.
type others struct {
	itself []string
	parts  []string
}

// otherPaths finds them among the host's mounts.
func otherPaths(all map[string]mounted, way *Way) others {
	last := Dir{way.Path, way.Identity, way.Mode, way.UID} // the last on the way that is there
	if !way.Exists {
		last = way.Dirs[len(way.Dirs)-1]
	}
	rest, _ := Within(way.Path, last.Path)
	base := mountOf(all, last.Path)
	rel, _ := Within(last.Path, base.at)
	place := path.Join(base.root, rel)
	var o others
	for _, m := range all {
		if m.device != base.device {
			continue
		}
		if rel, ok := Within(place, m.root); ok {
			at := path.Join(m.at, rel)
			if at != last.Path && mountOf(all, at).at == m.at && leadsTo(at, last.Identity) {
				o.itself = append(o.itself, path.Join(at, rest))
			}
		} else if _, ok := Within(m.root, place); ok && way.Exists && !Under(m.at, way.Path) {
			o.parts = append(o.parts, m.at)
		}
	}
	slices.Sort(o.itself)
	slices.Sort(o.parts)
	return o
}

// leadsTo reports whether a path leads to this file, also where that cannot be seen.
func leadsTo(at string, id dirfd.Identity) bool {
	var st dirfd.Stat
	err := st.Of(unix.AT_FDCWD, at)
	return err == nil && st.Same(id) || errors.Is(err, unix.EACCES)
}

// Under reports whether a file is a directory or lies in it. Both are absolute and clean.
func Under(file, dir string) bool {
	_, ok := Within(file, dir)
	return ok
}

// UnderAny reports whether a path is one of these, or lies in one.
func UnderAny(at string, in map[string]bool) bool {
	for ; at != "/"; at = filepath.Dir(at) {
		if in[at] {
			return true
		}
	}
	return false
}

// other returns another path by which a mount shows a file of Paddock's own, or lies in
// it, where its own path does not say so. "" where it does neither.
func (c Cover) other(way *Way, o others, m Mount) string {
	if !Under(c.Path, m.Source) {
		if way.Exists && way.Same(m.ID) {
			return m.Source
		}
		if i := slices.IndexFunc(way.Dirs, func(d Dir) bool { return d.Same(m.ID) }); i >= 0 {
			return path.Join(m.Source, strings.TrimPrefix(c.Path, way.Dirs[i].Path))
		}
	}
	for _, at := range o.itself {
		if Under(at, m.Source) || c.Hidden && Under(m.Source, at) {
			return at
		}
	}
	if !c.Hidden || !way.Exists || Under(m.Source, c.Path) {
		return ""
	}
	for _, at := range o.parts {
		if Under(at, m.Source) || Under(m.Source, at) {
			return at
		}
	}
	if slices.ContainsFunc(m.dirs, func(d Dir) bool { return d.Same(way.Identity) }) {
		return m.Source
	}
	return ""
}
