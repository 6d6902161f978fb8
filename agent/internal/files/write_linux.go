package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/wire"
)

const (
	defaultFileMode = 0o644
	defaultDirMode  = 0o755
	// writePrefix begins the name of a file that is being written.
	writePrefix = ".paddock-write-"
)

// WriteText replaces a file by the text of the request.
func (w *Workspace) WriteText(q *wire.WriteWorkspaceFileRequest) (*wire.WriteFileResult, error) {
	if len(q.Text) > wire.MaxFileText {
		return nil, core.BadField("text", fmt.Sprintf("text must be at most %d bytes when encoded as UTF-8", wire.MaxFileText))
	}
	return w.replace(q.Path, q.Mode, strings.NewReader(q.Text), int64(len(q.Text)))
}

// Write replaces a file by the body of the request.
func (w *Workspace) Write(q *wire.WriteFileRequest, body io.Reader) (*wire.WriteFileResult, error) {
	if q.ContentSize > maxArchive {
		return nil, &wire.Error{Code: wire.CodeTooLarge, Object: "content_size", Message: fmt.Sprintf("content_size must be at most %d bytes", int64(maxArchive))}
	}
	return w.replace(q.Path, q.Mode, body, q.ContentSize)
}

// replace writes a file beside its place and then renames it, so that
// every reader sees the whole old content or the whole new one.
func (w *Workspace) replace(path wire.OSString, mode *uint32, content io.Reader, size int64) (*wire.WriteFileResult, error) {
	if err := checkMode(mode); err != nil {
		return nil, err
	}
	p, werr := core.ParsePath(string(path))
	if werr != nil {
		return nil, werr
	}
	notRegular := &wire.Error{Code: wire.CodeConflict, Object: p.Text, Message: "workspace file write only supports regular file targets"}
	if len(p.Names) == 0 {
		return nil, notRegular
	}
	dir, err := w.parentOf(p, func(names []string) (beneath.Dir, error) { return w.Dir.MakeAll(names, defaultDirMode, nil) })
	if err != nil {
		return nil, core.FileError("write", p, err)
	}
	defer dir.Close()
	old, err := dir.Lstat(p.Base())
	exists := err == nil
	switch {
	case exists && TypeOf(old) == wire.TypeOther:
		return nil, Unsupported(p)
	case exists && TypeOf(old) != wire.TypeFile:
		return nil, notRegular
	case !exists && !errors.Is(err, unix.ENOENT):
		return nil, core.FileError("write", p, err)
	}
	n := newFile{mode: defaultFileMode, owner: -1, group: -1}
	if exists {
		n = newFile{mode: old.Mode & permissions, owner: int(old.Uid), group: int(old.Gid)}
	}
	if mode != nil {
		n.mode = *mode
	}
	if err := n.write(dir, p.Base(), content, size); err != nil {
		var sent *wire.Error
		if errors.As(err, &sent) {
			return nil, sent // the client's body ended early
		}
		return nil, core.FileError("write", p, err)
	}
	return &wire.WriteFileResult{Path: wire.OSString(p.Text), SizeBytes: size, BytesWritten: size, Mode: n.mode}, nil
}

// newFile is a file that is about to replace another. It gets the other's owner if the
// agent may change owners.
type newFile struct {
	mode         uint32
	owner, group int // -1 if no file is replaced
}

// write writes the file under a hidden name, and renames it to name.
func (n *newFile) write(dir beneath.Dir, name string, content io.Reader, size int64) (err error) {
	temp := core.HiddenName(writePrefix)
	f, err := dir.OpenFile(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		_ = f.Close()
		if err != nil {
			_ = unix.Unlinkat(dir.FD(), temp, 0)
		}
	}()
	if err := core.CopyExactly(f, content, size); err != nil {
		return err
	}
	if n.owner >= 0 && (n.owner != os.Geteuid() || n.group != os.Getegid()) {
		_ = unix.Fchown(int(f.Fd()), n.owner, n.group)
	}
	if err := unix.Fchmod(int(f.Fd()), n.mode); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return unix.Renameat(dir.FD(), temp, dir.FD(), name)
}
