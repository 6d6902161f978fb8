package agent

import (
	"os"

	"golang.org/x/sys/unix"
)

const sealAll = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL

// newMemory makes a memory file, sealed by nothing yet.
func newMemory(name string) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	return fd, os.NewSyscallError("memfd_create", err)
}

// sealedFile makes a memory file that keeps its content: a process of the same
// user can open it once more by its name in /proc, and give itself the right to
// write to it, but the kernel lets nobody.
func sealedFile(name, content string) (int, error) {
	fd, err := newMemory(name)
	if err != nil {
		return -1, err
	}
	if _, err = unix.Write(fd, []byte(content)); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sealAll)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// memoryFile makes a memory file for the standard input of commands. Like every
// stream of theirs it is within reach of the session's other processes.
func memoryFile(name string) (*os.File, error) {
	fd, err := newMemory(name)
	if err != nil {
		return nil, err
	}
	if err := unix.Fchmod(fd, 0o444); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// rewrite replaces the content of a memory file.
func rewrite(f *os.File, content []byte) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(content, 0)
	return err
}
