// Package project reads the project's file of a workspace (.paddock.yaml), and keeps which of
// them the user trusts.
//
//	file, err := project.Read(state, dir) // once: these bytes are compared, shown and parsed
//	store, err := project.Open(state)
//	trusted, err := store.Find(file.Dir)
//	if trusted.Same(file) { … }
//
// The file is the word of whoever wrote the repository, or of commands that ran in the
// workspace before. What it may say is decided by policy/specfile.
package project

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy/specfile"
)

// File is a project's file as it was read.
type File struct {
	Dir  string // the workspace, free of symbolic links
	Text []byte

	inode uint64 // of Dir
	born  int64  // when Dir was made, in nanoseconds since 1970; 0: unknown
}

// UnfitError is the error of a project's file that exists and cannot be used.
type UnfitError struct{ Path, Reason, Hint string }

// Error returns the path and the reason.
func (e *UnfitError) Error() string { return "cannot use " + e.Path + ": " + e.Reason }

// Remedy returns what to do about it.
func (e *UnfitError) Remedy() string { return e.Hint }

// Path returns the path of the file.
func (f *File) Path() string { return filepath.Join(f.Dir, specfile.ProjectName) }

// Sum returns the file's SHA-256, in hexadecimal digits.
func (f *File) Sum() string {
	sum := sha256.Sum256(f.Text)
	return hex.EncodeToString(sum[:])
}

// Exists reports whether a directory has something with the name of a project's file. It is
// quick, for directories without one.
func Exists(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, specfile.ProjectName))
	return err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR)
}

// Locate returns the path of a directory without symbolic links. It refuses links that
// commands of a sandbox could have made, by the list in the state directory.
func Locate(state, dir string) (*hostpath.Way, error) {
	abs, err := hostpath.Abs(dir)
	if err != nil {
		return nil, err
	}
	way, err := hostpath.Locate(state, abs)
	switch {
	case err != nil:
		return nil, err
	case !way.Exists:
		return nil, &fs.PathError{Op: "open", Path: dir, Err: unix.ENOENT}
	case !way.IsDir():
		return nil, &fs.PathError{Op: "open", Path: dir, Err: unix.ENOTDIR}
	}
	return way, nil
}

// PathOf returns the path that a directory has in the list of trusted files, also of one that
// does not exist any more.
func PathOf(state, dir string) (string, error) {
	way, err := Locate(state, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return hostpath.Abs(dir)
	}
	if err != nil {
		return "", err
	}
	return way.Path, nil
}

// IsDir reports whether a directory exists at a path.
func IsDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Read reads the project's file of a directory, once. It follows no link, waits for no FIFO,
// and refuses what does not belong to the caller or root ([*UnfitError]). If there is no file,
// the error is fs.ErrNotExist.
func Read(state, dir string) (*File, error) {
	way, err := Locate(state, dir)
	if err != nil {
		return nil, err
	}
	file := &File{Dir: way.Path, inode: way.Ino, born: way.Born}
	unfit := func(reason, hint string) (*File, error) { return nil, &UnfitError{file.Path(), reason, hint} }
	f, err := hostpath.OpenRegular(way.Path, specfile.ProjectName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case errors.Is(err, unix.ELOOP):
		return unfit("it is a symbolic link", "put the file itself in its place")
	case errors.Is(err, hostpath.ErrNotRegular):
		return unfit("it is not a regular file", "remove it")
	case err != nil:
		return unfit(hostpath.Reason(err), "")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return unfit(hostpath.Reason(err), "")
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return unfit(fmt.Sprintf("it belongs to another user (uid %d)", stat.Uid), "look at it, and make it your own: chown")
	}
	if file.Text, err = io.ReadAll(io.LimitReader(f, specfile.MaxProject+1)); err != nil {
		return unfit(hostpath.Reason(err), "")
	}
	if len(file.Text) > specfile.MaxProject {
		return unfit("it is larger than 16KiB", "keep what a sandbox needs")
	}
	return file, nil
}

// Lines returns the lines of the text.
func (f *File) Lines() []string {
	return strings.Split(strings.TrimSuffix(string(bytes.ReplaceAll(f.Text, []byte("\r\n"), []byte("\n"))), "\n"), "\n")
}
