package layer

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// dirMarks are the kernel's marks of a directory in an upper one.
type dirMarks struct {
	opaque   bool   // the source's directory of this path is hidden
	redirect string // where the source has this directory: from the root with "/", else in the same parent
	origin   []byte // the handle of the source's directory, of a renamed one
}

// attr reads one of the kernel's marks.
func (l *Layer) attr(fd int, path, name string) (value []byte, ok bool, err error) {
	prefix := "trusted.overlay."
	if l.Marks == UserMarks {
		prefix = "user.overlay."
	}
	buf := make([]byte, 256)
	for {
		n, err := unix.Fgetxattr(fd, prefix+name, buf)
		switch {
		case errors.Is(err, unix.ERANGE) && len(buf) < 64<<10:
			buf = make([]byte, 64<<10)
		case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP):
			return nil, false, nil
		case err != nil:
			return nil, false, l.upper().fail("read the marks at", path, err)
		default:
			return buf[:n], true, nil
		}
	}
}

// marks reads the marks of a directory, and rejects those that the kernel makes in no layer
// of this kind.
func (l *Layer) marks(fd int, path string) (m dirMarks, err error) {
	opaque, ok, err := l.attr(fd, path, "opaque")
	if err != nil {
		return m, err
	}
	if ok && string(opaque) != "y" {
		return m, &CorruptError{path, fmt.Sprintf("the mark opaque is %.16q", opaque)}
	}
	m.opaque = ok
	redirect, ok, err := l.attr(fd, path, "redirect")
	if err != nil {
		return m, err
	}
	switch {
	case path == "" && (ok || m.opaque):
		return m, &CorruptError{path, "the layer's own directory has a mark of the kernel"}
	case ok && l.Marks == UserMarks:
		return m, &CorruptError{path, "a directory is marked as renamed, which only root's overlays have"}
	case ok && !validRedirect(string(redirect)):
		return m, &CorruptError{path, fmt.Sprintf("the mark redirect is %.64q", redirect)}
	case !ok:
		return m, nil
	}
	m.redirect = string(redirect)
	m.origin, _, err = l.attr(fd, path, "origin")
	return m, err
}

func validRedirect(r string) bool {
	names := []string{r}
	if strings.HasPrefix(r, "/") {
		names = strings.Split(r[1:], "/")
	}
	for _, name := range names {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
			return false
		}
	}
	return true
}

// checkData rejects a file of which the layer holds the attributes alone. Each block of any
// other file was written to, or is a hole: such a file has fewer blocks than its size needs.
func (l *Layer) checkData(path string, e Entry) error {
	f, err := l.upper().openFile(path, e)
	if err != nil {
		return err
	}
	defer f.Close()
	_, ok, err := l.attr(int(f), path, "metacopy")
	if err == nil && ok {
		err = &CorruptError{path, "the file is marked as one without data of its own"}
	}
	return err
}

// originHeader is how many bytes of a mark come before the handle: version, magic, length, flags,
// type of the handle; id of the file system.
const originHeader = 5 + 16

// isOrigin reports whether an open file of the source is the one that a mark names. A
// file system without handles leaves no mark, and nothing to compare.
func isOrigin(dir int, mark []byte) bool {
	if len(mark) == 0 {
		return true
	}
	if len(mark) <= originHeader || mark[0] != 0 || mark[1] != 0xfb || int(mark[2]) != len(mark) {
		return false
	}
	h, _, err := unix.NameToHandleAt(dir, "", unix.AT_EMPTY_PATH)
	return err == nil && uint8(h.Type()) == mark[4] && bytes.Equal(h.Bytes(), mark[originHeader:])
}
