//go:build linux

package keep

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
)

// FirstOwn is above every number that a started program's descriptors get. The child moves
// them there before it executes the program, whose own descriptor must not be overwritten.
const FirstOwn = 16

// OpenProgram opens the program of the agent or of the egress process, so that an identity
// that cannot reach its path can still execute it. hint is for one that cannot be opened.
func OpenProgram(path, hint string) (*os.File, error) {
	opened, err := os.Open(path)
	if err != nil {
		return nil, backend.Failed("agent", "open", path, err, hint)
	}
	defer opened.Close()
	fd, err := unix.FcntlInt(opened.Fd(), unix.F_DUPFD_CLOEXEC, FirstOwn)
	if err != nil {
		return nil, backend.Failed("agent", "open", path, err, "")
	}
	f := os.NewFile(uintptr(fd), path)
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, backend.Failed("agent", "stat", path, err, "")
	}
	if info.Mode().Perm()&0o001 == 0 && os.Geteuid() == 0 {
		_ = f.Close()
		return nil, backend.Failed("agent", "execute", path, errors.New("its mode lets only its owner execute it, and sandboxes run under another id"), "chmod 755 "+path)
	}
	return f, nil
}

// File returns a file of its own for a descriptor.
func File(fd int) (*os.File, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(own), "fd"), nil
}

// FD returns a descriptor of its own for a file.
func FD(f *os.File) (int, error) { return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0) }
