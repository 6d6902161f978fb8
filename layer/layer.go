// Package layer reads the changes of a stopped sandbox's overlay: an upper directory beside
// the source over which it was mounted. It mounts nothing, and knows no sandboxes.
//
// Everything in an upper directory but the kernel's own marks was made by commands and is
// hostile: names of any bytes, deep trees, sparse files, special files, links that lead out.
// No link is ever followed, and everything is reached by handles.
package layer

import (
	"os"
	"time"

	"github.com/paddock-dev/paddock/layer/delta"
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
	// Started is when the sandbox was started for the last time; zero: when the layer began.
	Started Began
}

// Began is an instant by two clocks: a step back of the first one shows in their difference.
type Began struct {
	Realtime time.Time
	Boottime time.Duration
}

// These describe changes.
type (
	// Kind is what has become of a path.
	Kind = delta.Kind
	// Entry is what a path is on one side.
	Entry = delta.Entry
	// Identity is enough to see that a file is still the one that was looked at.
	Identity = delta.Identity
	// Change is one path that differs.
	Change = delta.Change
)

// The kinds of changes.
const (
	Added    = delta.Added
	Modified = delta.Modified
	Deleted  = delta.Deleted
	Retyped  = delta.Retyped
	Renamed  = delta.Renamed
)
