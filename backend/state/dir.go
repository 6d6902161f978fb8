//go:build linux

package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
)

// The directories in Paddock's state directory that only Paddock makes.
const (
	sandboxesDir = "sandboxes"
	IDsDir       = "ids"
	HomesDir     = "codex"
)

// maxRecord is the largest size of a record, in bytes.
const maxRecord = 1 << 20

// OpenDir opens a directory in Paddock's state so that names in it can be removed safely:
// the caller owns it, nobody else can write to it, and it is not a link. The error is
// fs.ErrNotExist if the directory is missing, else a *backend.StartError with a hint.
func OpenDir(root, name string) (*os.Root, error) {
	path := filepath.Join(root, name)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		why := errors.New("it is not a directory")
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			why = errors.New("it is a symbolic link")
		}
		return nil, fail("use", path, why, "look at it, and remove it (rm "+path+"), or "+elsewhere)
	}
	if err != nil {
		return nil, fail("open", path, err, "chmod u+rwx "+path+", or "+elsewhere)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fail("stat", path, err, "")
	}
	switch {
	case int(st.Uid) != os.Geteuid():
		return nil, fail("use", path, fmt.Errorf("it belongs to uid %d", st.Uid), elsewhere)
	case st.Mode&0o022 != 0:
		return nil, fail("use", path, errors.New("others can write to it"), "look at it, and chmod go-w "+path+", or "+elsewhere)
	}
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// Check refuses a state directory with a directory in it that [OpenDir] refuses, the
// audit log's included: what lies behind a link would not be covered.
func Check(root string) error {
	for _, name := range []string{sandboxesDir, IDsDir, HomesDir, unreportedDir, "audit"} {
		dir, err := OpenDir(root, name)
		if err == nil {
			_ = dir.Close()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Names returns the names in a directory.
func Names(dir *os.Root) []string {
	f, err := dir.Open(".")
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}

// paths returns the directories of sandboxes below root.
func paths(root string) []string {
	dir, err := OpenDir(root, sandboxesDir)
	if err != nil {
		return nil // New refuses
	}
	defer dir.Close()
	var all []string
	for _, name := range Names(dir) {
		if isID(name) {
			all = append(all, filepath.Join(root, sandboxesDir, name))
		}
	}
	return all
}

// Text returns the text of a sandbox's record, of 1 MiB at most. It follows no link and
// does not wait for a FIFO's writer.
func Text(path string) ([]byte, error) {
	dir, id := filepath.Split(path)
	root, name := filepath.Split(filepath.Clean(dir))
	return hostpath.Read(context.Background(), root, filepath.Join(name, id, recordName), maxRecord)
}

// Records returns the texts of the records of all sandboxes below root.
func Records(root string) [][]byte {
	var all [][]byte
	for _, path := range paths(root) {
		text, _ := Text(path) // the sandbox may have ended meanwhile
		all = append(all, text)
	}
	return all
}

// halfMade reports whether a directory holds only what a sandbox may have before its
// record is written, or after the record was removed.
func halfMade(path string) bool {
	dir, err := OpenDir(filepath.Split(path))
	if err != nil {
		return false
	}
	defer dir.Close()
	for _, name := range Names(dir) {
		info, err := dir.Lstat(name)
		switch {
		case err != nil:
			return false
		case name == lockName && info.Mode().IsRegular() && info.Size() == 0:
		case !slices.Contains([]string{SocketName, LogName, recordName + ".new", ScratchName, "spec.json", "tried", "orphaned"}, name):
			return false
		}
	}
	return true
}
