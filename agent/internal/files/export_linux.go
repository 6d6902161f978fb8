package files

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/wire"
)

// smallExport is up to which size, in bytes, an archive is made in memory before its
// header is sent. Files that vanish meanwhile are left out of such an archive.
const smallExport = 4 << 20

// Export returns a path as a tar archive: everything below a directory, or
// one file or link.
func (w *Workspace) Export(q *wire.ExportRequest) (*wire.ExportResult, Body, error) {
	p, err := w.Find(q.Path)
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	st, err := p.Lstat()
	if err != nil {
		return nil, nil, err
	}
	e := &export{}
	switch TypeOf(st) {
	case wire.TypeOther:
		return nil, nil, Unsupported(p.Path)
	case wire.TypeDirectory:
		e.workspace, e.at = w, p.Path.Names
		if e.root, err = p.dir.Walk(asNames(p.name)); err == nil {
			err = e.collect(e.root, nil)
		}
	default:
		if e.root, err = p.dir.Dup(); err == nil {
			err = e.add(e.root, []string{p.name}, st)
		}
	}
	if err == nil {
		err = e.measure()
	}
	if err != nil {
		e.Close()
		var werr *wire.Error
		if errors.As(err, &werr) {
			return nil, nil, werr
		}
		return nil, nil, core.FileError("export", p.Path, err)
	}
	return &wire.ExportResult{WorkspacePath: wire.OSString(p.Path.Text), ArtifactType: TypeOf(st),
		ArchiveSize: e.size, EntryCount: int64(len(e.entries)), BytesWritten: e.bytes}, e, nil
}

// export is an archive that is being sent.
type export struct {
	root    beneath.Dir
	entries []tar.Header

	workspace *Workspace // of a directory
	at        []string   // its names
	names     int        // bytes of names
	size      int64      // of the archive
	bytes     int64      // of regular files
	whole     []byte     // the archive, if it is small

	// The directory of the last file, which the next one often shares.
	parent beneath.Dir
	path   string
	opened bool
}

// Close closes the directories of the export.
func (e *export) Close() error {
	if e.opened {
		_ = e.parent.Close()
		e.opened = false
	}
	return e.root.Close()
}

// collect adds everything in a directory and below, siblings by name.
func (e *export) collect(dir beneath.Dir, above []string) error {
	if len(above) > maxDepth {
		return tooDeep(above)
	}
	names, err := sortedNames(dir, "", maxMembers+1)
	if err != nil {
		return unread(strings.Join(above, "/"), err)
	}
	for _, name := range names {
		if len(above) == 0 && strings.HasPrefix(name, wire.StagePrefix) {
			continue // the stage of an import
		}
		st, err := dir.Lstat(name)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return err
		}
		at := append(above[:len(above):len(above)], name)
		if p, err := e.copied(at); err != nil {
			return err
		} else if p != nil { // commands have a link to it
			st, err = p.Lstat()
			p.Close()
			if err != nil {
				return err
			}
		}
		if err := e.add(dir, at, st); err != nil {
			return err
		}
		if TypeOf(st) != wire.TypeDirectory {
			continue
		}
		below, err := dir.Walk([]string{name})
		var link *beneath.LinkError
		if errors.Is(err, unix.ENOENT) || errors.As(err, &link) {
			continue // it was a directory
		}
		if err != nil {
			return unread(strings.Join(at, "/"), err)
		}
		err = e.collect(below, at)
		_ = below.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// unread returns the error for what cannot be read in the directory that is exported.
func unread(name string, err error) error {
	if name == "" || !errors.Is(err, unix.EACCES) {
		return err
	}
	return fmt.Errorf("%s in it cannot be read: %s: open it with chmod, or ask for what is beside it", name, unix.EACCES)
}

// add adds an entry, except for files that are not a regular file, a directory or a
// link. Hard links become copies, and owners are stored as numbers without names, which
// would mean nothing on another machine.
func (e *export) add(dir beneath.Dir, at []string, st unix.Stat_t) error {
	h := tar.Header{Name: strings.Join(at, "/"), Mode: int64(st.Mode & permissions), Uid: int(st.Uid), Gid: int(st.Gid),
		ModTime: time.Unix(st.Mtim.Unix())}
	switch TypeOf(st) {
	case wire.TypeFile:
		if st.Size >= maxArchive-e.bytes {
			return tooLarge("the directory is too large for one archive")
		}
		h.Typeflag, h.Size = tar.TypeReg, st.Size
		e.bytes += st.Size
	case wire.TypeDirectory:
		h.Typeflag = tar.TypeDir
		h.Name += "/"
	case wire.TypeSymlink:
		target, err := dir.Readlink(at[len(at)-1])
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
			return nil // it is not a link any more
		}
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
	default:
		return nil
	}
	if strings.TrimSpace(strings.TrimRight(h.Name, "/")) != strings.TrimRight(h.Name, "/") {
		h.PAXRecords = map[string]string{exactName: "exact"}
	}
	if e.names += len(h.Name) + len(h.Linkname); e.names > maxNames || len(e.entries) == maxMembers {
		return tooLarge("the directory has too many entries for one archive")
	}
	e.entries = append(e.entries, h)
	return nil
}

