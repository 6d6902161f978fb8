package agent

import (
	"os"

	"golang.org/x/sys/unix"
)

// sealAll has a memory file keep its content. A process of the same user can
// open it once more by its name in /proc, and give itself the right to write to
// it, but the kernel lets nobody.
const sealAll = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL

// memoryFile makes a memory file and seals it. The one that is not sealed is for
// the standard input of commands, which is within reach of the session's other
// processes, like every stream of commands.
func memoryFile(name, content string, seals int) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = unix.Write(fd, []byte(content))
	if err == nil {
		err = unix.Fchmod(fd, 0o444)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// rewrite replaces the content of a memory file.
func rewrite(f *os.File, content []byte) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(content, 0)
	return err
}
