//go:build linux

package linux

import (
	"path"
	"slices"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
)

// userMount is a host path that the user named: the workspace or a mount.
type userMount struct {
	field    string // of the spec, for messages
	source   string // absolute, free of symbolic links
	target   string
	writable bool // through it, the host's files can be changed
	copied   bool // commands get a copy instead
	dir      bool
	uid, gid uint32 // its owner
	id       confine.FileID
	named    hostpath.Mount // what was looked at
}

// userMounts checks what the spec names against the file system, the
// workspace first.
func userMounts(req backend.Request) ([]userMount, error) {
	found, err := hostpath.Mounts(req, workspaceDir)
	mounts := make([]userMount, len(found))
	for i, m := range found {
		mounts[i] = userMount{m.Field, m.Source, m.Target, m.Writable, m.Copied, m.Dir, m.UID, m.GID, m.ID.FileID, m}
	}
	return mounts, err
}

// named are the mounts as they were looked at.
func (b *builder) named() []hostpath.Mount {
	named := make([]hostpath.Mount, len(b.mounts))
	for i, m := range b.mounts {
		named[i] = m.named
	}
	return named
}

// locate resolves the source and reads its owner and type.
func (m *userMount) locate(source string) error {
	found := hostpath.Mount{Field: m.field}
	if err := found.Locate(source); err != nil {
		return err
	}
	m.source, m.dir, m.uid, m.gid, m.id = found.Source, found.Dir, found.UID, found.GID, found.ID.FileID
	return nil
}

func badSource(field, value, why, hint string) error { return hostpath.Refuse(field, value, why, hint) }

func reason(err error) string { return hostpath.Reason(err) }

func within(path, dir string) (rel string, ok bool) { return hostpath.Within(path, dir) }

func futurePath(p string) string { return hostpath.Future(p) }

func realPath(p string) string { return hostpath.Real(p) }

// homeLink is a symbolic link in HOME, by its path there.
type homeLink struct{ rel, text string }

// homeLinks are those that show mounts below the caller's home below HOME, too, where
// programs look for them: ~ means the same on both sides. home may be empty. None lies
// in another one, or where something else is mounted.
func homeLinks(home string, mounts []userMount) []homeLink {
	var links []homeLink
	for _, m := range mounts[1:] { // the workspace is elsewhere
		rel, ok := within(m.target, home)
		if !ok || home == "" || home == "/" || rel == "" {
			continue
		}
		at := path.Join(homeDir, rel)
		taken := slices.ContainsFunc(mounts, func(o userMount) bool {
			_, above := within(at, o.target)
			_, below := within(o.target, at)
			return above || below
		}) || slices.ContainsFunc(links, func(l homeLink) bool {
			_, inside := within(rel, l.rel)
			_, around := within(l.rel, rel)
			return inside || around
		})
		if !taken {
			links = append(links, homeLink{rel, m.target})
		}
	}
	return links
}
