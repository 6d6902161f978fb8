// Package layer reads the changes of a stopped sandbox's overlay: an upper directory beside
// the source over which it was mounted. It mounts nothing, and knows no sandboxes.
//
// Everything in an upper directory but the kernel's own marks was made by commands and is
// hostile: names of any bytes, deep trees, sparse files, special files, links that lead out.
// No link is ever followed, and everything is reached by handles.
package layer

import (
	"io/fs"
	"os"
	"time"
)

// Marks says in which attributes the kernel keeps its marks of an upper directory.
type Marks string

// The kernel keeps its marks where the one who mounted may write them.
const (
	TrustedMarks Marks = "trusted"   // trusted.overlay.*: mounted by root
	UserMarks    Marks = "userxattr" // user.overlay.*: mounted by an ordinary user
)

// Layer is a directory of changes over a source.
type Layer struct {
	Source, Upper *os.File // opened with O_PATH|O_DIRECTORY
	Marks         Marks
	Began         Began // when the layer began
}

// Began is an instant by two clocks: a step back of the first one shows in their difference.
type Began struct {
	Realtime time.Time
	Boottime time.Duration
}

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