// copied returns the place of the copy that commands see of a file, nil if they see the file.
func (e *export) copied(at []string) (*Place, error) {
	if e.workspace == nil || len(e.workspace.Copies) == 0 {
		return nil, nil //nolint:nilnil // most files have none
	}
	text := core.PathText(slices.Concat(e.at, at))
	if _, is := e.workspace.Copies[text]; !is {
		return nil, nil //nolint:nilnil // see above
	}
	return e.workspace.Find(wire.OSString(text))
}

// measure computes the size of the archive, and makes the archive if it is small.
func (e *export) measure() error {
	if e.bytes+int64(len(e.entries))*maxHeader <= smallExport {
		return e.make()
	}
	headers := &counter{}
	w := tar.NewWriter(headers)
	for _, h := range e.entries {
		if h.Typeflag == tar.TypeReg && h.Size > 0 && h.Mode&0o444 != 0o444 { // it may be closed to this user
			switch f, err := e.open(&h); {
			case err == nil:
				_ = f.Close()
			case errors.Is(err, unix.EACCES):
				return unread(h.Name, err)
			}
		}
		e.size += (h.Size + tarBlock - 1) / tarBlock * tarBlock
		h.Size = 0 // below maxArchive, the length of a header does not depend on the size
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
	}
	err := w.Close()
	e.size += headers.n
	return err
}

// maxHeader is about how many bytes an entry has besides its content: with a
// long name it has two headers.
const maxHeader = 3 * tarBlock

// counter counts the bytes that are written.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// make makes the archive in memory, of the files that still exist.
func (e *export) make() error {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	kept := e.entries[:0]
	e.bytes = 0
	for _, h := range e.entries {
		var content []byte
		if h.Typeflag == tar.TypeReg {
			var err error
			content, err = e.content(&h)
			if errors.Is(err, errChanged) || errors.Is(err, unix.ENOENT) {
				continue
			}
			if err != nil {
				return unread(h.Name, err)
			}
			h.Size = int64(len(content))
			e.bytes += h.Size
		}
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
		kept = append(kept, h)
	}
	err := w.Close()
	e.entries, e.whole, e.size = kept, b.Bytes(), int64(b.Len())
	return err
}

// content reads a small file, up to the size that it had.
func (e *export) content(h *tar.Header) ([]byte, error) {
	f, err := e.open(h)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readUpTo(f.File, h.Size, h.Size)
}

var errChanged = errors.New("not a regular file any more")

// open opens the file of an entry.
func (e *export) open(h *tar.Header) (*fileBody, error) {
	names := strings.Split(h.Name, "/")
	if p, err := e.copied(names); err != nil {
		return nil, err
	} else if p != nil {
		defer p.Close()
		f, _, err := p.open()
		return &fileBody{f, h.Size}, err
	}
	last := len(names) - 1
	if path := strings.Join(names[:last], "/"); !e.opened || path != e.path {
		dir, err := e.root.Walk(names[:last])
		if err != nil {
			var link *beneath.LinkError
			if errors.As(err, &link) {
				err = errChanged
			}
			return nil, err
		}
		if e.opened {
			_ = e.parent.Close()
		}
		e.parent, e.path, e.opened = dir, path, true
	}
	f, err := e.parent.OpenFile(names[last], unix.O_RDONLY, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) { // a link, a socket
		return nil, errChanged
	}
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || TypeOf(st) != wire.TypeFile {
		_ = f.Close()
		return nil, errors.Join(errChanged, err)
	}
	return &fileBody{f, h.Size}, nil
}

// Send writes the archive. It fails if a file has vanished or shrunk since it was
// measured: nothing else could be sent in its place. A file that has grown is cut.
func (e *export) Send(to io.Writer) error {
	if e.whole != nil {
		_, err := to.Write(e.whole)
		return err
	}
	out := bufio.NewWriterSize(to, archiveBuffer)
	w := tar.NewWriter(out)
	for i := range e.entries {
		h := &e.entries[i]
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg || h.Size == 0 {
			continue
		}
		f, err := e.open(h)
		if err != nil {
			return err
		}
		err = f.Send(w)
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), out.Flush())
}
