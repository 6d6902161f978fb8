package layer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/linediff"
)

// mostText is how large a file may be that is shown by lines, as far as it is not binary.
const mostText = 16 << 20

// side is one side of a file's change.
type side struct {
	tree  tree
	path  string
	entry Entry
}

func (f *file) oldSide(l *Layer) side { return side{l.source(), f.oldPath, *f.old} }

func (f *file) newSide(l *Layer) side {
	switch {
	case f.moved:
		return f.oldSide(l)
	case f.content != "":
		return side{l.source(), f.content, *f.new}
	}
	return side{l.upper(), f.path, *f.new}
}

// content returns what a file has, or the target of a link. If it is not shown by lines, as it
// is binary or too large, text is false, and data as good as nothing.
func (s side) content(ctx context.Context) (data []byte, text bool, err error) {
	switch {
	case s.entry.Mode.Type() == fs.ModeSymlink:
		return []byte(s.entry.Link), true, nil
	case s.path == "" || !s.entry.Mode.IsRegular():
		return nil, true, nil
	case s.entry.Size > mostText:
		return nil, false, nil
	}
	data, err = s.read(ctx)
	if err != nil || isBinary(data) {
		return nil, false, err
	}
	return data, true, nil
}

// isBinary reports whether git takes a content for a binary one.
func isBinary(data []byte) bool { return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 }

// read returns all of a regular file.
func (s side) read(ctx context.Context) ([]byte, error) {
	f, err := s.tree.openFile(s.path, s.entry)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, s.entry.Size)
	for at := 0; at < len(data); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := f.ReadAt(data[at:min(at+1<<20, len(data))], int64(at))
		if errors.Is(err, io.EOF) {
			return nil, &ChangedError{s.path, s.tree.source}
		}
		if err != nil {
			return nil, s.tree.fail("read", s.path, err)
		}
		at += n
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f), &st); err == nil && identityOf(&st) != s.entry.Identity {
		return nil, &ChangedError{s.path, s.tree.source}
	}
	return data, nil
}

// lines is a change of a file by lines.
type lines struct {
	binary   bool // it is not shown by lines
	old, new linediff.Text
	edits    []linediff.Edit
}

// compareLines compares both sides of a file.
func (l *Layer) compareLines(ctx context.Context, f *file) (lines, error) {
	if f.moved {
		return lines{}, nil
	}
	if f.old.Mode.IsRegular() && f.new.Mode.IsRegular() && f.old.Size == f.new.Size {
		if same, err := sameContent(ctx, f.oldSide(l), f.newSide(l)); same || err != nil {
			return lines{}, err
		}
	}
	old, oldText, err := f.oldSide(l).content(ctx)
	if err != nil || !oldText {
		return lines{binary: true}, err
	}
	data, newText, err := f.newSide(l).content(ctx)
	if err != nil || !newText {
		return lines{binary: true}, err
	}
	d := lines{old: linediff.Split(old), new: linediff.Split(data)}
	d.edits = linediff.Diff(d.old, d.new)
	return d, nil
}

// counts returns how many lines come and go.
func (d *lines) counts() (added, deleted int) {
	for _, e := range d.edits {
		added += e.NewEnd - e.NewStart
		deleted += e.OldEnd - e.OldStart
	}
	return added, deleted
}

// blocks are buffers to compare contents.
var blocks = sync.Pool{New: func() any { return new([2][64 << 10]byte) }}

// sameContent compares two regular files of equal size.
func sameContent(ctx context.Context, a, b side) (bool, error) {
	size := a.entry.Size
	if size == 0 {
		return true, nil
	}
	first, err := a.tree.openFile(a.path, a.entry)
	if err != nil {
		return false, err
	}
	defer first.Close()
	second, err := b.tree.openFile(b.path, b.entry)
	if err != nil {
		return false, err
	}
	defer second.Close()
	files := [2]handle{first, second}
	buf := blocks.Get().(*[2][64 << 10]byte)
	defer blocks.Put(buf)
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if size > int64(len(buf[0])) {
			if at = min(nextData(files[0], at), nextData(files[1], at)); at >= size {
				break
			}
		}
		n := int(min(size-at, int64(len(buf[0]))))
		for i, s := range []side{a, b} {
			_, err := files[i].ReadAt(buf[i][:n], at)
			if errors.Is(err, io.EOF) {
				return false, &ChangedError{s.path, s.tree.source}
			}
			if err != nil {
				return false, s.tree.fail("read", s.path, err)
			}
		}
		if !bytes.Equal(buf[0][:n], buf[1][:n]) {
			return false, nil
		}
		at += int64(n)
	}
	return true, nil
}

// nextData returns where the next data of a file begins: what lies between are zeros.
func nextData(f handle, at int64) int64 {
	next, err := unix.Seek(int(f), at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return math.MaxInt64
	case err != nil:
		return at // the file system does not say
	}
	return next
}
