package hostpath

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Planting is a path of a workspace that commands may make, with those it
// needs to matter.
type Planting struct {
	Path string
	With []string
	Was  string // its fingerprint at the start, where it could not be protected
}

// Happened reports whether commands have made or changed it.
func (p Planting) Happened(dir string) bool {
	return p.In(dir) && (p.Was == "" || p.Was != Fingerprint(filepath.Join(dir, p.Path)))
}

// In reports whether a directory has all of it.
func (p Planting) In(dir string) bool {
	return exists(filepath.Join(dir, p.Path)) &&
		!slices.ContainsFunc(p.With, func(other string) bool { return !exists(filepath.Join(dir, other)) })
}

// Fingerprint tells whether a path, or anything at most 10,000 entries into
// it, was changed: no ordinary user can set the time that the kernel notes for
// a change. It is empty where there is nothing.
func Fingerprint(path string) string {
	sum := fnv.New64a()
	seen := 0
	_ = filepath.WalkDir(path, func(at string, _ fs.DirEntry, err error) error {
		if seen++; seen > 10_000 {
			return fs.SkipAll
		}
		var st unix.Stat_t
		if err == nil && unix.Lstat(at, &st) == nil {
			fmt.Fprintln(sum, at, st.Ino, st.Ctim.Nano())
		}
		return nil
	})
	if !exists(path) {
		return ""
	}
	return strconv.FormatUint(sum.Sum64(), 16)
}

// FirstLink names the first component of a path below root that is a symbolic
// link, "" where none is. The error is fs.ErrNotExist where there is no such path.
func FirstLink(root, rel string) (string, error) {
	at := ""
	for _, part := range strings.Split(rel, "/") {
		at = path.Join(at, part)
		info, err := os.Lstat(filepath.Join(root, at))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || Reason(err) == "not a directory" {
				return "", fs.ErrNotExist
			}
			return "", err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return at, nil
		}
	}
	return "", nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
