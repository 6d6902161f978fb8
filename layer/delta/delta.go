// Package delta has the words in which a tree that commands have changed is described: what a
// path is, and what has become of it. package layer finds changes, package obeyed judges them.
package delta

import (
	"io/fs"
	"strings"
	"time"
)

// Kind is what has become of a path.
type Kind byte

// The kinds have the letters of git's --name-status.
const (
	Added    Kind = 'A'
	Modified Kind = 'M' // content or mode
	Deleted  Kind = 'D'
	Retyped  Kind = 'T' // another type
	Renamed  Kind = 'R' // a renamed directory, in root's overlays only
)

// Entry is what a path is on one side; the zero Entry is nothing.
type Entry struct {
	Mode     fs.FileMode // type and permissions, set-id bits too
	Size     int64
	Link     string // target of a symbolic link
	ModTime  time.Time
	Identity Identity
}

// Identity is enough to see that a file is still the one that was looked at.
type Identity struct {
	Dev, Ino     uint64
	Size         int64
	Mtime, Ctime time.Time
}

// Still reports whether two identities are of the same file with the same content, as far as its
// modification time tells. A rename changes the time of the last change, and a start of the host
// the number of the device, so that these do not count.
func (i Identity) Still(o Identity) bool {
	return i.Ino == o.Ino && i.Size == o.Size && i.Mtime.Equal(o.Mtime)
}

// Change is one path that differs. Paths are relative to the source, of any bytes but NUL,
// with "/" between names.
//
// Each change is about its own path alone. A renamed directory has, at Path, what the source
// has at From, but for the changes below Path; that From is gone is a Deleted of its own. If
// the source has something at Path, too, a Deleted of it comes first. A directory that is
// deleted, or became another type, is one change: what the source has in it is not listed.
type Change struct {
	Path     string
	Kind     Kind
	From     string // where the source has Old, if not at Path: of Renamed, and of changes below one
	Old, New Entry
}

// OldPath returns where the source has Old.
func (c *Change) OldPath() string {
	if c.From != "" {
		return c.From
	}
	return c.Path
}

// MakesTree reports whether a change is a directory that the source does not have at its path.
func (c *Change) MakesTree() bool {
	return c.Kind == Renamed || (c.Kind == Added || c.Kind == Retyped) && c.New.Mode.IsDir()
}

// Split splits a path into its directory, "" for the top, and its name.
func Split(p string) (dir, name string) {
	i := strings.LastIndexByte(p, '/')
	return p[:max(i, 0)], p[i+1:]
}

// Join returns the path of a name in a directory, either of which may be "".
func Join(dir, name string) string {
	if dir == "" || name == "" {
		return dir + name
	}
	return dir + "/" + name
}

// In reports whether a path is another one, or lies below it. All lie below "" and ".".
func In(p, top string) bool {
	return top == "" || top == "." || p == top || strings.HasPrefix(p, top) && p[len(top)] == '/'
}
