package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxWait bounds how long to wait for the lock.
const maxWait = 10 * time.Second

// dir is an open log directory.
type dir struct {
	path string
	root *os.Root
	lock *os.File // nil if nothing was written to the directory yet
}

// makeDir opens the log's directory for appending, and creates it if it is missing.
func makeDir(path string) (*dir, error) {
	if err := refuseLink(path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	for _, p := range []string{filepath.Dir(path), path} {
		if err := checkOwner(p); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	lock, err := root.OpenFile("lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return &dir{path: path, root: root, lock: lock}, nil
}

// openDir opens the log's directory for reading.
func openDir(path string) (*dir, error) {
	if err := refuseLink(path); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	lock, err := root.OpenFile("lock", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		_ = root.Close()
		return nil, err
	}
	return &dir{path: path, root: root, lock: lock}, nil
}

func (d *dir) close() {
	_ = d.root.Close()
	if d.lock != nil {
		_ = d.lock.Close()
	}
}

// refuseLink returns an error if the log's directory is a symbolic link: it may lead to
// where commands can write.
func refuseLink(path string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s is a symbolic link", path)
	}
	return nil
}

// checkOwner returns an error for a directory that others could change.
func checkOwner(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to uid %d", path, st.Uid)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("others can write to %s", path)
	}
	return nil
}

// hold takes the lock, exclusive or shared, until unlock is called. It polls, because
// flock(2) has no deadline.
func (d *dir) hold(ctx context.Context, how int) (unlock func(), err error) {
	if d.lock == nil {
		return func() {}, nil
	}
	fd := int(d.lock.Fd())
	deadline := time.Now().Add(maxWait)
	for wait := 50 * time.Microsecond; ; wait = min(2*wait, 5*time.Millisecond) {
		err := syscall.Flock(fd, how|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = syscall.Flock(fd, syscall.LOCK_UN) }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, fmt.Errorf("cannot lock the log: %w", err)
		}
		if time.Now().After(deadline) {
			return nil, errors.New("cannot lock the log: another process holds the lock")
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// numbers returns the numbers of the log's files, in order.
func (d *dir) numbers() ([]int, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, name := range names {
		if n, ok := numberOf(name); ok {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}

// open opens a file for reading. It does not block on a pipe, and refuses everything but a
// regular file.
func (d *dir) open(name string) (*os.File, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New(name + " is not a regular file")
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func fileName(n int) string { return fmt.Sprintf("audit-%08d.jsonl", n) }

func numberOf(name string) (int, bool) {
	text, ok := strings.CutSuffix(strings.TrimPrefix(name, "audit-"), ".jsonl")
	n, err := strconv.Atoi(text)
	return n, ok && err == nil && n > 0 && fileName(n) == name
}

// syncDir syncs the directory, so that new and removed names survive a crash.
func (d *dir) syncDir() error {
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return f.Sync()
}
