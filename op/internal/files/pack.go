package files

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// hostSource is what is copied from the host.
type hostSource struct {
	tree    bool
	base    string // its name
	root    *os.Root
	archive io.ReadCloser // an archive that was there already
	size    int64
	entries []tar.Header
	leading []tar.Header // links that lead out
	exclude func(name string) bool
}

// maxHostDepth bounds how deep a tree may be, since every level needs a descriptor.
const maxHostDepth = 500

// fromHost opens what is copied, and looks at all of it.
func (c *copying) fromHost(ctx context.Context) (*hostSource, error) {
	h := &hostSource{exclude: c.packer.excluded}
	if c.from.archive {
		err := h.spool(ctx, c.stream)
		return h, err
	}
	if err := h.find(c.env.StateDir(), c.from); err != nil {
		return nil, err
	}
	var err error
	if h.tree {
		err = h.collect(h.root, ".", 0)
	} else {
		_, err = h.add(h.root, h.base)
	}
	if c.leading = len(h.leading); err == nil && c.leading > 0 {
		err = c.leadsOut(h.leading[0].Name, h.leading[0].Linkname)
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// spool keeps the archive on standard input.
func (h *hostSource) spool(ctx context.Context, stream *op.Stream) error {
	if stream.Terminal != nil {
		return &policy.FieldError{Field: "source", Value: "-", Reason: "standard input is a terminal", Hint: "give it an archive: tar -c ... | paddock cp - NAME:DIR"}
	}
	ended := make(chan error, 1)
	go func() {
		var err error
		h.archive, h.size, err = spooled(stream.Stdin)
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done(): // the goroutine waits for standard input, and ends with this program
		return ctx.Err()
	}
}

// find opens the directory that is copied, or the one that a file is in. A link is not followed
// unless a slash follows it.
func (h *hostSource) find(state string, from copyPlace) error {
	refuse := func(err error) error { return op.FieldError(from.field, from.text, err) }
	clean := filepath.Clean(from.text)
	base := filepath.Base(clean)
	whole := from.slash || base == ".." || base == "." || base == "/"
	at := clean
	if !whole {
		at = filepath.Dir(clean)
	}
	way, err := hostpath.Locate(state, at)
	if err == nil && !way.Exists {
		err = fs.ErrNotExist
	}
	if err == nil && !way.IsDir() {
		err = syscall.ENOTDIR
	}
	if err == nil {
		h.root, err = openDir(way)
	}
	if err != nil {
		return refuse(err)
	}
	if h.base = base; whole {
		h.tree, h.base = true, filepath.Base(way.Path)
		return nil
	}
	st, err := h.root.Lstat(base)
	if err == nil && st.IsDir() {
		h.tree = true
		above := h.root
		h.root, err = enter(above, base)
		_ = above.Close()
	}
	if err != nil {
		h.close()
		return refuse(err)
	}
	return nil
}

func (h *hostSource) close() {
	if h.root != nil {
		_ = h.root.Close()
	}
	if h.archive != nil {
		_ = h.archive.Close()
	}
}

// collect adds everything below a directory, siblings by name.
func (h *hostSource) collect(dir *os.Root, at string, depth int) error {
	if depth > maxHostDepth {
		return refuseEntry(at, "the directories are nested too deep", leaveOut(at))
	}
	names, err := namesIn(dir)
	if err != nil {
		return refuseEntry(at, op.CauseOf(err), leaveOut(at))
	}
	for _, base := range names {
		name := path.Join(at, base)
		if h.exclude(name) {
			continue
		}
		below, err := h.add(dir, name)
		if err != nil {
			return err
		}
		if !below {
			continue
		}
		sub, err := enter(dir, base)
		if err != nil {
			return refuseEntry(name, op.CauseOf(err), leaveOut(name))
		}
		err = h.collect(sub, name, depth+1)
		_ = sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// namesIn returns the names in a directory, sorted.
func namesIn(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// add adds the file in a directory that has a name in the archive, and reports whether it is a
// directory.
func (h *hostSource) add(dir *os.Root, name string) (below bool, err error) {
	st, err := dir.Lstat(path.Base(name))
	if err != nil {
		return false, refuseEntry(name, op.CauseOf(err), "")
	}
	next := tar.Header{Name: name, Mode: int64(st.Mode().Perm())}
	switch mode := st.Mode(); {
	case mode.IsRegular():
		next.Typeflag, next.Size = tar.TypeReg, st.Size()
	case mode.IsDir():
		next.Typeflag, below = tar.TypeDir, true
	case mode&fs.ModeSymlink != 0:
		next.Typeflag = tar.TypeSymlink
		if next.Linkname, err = dir.Readlink(path.Base(name)); err != nil {
			return false, refuseEntry(name, op.CauseOf(err), "")
		}
		if !wire.LinkStaysInside(strings.Count(name, "/"), next.Linkname) {
			h.leading = append(h.leading, next)
			return false, nil
		}
	default:
		return false, refuseEntry(name, "it is not a file, a directory or a symbolic link", leaveOut(name))
	}
	h.entries = append(h.entries, next)
	return below, nil
}

// open returns the archive and its size. A single file has the name in it.
func (h *hostSource) open(name string) (io.ReadCloser, int64, error) {
	if h.archive != nil {
		return io.NopCloser(h.archive), h.size, nil
	}
	headers := &counting{}
	t := tar.NewWriter(headers)
	for i := range h.entries {
		next := h.header(i, name)
		headers.n += (next.Size + 511) / 512 * 512
		next.Size = 0 // of what can be sent, the length of a header does not depend on the size
		if err := t.WriteHeader(next); err != nil {
			return nil, 0, refuseEntry(h.entries[i].Name, err.Error(), "")
		}
	}
	if err := t.Close(); err != nil {
		return nil, 0, err
	}
	if headers.n > maxImport {
		return nil, 0, refuseEntry(h.base, fmt.Sprintf("it has %s, and %s are the most", text.Size(headers.n), text.Size(maxImport)), "copy it in parts")
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(h.write(w, name)) }()
	return r, headers.n, nil
}

// header returns the header of an entry.
func (h *hostSource) header(i int, name string) *tar.Header {
	next := h.entries[i]
	if !h.tree {
		next.Name = name
	}
	if strings.TrimSpace(next.Name) != next.Name {
		next.PAXRecords = map[string]string{exactName: "exact"}
	}
	if next.Typeflag == tar.TypeDir {
		next.Name += "/"
	}
	return &next
}

// write writes the archive. A file that has grown is cut, and one that has shrunk, or is another
// one, is an error.
func (h *hostSource) write(to io.Writer, name string) error {
	t := tar.NewWriter(to)
	for i := range h.entries {
		next := h.header(i, name)
		if err := t.WriteHeader(next); err != nil {
			return err
		}
		if next.Typeflag != tar.TypeReg {
			continue
		}
		if err := h.content(t, h.entries[i]); err != nil {
			return refuseEntry(h.entries[i].Name, op.CauseOf(err), "")
		}
	}
	return t.Close()
}

// content writes the content of a file. The kernel tells no size of files that it makes as they are
// read, in /proc for example: they cannot be sent.
func (h *hostSource) content(to io.Writer, e tar.Header) error {
	f, err := h.root.OpenFile(e.Name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil && e.Size == 0 {
		return nil // there is nothing to read
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return errors.Join(errOccupied, err)
	}
	if e.Size == 0 {
		if n, _ := f.Read(make([]byte, 1)); n > 0 {
			return errors.New("it has content, and its size is 0")
		}
		return nil
	}
	n, err := io.CopyN(to, f, e.Size)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("it has become smaller meanwhile, from %d to %d bytes", e.Size, n)
	}
	return err
}

// counting counts the bytes that are written.
type counting struct{ n int64 }

func (c *counting) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
