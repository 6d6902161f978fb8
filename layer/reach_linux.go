package layer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/layer/delta"
)

// Bounds of one call to the kernel, and of one walk through a tree.
const (
	maxStep = 3000    // bytes of a path; the kernel takes less than PATH_MAX
	maxSeen = 1 << 21 // names in a tree
)

// TooManyError is the error of a tree with more names than are looked at.
type TooManyError struct{ Path string }

// Error names the tree.
func (e *TooManyError) Error() string {
	return "there are too many files in " + text.QuoteName(e.Path) + " to look at"
}

// reach opens rel below a directory, without following a link or leaving the file system.
// "" is the directory itself. A path of any length is taken.
func reach(dir int, rel string, flags int) (int, error) {
	at, own := dir, false
	for {
		step, rest := rel, ""
		if len(rel) > maxStep {
			cut := strings.LastIndexByte(rel[:maxStep], '/')
			if cut < 0 {
				return -1, unix.ENAMETOOLONG
			}
			step, rest = rel[:cut], rel[cut+1:]
		}
		how := flags
		if rest != "" {
			how = unix.O_PATH | unix.O_DIRECTORY
		}
		next, err := openBeneath(at, step, uint64(how))
		if own {
			_ = unix.Close(at)
		}
		if err != nil || rest == "" {
			return next, err
		}
		at, own, rel = next, true, rest
	}
}

// look describes what is at a path, of which no link is followed.
func look(dir int, rel string) (st unix.Stat_t, err error) {
	if rel == "" {
		err = unix.Fstat(dir, &st)
		return st, err
	}
	parent, name := delta.Split(rel)
	fd, err := reach(dir, parent, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return st, err
	}
	defer func() { _ = unix.Close(fd) }()
	err = unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// linkAt returns the target of a link.
func linkAt(dir int, rel string) (string, error) {
	parent, name := delta.Split(rel)
	fd, err := reach(dir, parent, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	buf := make([]byte, unix.PathMax+1)
	n, err := unix.Readlinkat(fd, name, buf)
	return string(buf[:max(n, 0)]), err
}

// openFile opens a regular file for reading. What else is there is not opened.
func openFile(dir int, rel string) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := reach(dir, rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, st, err
	}
	err = unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, st, err
	}
	return os.NewFile(uintptr(fd), path.Base(rel)), st, nil
}

// names lists a directory below another.
func names(dir int, rel string) ([]string, error) {
	fd, err := reach(dir, rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	list, err := f.Readdirnames(maxSeen + 1)
	if len(list) > maxSeen {
		return nil, &TooManyError{rel}
	}
	if len(list) > 0 || errors.Is(err, io.EOF) {
		err = nil
	}
	slices.Sort(list)
	return list, err
}

// walkTree visits what is at a path and everything below it, a directory before what is in it.
// It goes no deeper where visit says so with fs.SkipDir. It holds one descriptor at a time.
func walkTree(ctx context.Context, dir int, top string, visit func(rel string, st *unix.Stat_t) error) error {
	stack, seen := []string{top}, 0
	for len(stack) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		rel := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen++; seen > maxSeen {
			return &TooManyError{top}
		}
		st, err := look(dir, rel)
		if err == nil {
			err = visit(rel, &st)
		}
		if errors.Is(err, fs.SkipDir) {
			continue
		}
		if err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		below, err := names(dir, rel)
		if err != nil {
			return &fs.PathError{Op: "look into", Path: text.QuoteName(rel), Err: err}
		}
		for _, name := range slices.Backward(below) {
			stack = append(stack, delta.Join(rel, name))
		}
	}
	return nil
}

// inherited finds what the nearest of a path's directories has. It takes each directory's parent
// once, because paths can have thousands of names.
type inherited[T any] struct{ own, found map[string]T }

func newInherited[T any]() inherited[T] { return inherited[T]{map[string]T{}, map[string]T{}} }

// above returns what the nearest directory above a path has.
func (i inherited[T]) above(p string) (v T) {
	dir, _ := delta.Split(p)
	if dir == "" {
		return v
	}
	v, there := i.own[dir]
	if !there {
		if v, there = i.found[dir]; !there {
			v = i.above(dir)
			i.found[dir] = v
		}
	}
	return v
}

// born returns when a file was made, in nanoseconds since 1970, or 0 if its file system does not
// say.
func born(fd int) (int64, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st); err != nil {
		return 0, err
	}
	if st.Mask&unix.STATX_BTIME == 0 {
		return 0, nil
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec), nil
}
