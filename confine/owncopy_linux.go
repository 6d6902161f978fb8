package confine

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxOwnCopy bounds the files of which commands get a copy, in bytes.
const maxOwnCopy = 1 << 20

// ownCopy mounts a symbolic link over a file, which leads to a copy of it. Programs
// that replace a file by renaming, as git does with its configuration, follow the
// link first and so replace the copy: a mounted file they could not replace (EBUSY).
// The link itself is a mount point, which nobody can rename or remove.
func (a *Applier) ownCopy(s *Step) error {
	at, err := openInside(s.Target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := a.copyFile(s); err != nil {
		return err
	}
	link := relative(s.Source) + OwnCopyLink
	if err := unix.Symlink(s.Source, link); err != nil {
		return err
	}
	defer func() { _ = unix.Unlink(link) }() // the mount keeps it
	tree, err := unix.OpenTree(unix.AT_FDCWD, link, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := setAttrs(tree, mountAttrs(s.Flags)); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// copyFile makes the copy, once.
func (a *Applier) copyFile(s *Step) error {
	text := s.Data
	if len(text) == 0 {
		var err error
		if text, err = readInside(s.Target); err != nil {
			return err
		}
	}
	err := a.makeFile(&Step{Target: s.Source, Mode: 0o644, Data: text})
	switch {
	case errors.Is(err, unix.EEXIST): // two mounts show the file
		return nil
	case err != nil:
		_ = unix.Unlink(relative(s.Source))
	}
	return err
}

// readInside reads a regular file of the new root.
func readInside(target string) ([]byte, error) {
	fd, err := openBeneath(target, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY) // it never waits for the writer of a FIFO
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), target)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxOwnCopy {
		return nil, fmt.Errorf("%s is not a regular file of at most %d bytes", target, maxOwnCopy)
	}
	return io.ReadAll(io.LimitReader(f, maxOwnCopy))
}
