package privilege

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"
)

const (
	// maxFile bounds the file, in bytes: room for [MaxPrincipals] of the
	// longest names.
	maxFile = 16 << 20
	// fileVersion is of the format.
	fileVersion = 1
	// settled is how long a file must have been as it is before what was read
	// is believed of it without reading again: times of files have the grain of
	// the kernel's clock, 10 ms at most, and a change in place within one grain
	// would not show.
	settled = 50 * time.Millisecond
)

// snapshot is what was read from the file.
type snapshot struct {
	grants map[string]Set
	// file is open for as long as the snapshot is used, so that no other file
	// can get its number. nil where there was none.
	file *os.File
	info fs.FileInfo
	// certain says that the file was settled when it was read.
	certain bool
}

// mode is that of the file that takes the place of this one.
func (s *snapshot) mode() fs.FileMode {
	if s.info == nil {
		return 0o600
	}
	return s.info.Mode().Perm()
}

// same says whether the file on disk is the one that was read.
func (s *snapshot) same(now fs.FileInfo) bool {
	return s.certain && os.SameFile(s.info, now) && s.info.Mode() == now.Mode() && ownerOf(s.info) == ownerOf(now) &&
		s.info.Size() == now.Size() && s.info.ModTime().Equal(now.ModTime())
}

// brokenError is something that is not as it must be.
type brokenError struct{ reason, hint string }

func (e *brokenError) Error() string { return e.reason }

// read gives what the file holds now. It looks at the file each time, and
// reads it where it is not the one that was read before.
func (f *File) read() (*snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.readLocked()
	if err != nil {
		f.forget()
		return nil, f.unavailable(err)
	}
	return s, nil
}

func (f *File) readLocked() (*snapshot, error) {
	dir, err := os.OpenRoot(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return &snapshot{grants: map[string]Set{}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	info, err := dir.Lstat(f.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.forget()
		return &snapshot{grants: map[string]Set{}}, nil
	case err != nil:
		return nil, err
	case f.cache != nil && f.cache.same(info):
		return f.cache, nil
	}
	s, err := load(dir, f.name)
	if err != nil {
		return nil, err
	}
	f.forget()
	f.cache = s
	return s, nil
}

// forget drops the snapshot. f.mu is held.
func (f *File) forget() {
	if f.cache != nil && f.cache.file != nil {
		_ = f.cache.file.Close() // nothing was written
	}
	f.cache = nil
}

func load(dir *os.Root, name string) (_ *snapshot, err error) {
	file, info, err := openOwn(dir, name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = file.Close() // nothing was written
		}
	}()
	began := time.Now()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	grants, err := parse(data)
	if err != nil {
		return nil, &brokenError{err.Error(), "put a good copy into its place, or remove it: then nobody holds anything"}
	}
	return &snapshot{grants: grants, file: file, info: info, certain: began.Sub(info.ModTime()) > settled}, nil
}

// openOwn opens a file that only its owner can have made and changed. Nobody
// else can put a link into its place after the look: nobody else may write to
// the directory.
func openOwn(dir *os.Root, name string, flags int) (*os.File, fs.FileInfo, error) {
	if info, err := dir.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, nil, &brokenError{name + " is a symbolic link", "name the file itself"}
	}
	// O_NONBLOCK: a pipe in its place must not hold anybody up.
	file, err := dir.OpenFile(name, flags|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil {
		err = checkFile(info)
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, nil, err
	}
	return file, info, nil
}

func checkDir(dir *os.Root) error {
	info, err := dir.Stat(".")
	if err != nil {
		return err
	}
	return checkOwner("its directory", info)
}

func checkFile(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return &brokenError{"it is no regular file", ""}
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Nlink > 1 {
		return &brokenError{"it has a second name (a hard link)", "remove the other name"}
	}
	return checkOwner("it", info)
}

// checkOwner refuses what somebody else than the caller and root may change.
func checkOwner(what string, info fs.FileInfo) error {
	if uid := ownerOf(info); uid != 0 && uid != os.Geteuid() {
		return &brokenError{fmt.Sprintf("%s belongs to another user (uid %d)", what, uid), "use a file of your own, or one of root's"}
	}
	if info.Mode().Perm()&0o022 != 0 {
		return &brokenError{fmt.Sprintf("others may write to %s (mode %04o)", what, info.Mode().Perm()), "take that away: chmod go-w"}
	}
	return nil
}

func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}

// parse reads the file's text. Whatever is not as [File] says is an error, a
// name that is there twice included: the two could say different things.
func parse(data []byte) (map[string]Set, error) {
	if len(data) > maxFile {
		return nil, errors.New("it is larger than " + strconv.Itoa(maxFile>>20) + " MiB")
	}
	var doc struct {
		Version    int        `json:"version"`
		Principals grantTable `json:"principals"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("it is not what Paddock writes: %v", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is not what Paddock writes: something follows the object")
	}
	if doc.Version != fileVersion {
		return nil, fmt.Errorf("its version is %d, and this Paddock knows %d", doc.Version, fileVersion)
	}
	if doc.Principals == nil {
		return nil, errors.New("it is not what Paddock writes: principals are missing")
	}
	return doc.Principals, nil
}

// grantTable is the list of principals, read strictly.
type grantTable map[string]Set

// UnmarshalJSON reads it name by name.
func (g *grantTable) UnmarshalJSON(data []byte) error {
	if *g != nil {
		return errors.New("principals are there twice")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return errors.New("principals must be an object")
	}
	*g = grantTable{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		value, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string) // of an object it is nothing else
		mask, ok := value.(string)
		if !ok {
			return errors.New("a mask must be a text")
		}
		if err := g.add(name, mask); err != nil {
			return err
		}
	}
	return nil
}

func (g grantTable) add(name, mask string) error {
	set, err := ParseMask(mask)
	if err := errors.Join(CheckName(name), err); err != nil {
		return err
	}
	if _, again := g[name]; again {
		return errors.New(quote(name) + " is there twice")
	}
	if len(g) == MaxPrincipals {
		return fmt.Errorf("there are more than %d principals", MaxPrincipals)
	}
	g[name] = set
	return nil
}
