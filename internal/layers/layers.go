// Package layers is the part of the library that is about layers: what commands changed in a
// workspace of mode "overlay". Only on Linux does it do anything.
package layers

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/obeyed"
)

// Info describes a layer.
type Info struct {
	ID     string // of its sandbox
	Source string // the directory below it
	Dir    string // where it lies
	Began  time.Time
	// Marks is "trusted" if root made it, else "userxattr".
	Marks string
	InUse bool // a sandbox has it mounted, or another command works on it
	Ends  bool // it ends with its sandbox
	// Damaged says why its record cannot be read; "" if it can.
	Damaged string
	Command []string // that ran, of a layer that was made for one
}

// Change is one path that differs from the source.
type Change struct {
	// Kind is A (new), M (content or mode), D (gone), T (another type) or R (a directory that
	// was renamed, From there).
	Kind       string
	Path, From string
	Mode       fs.FileMode // that it has now
}

// Finding is what screening has found about a change.
type Finding struct {
	Path string
	At   string // the path that it is about, if that is another one
	// Held: it does not land until its path is accepted. Never: it never lands.
	Held, Never bool
	Made        bool // the source has nothing at the path
	Tool, Why   string
	With        string // the path of a change that must land with it; "": it lands if it is accepted
}

// Conflict is a path where the source may have changed since the layer began.
type Conflict struct{ Path, Why string }

// CommitOptions say which changes land, and how.
type CommitOptions struct {
	// Paths are the paths to commit, with all below them; none: everything.
	Paths []string
	// Accept are paths that land although screening holds them back, with all below them.
	Accept []string
	// OnConflict is "fail" (default: nothing lands), "overwrite" or "skip".
	OnConflict string
	// Unreviewed lands changes, too, that are not what the principal was shown of them.
	Unreviewed bool
	// DryRun writes nothing.
	DryRun bool
	// Progress, if not nil, is called as files are copied.
	Progress func(path string, files, allFiles int, bytes, all int64)
}

// ReviewError is the error of a commit of changes that are not what its principal was shown.
type ReviewError struct {
	Changed  []Change // since they were shown
	Appeared []Change // where no change was when everything there was shown
}

// Error names the first of them.
func (e *ReviewError) Error() string {
	const most = 5
	var all []string
	for _, c := range e.Changed {
		all = append(all, text.QuoteName(c.Path)+" has changed since it was shown")
	}
	for _, c := range e.Appeared {
		all = append(all, text.QuoteName(c.Path)+" has appeared since the changes were shown")
	}
	what := "nothing was committed: " + strings.Join(all[:min(len(all), most)], ", ")
	if more := len(all) - most; more > 0 {
		what += fmt.Sprintf(" (and %d more)", more)
	}
	return what
}

// Commit is what a commit did, or would do.
type Commit struct {
	Landed    []Change
	Held      []Finding
	Marked    []Finding // what landed, and deserves a look
	Conflicts []Conflict
	// Left is how many changes the layer still has.
	Left int
}

// Host is what screening must know of the host.
type Host struct {
	Homes  []string         // of users, absolute
	Named  map[string]Named // paths, absolute, that programs of the host run or obey
	Search []string         // directories in which shells look for programs
	Tree   *obeyed.Names    // the names in the source, as they were read for Named
	// Landing is called before a commit writes anything in the source. landed reports whether what
	// it lands is at a path, or below or instead of it. If it fails, nothing lands.
	Landing func(landed func(rel string) bool) error
}

// Named says which tool runs or obeys a path, and why.
type Named struct{ Tool, Why string }

// New describes a layer to make.
type New struct {
	ID      string
	Source  string // free of symbolic links
	Place   string // a directory for layers; empty: the state directory
	Ends    bool   // with the sandbox
	Command []string
}

// Held is a layer that is locked.
type Held interface {
	// Dir has the directories upper and work.
	Dir() string
	// Root: root mounts it.
	Root() bool
	// File is the lock. It lasts as long as one duplicate of it is open.
	File() *os.File
	// Count returns how many paths differ from the source.
	Count(ctx context.Context) (int, error)
	// Release ends the lock, and Remove removes the layer, too.
	Release()
	Remove(ctx context.Context) error
}
