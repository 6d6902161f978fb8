package dirfd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// nameBuffers are buffers for names. One has room for all names of most directories.
var nameBuffers = sync.Pool{New: func() any { return new([8 << 10]byte) }}

// EachName calls visit for each name in an open directory except "." and "..", with its
// type (DT_DIR, …; DT_UNKNOWN if the file system does not provide it), until visit returns
// false. A name is valid only within visit.
func EachName(dir int, visit func(name []byte, kind byte) bool) error {
	buf := nameBuffers.Get().(*[8 << 10]byte)
	defer nameBuffers.Put(buf)
	for {
		n, err := unix.Getdents(dir, buf[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || n <= 0:
			return err
		}
		if more, err := parseNames(buf[:n], visit); err != nil || !more {
			return err
		}
	}
}

var errNames = errors.New("the file system has answered with a malformed directory")

// parseNames reads the records of getdents64(2): inode (8 bytes), offset (8), length
// of the record (2), type (1), and a name that ends with NUL.
func parseNames(b []byte, visit func(name []byte, kind byte) bool) (more bool, err error) {
	const header = 19
	for len(b) > 0 {
		if len(b) < header {
			return false, errNames
		}
		length := int(binary.NativeEndian.Uint16(b[16:]))
		if length <= header || length > len(b) {
			return false, errNames
		}
		name := b[header:length]
		end := bytes.IndexByte(name, 0)
		if end <= 0 || bytes.IndexByte(name[:end], '/') >= 0 {
			return false, errNames
		}
		name = name[:end]
		if string(name) != "." && string(name) != ".." && !visit(name, b[18]) {
			return false, nil
		}
		b = b[length:]
	}
	return true, nil
}

// OpenBelow opens rel, a clean relative path, below an open directory; "" opens the
// directory itself. It follows no link.
func OpenBelow(dir int, rel string, flags int) (int, error) {
	if rel == "" {
		rel = "."
	}
	for tries := 0; ; tries++ {
		fd, err := unix.Openat2(dir, rel, &unix.OpenHow{Flags: uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC),
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN) && tries < 16:
			continue
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
			return OpenByName(dir, rel, flags) // the kernel, or a container's filter, does not have that call
		}
		return fd, err
	}
}

// KeepsCtime reports whether the file system of an open directory records each change of
// a directory in a time that no user can set. File systems that a server provides may
// take that time from the modification time, which anybody can set.
func KeepsCtime(dir int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(dir, &st) != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, 0x2fc12fc1 /* ZFS */ :
		return true
	}
	return KeepsFileTimes(dir)
}

// KeepsFileTimes reports whether the file system also records each change of a file's
// content in this way. Writes to a memory mapping are recorded only if the file system is
// asked before the first write to a page. tmpfs and ZFS are not, and an overlay may lie on
// them.
func KeepsFileTimes(dir int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(dir, &st) != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.BCACHEFS_SUPER_MAGIC:
		return true
	}
	return false
}
