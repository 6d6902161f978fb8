//go:build !linux

package dirfd

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// EachName calls visit for each name in an open directory, with its type (DT_DIR, …),
// until visit returns false.
func EachName(dir int, visit func(name []byte, kind byte) bool) error {
	own, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(own), ".")
	defer f.Close()
	for {
		list, err := f.ReadDir(1024)
		for _, e := range list {
			kind := byte(unix.DT_UNKNOWN)
			switch e.Type() {
			case 0:
				kind = unix.DT_REG
			case fs.ModeDir:
				kind = unix.DT_DIR
			case fs.ModeSymlink:
				kind = unix.DT_LNK
			}
			if !visit([]byte(e.Name()), kind) {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// OpenBelow opens rel, a clean relative path, below an open directory; "" opens the
// directory itself. It follows no link.
func OpenBelow(dir int, rel string, flags int) (int, error) {
	if rel == "" {
		rel = "."
	}
	return OpenByName(dir, rel, flags)
}

// KeepsCtime reports whether unchanged times prove an unchanged directory.
func KeepsCtime(int) bool { return false }

// KeepsFileTimes reports whether unchanged times prove an unchanged file.
func KeepsFileTimes(int) bool { return false }
