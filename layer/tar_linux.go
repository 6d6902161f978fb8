package layer

import (
	"archive/tar"
	"bufio"
	"context"
	"io"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/layer/delta"
)

const (
	// mostTar is how much the files of an archive may have. A sparse file has all of its size.
	mostTar = 64 << 30

	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// WriteTar writes changes as a layer of an OCI image: what is new or changed, and a whiteout
// (.wh.NAME) for what is gone. Where a renamed directory replaced another one, it has the mark
// .wh..wh..opq. Owners are those on disk, by number. Set-user-id and set-group-id bits are left
// out, as are devices and sockets, which are returned.
//
// A name that such a layer takes for a mark is a [NameError].
func (l *Layer) WriteTar(ctx context.Context, w io.Writer, changes []Change) (left []Change, err error) {
	buffer := bufio.NewWriterSize(w, 64<<10)
	a := &archive{expansion: l.expand(ctx, changes, usualLimits), w: tar.NewWriter(buffer), links: make(map[[2]uint64]string)}
	for i, c := range changes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := checkMarks(c.Path); err != nil {
			return nil, err
		}
		replaced := i > 0 && changes[i-1].Path == c.Path
		switch {
		case c.Kind != Deleted:
			err = a.change(c, replaced)
		case c.From == "" && (i+1 == len(changes) || changes[i+1].Path != c.Path):
			dir, name := delta.Split(c.Path)
			err = a.w.WriteHeader(&tar.Header{Name: delta.Join(dir, whiteout+name), Typeflag: tar.TypeReg, Format: tar.FormatPAX})
		}
		if err != nil {
			return nil, err
		}
	}
	if err := a.w.Close(); err != nil {
		return nil, err
	}
	return a.left, buffer.Flush()
}

// checkMarks rejects a name that an OCI layer takes for a mark.
func checkMarks(path string) error {
	for name := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(name, whiteout) {
			return &NameError{path, "names that begin with " + whiteout + " are marks in a layer of an image: rename it, or leave it out"}
		}
	}
	return nil
}

// archive writes one.
type archive struct {
	*expansion
	w     *tar.Writer
	size  int64
	links map[[2]uint64]string // where a file with several names was written
	left  []Change
}

func (a *archive) change(c Change, replaced bool) error {
	if c.New.Mode&(fs.ModeDevice|fs.ModeSocket) != 0 {
		a.left = append(a.left, c)
		return nil
	}
	if err := a.entry(c.Path, side{a.upper(), c.Path, c.New}); err != nil || c.Kind != Renamed {
		return err
	}
	if replaced {
		if err := a.w.WriteHeader(&tar.Header{Name: delta.Join(c.Path, opaque), Typeflag: tar.TypeReg, Format: tar.FormatPAX}); err != nil {
			return err
		}
	}
	return a.renamedDir(&c, func(path, at string, e Entry, _ bool) error {
		switch {
		case at == c.From:
			return nil
		case e.Mode&(fs.ModeDevice|fs.ModeSocket) != 0:
			a.left = append(a.left, Change{Path: path, Kind: Added, From: at, Old: e, New: e})
			return nil
		}
		if err := checkMarks(path); err != nil {
			return err
		}
		return a.entry(path, side{a.source(), at, e})
	})
}

// entry writes a file, a link or a directory.
func (a *archive) entry(path string, s side) error {
	st, err := s.tree.lstat(s.path)
	if err != nil {
		return err
	}
	if identityOf(&st) != s.entry.Identity {
		return &ChangedError{s.path, s.tree.source}
	}
	h := &tar.Header{Name: path, Mode: int64(st.Mode & 0o1777), Uid: int(st.Uid), Gid: int(st.Gid), ModTime: s.entry.ModTime, Format: tar.FormatPAX}
	switch s.entry.Mode.Type() {
	case fs.ModeDir:
		h.Name, h.Typeflag = path+"/", tar.TypeDir
	case fs.ModeSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, s.entry.Link
	case fs.ModeNamedPipe:
		h.Typeflag = tar.TypeFifo
	default:
		key := [2]uint64{st.Dev, st.Ino}
		if first, ok := a.links[key]; ok {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			break
		}
		if st.Nlink > 1 {
			a.links[key] = path
		}
		return a.file(h, s)
	}
	return a.w.WriteHeader(h)
}

// file writes a regular file.
func (a *archive) file(h *tar.Header, s side) error {
	if a.size += s.entry.Size; a.size > mostTar {
		return &LimitError{"bytes in files", mostTar, s.path}
	}
	f, err := s.tree.openFile(s.path, s.entry)
	if err != nil {
		return err
	}
	defer f.Close()
	h.Typeflag, h.Size = tar.TypeReg, s.entry.Size
	if err := a.w.WriteHeader(h); err != nil {
		return err
	}
	for at := int64(0); at < h.Size; {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		n, err := io.Copy(a.w, io.NewSectionReader(f, at, min(1<<20, h.Size-at)))
		if err != nil {
			return err
		}
		if n == 0 {
			return &ChangedError{s.path, s.tree.source}
		}
		at += n
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f), &st); err == nil && identityOf(&st) != s.entry.Identity {
		return &ChangedError{s.path, s.tree.source}
	}
	return nil
}
