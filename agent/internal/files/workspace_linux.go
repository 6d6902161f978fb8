// Package files serves the workspace: reading, writing, listing, changing,
// archives in both directions, and the directory of secrets, which comes as an
// archive too. It walks paths name by name and follows no links.
package files

import (
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/wire"
)

// maxDepth bounds how deep a tree is walked: every level needs a descriptor.
const maxDepth = 512

// permissions are the bits of a mode that a client may set.
const permissions = 0o777

// Place is a name in an open directory of the workspace. The name is empty
// for the workspace itself.
type Place struct {
	dir  beneath.Dir
	name string
	Path core.Path
}

// maxArchive bounds an archive, in bytes as it is sent.
const maxArchive = 8 << 30

// Workspace is the tree of files that clients read and change.
type Workspace struct {
	Dir     beneath.Dir
	Copies  map[string]string // by path, copies of files that commands see in their place
	staging sync.Mutex        // held while a stage is made
}

// Find opens the directory that a path is in. It must be closed.
func (w *Workspace) Find(path wire.OSString) (*Place, error) {
	p, werr := core.ParsePath(string(path))
	if werr != nil {
		return nil, werr
	}
	dir, err := w.parentOf(p, w.Dir.Walk)
	if err != nil {
		return nil, core.FileError("open", p, err)
	}
	return &Place{dir, p.Base(), p}, nil
}

// parentOf opens the directory that a path is in, below the workspace by walk. If
// commands see a copy of the file, it opens the copy's directory; the name is the same.
func (w *Workspace) parentOf(p core.Path, walk func(names []string) (beneath.Dir, error)) (beneath.Dir, error) {
	at, ok := w.Copies[p.Text]
	if !ok {
		return walk(p.Parent())
	}
	root, err := beneath.Open("/")
	if err != nil {
		return root, err
	}
	defer root.Close()
	return root.Walk(strings.Split(path.Dir(at)[1:], "/"))
}

// Close closes the directory.
func (p *Place) Close() { _ = p.dir.Close() }

// Lstat describes the file. It returns an error if the file does not exist.
func (p *Place) Lstat() (unix.Stat_t, error) {
	st, err := p.dir.Lstat(p.name)
	if err != nil {
		return st, core.FileError("look at", p.Path, err)
	}
	return st, nil
}

// open opens a regular file for reading.
func (p *Place) open() (*os.File, unix.Stat_t, error) {
	st, err := p.Lstat()
	if err != nil {
		return nil, st, err
	}
	if err := p.onlyRegular(st); err != nil {
		return nil, st, err
	}
	f, err := p.dir.OpenFile(p.name, unix.O_RDONLY, 0)
	if err != nil {
		return nil, st, core.FileError("read", p.Path, err)
	}
	// It may be another file by now.
	if err = unix.Fstat(int(f.Fd()), &st); err == nil {
		err = p.onlyRegular(st)
	}
	if err != nil {
		_ = f.Close()
		return nil, st, err
	}
	return f, st, nil
}

func (p *Place) onlyRegular(st unix.Stat_t) error {
	switch TypeOf(st) {
	case wire.TypeFile:
		return nil
	case wire.TypeOther:
		return Unsupported(p.Path)
	default:
		return p.Conflict("workspace file read only supports regular files")
	}
}

// Unsupported returns the error for a path that is not a file, a directory or a link.
func Unsupported(p core.Path) error {
	return &wire.Error{Code: wire.CodeConflict, Object: p.Text, Message: "unsupported workspace path type: " + p.Text}
}

// Conflict returns the error for a path with a file of the wrong type.
func (p *Place) Conflict(text string) error {
	return &wire.Error{Code: wire.CodeConflict, Object: p.Path.Text, Message: text}
}

// TypeOf returns the kind of a file as the protocol names it.
func TypeOf(st unix.Stat_t) string {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return wire.TypeFile
	case unix.S_IFDIR:
		return wire.TypeDirectory
	case unix.S_IFLNK:
		return wire.TypeSymlink
	default:
		return wire.TypeOther
	}
}

// checkMode refuses more than permission bits: a set-id file would act with its
// owner's identity for any user who runs it later.
func checkMode(mode *uint32) error {
	if mode != nil && *mode&^permissions != 0 {
		return core.BadField("mode", "mode must be of the nine permission bits, 0 to 511 (0777)")
	}
	return nil
}

func timestamp(t unix.Timespec) string {
	return time.Unix(t.Unix()).UTC().Format(time.RFC3339Nano)
}

// Body is the body of an answer, which follows the header.
type Body interface {
	Send(io.Writer) error
	io.Closer
}
