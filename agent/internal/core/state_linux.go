package core

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/confine"
)

// StateDir is a directory for the state of shells or services, which only the
// agent uses. It is opened when it is first needed.
type StateDir func() (beneath.Dir, error)

// Dir returns the directory, or None if it cannot be opened: shells and services also
// work without it.
func (d StateDir) Dir() beneath.Dir {
	dir, err := d()
	if err != nil {
		return beneath.None
	}
	return dir
}

// StateAt returns a directory that is open already.
func StateAt(dir beneath.Dir) StateDir {
	return func() (beneath.Dir, error) { return dir, nil }
}

// OpenOnce opens a directory when it is first needed.
func OpenOnce(path string) StateDir {
	return sync.OnceValues(func() (beneath.Dir, error) { return beneath.Open(path) })
}

// maxState bounds the file system of the agent's own state inside walls.
const maxState = 256 << 20

// HiddenState makes directories in a file system that is mounted nowhere inside the
// walls: commands have the agent's identity there, and could open it by a path.
func HiddenState(names ...string) []StateDir {
	root := sync.OnceValues(func() (beneath.Dir, error) {
		fd, err := confine.DetachedTmpfs(maxState)
		if err != nil {
			return beneath.None, fmt.Errorf("cannot make a place for state: %w", err)
		}
		return beneath.FromFD(fd), nil
	})
	dirs := make([]StateDir, len(names))
	for i, name := range names {
		dirs[i] = sync.OnceValues(func() (beneath.Dir, error) {
			at, err := root()
			if err != nil {
				return at, err
			}
			return at.MakeAll([]string{name}, 0o700, nil)
		})
	}
	return dirs
}

// StateBelow makes directories below one of the host's that commands cannot reach.
func StateBelow(dir string, names ...string) []StateDir {
	dirs := make([]StateDir, len(names))
	for i, name := range names {
		dirs[i] = sync.OnceValues(func() (beneath.Dir, error) { return OpenState(filepath.Join(dir, name)) })
	}
	return dirs
}

// StateName reports whether a name is [A-Za-z0-9][A-Za-z0-9._-]{0,63}, and so can be
// part of a file's name.
func StateName(name string) bool {
	for i, c := range []byte(name) {
		plain := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		if !plain && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// StatePrefix begins the name of a file that is being written.
const StatePrefix = ".new-"

// SaveState replaces a small file atomically.
func SaveState(at StateDir, name string, text []byte) error {
	dir, err := at()
	if err != nil {
		return err
	}
	temp := HiddenName(StatePrefix)
	f, err := dir.OpenFile(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = unix.Renameat(dir.FD(), temp, dir.FD(), name)
	}
	if err != nil {
		_ = unix.Unlinkat(dir.FD(), temp, 0)
	}
	return err
}

// OpenWorkspace opens the workspace, and makes it if it is missing. Any user may
// own it, since its content belongs to the clients.
func OpenWorkspace(path string) (beneath.Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return beneath.Dir{}, fmt.Errorf("cannot make the workspace: %w", err)
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return beneath.Dir{}, rootError(path, err)
	}
	return beneath.FromFD(fd), nil
}

// OpenState opens a directory that only the agent uses, and makes it if it is
// missing. It refuses one of another user, who could watch or change it.
func OpenState(path string) (beneath.Dir, error) {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.Mkdir(path, 0o700)
	}
	if err != nil && !os.IsExist(err) {
		return beneath.Dir{}, WithHint(fmt.Errorf("cannot make %s: %w", path, err), rootHint)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return beneath.Dir{}, rootError(path, err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && int(st.Uid) != os.Geteuid() {
		err = fmt.Errorf("it belongs to uid %d", st.Uid)
	}
	if err == nil && st.Mode&0o777 != 0o700 {
		err = unix.Fchmod(fd, 0o700)
	}
	if err != nil {
		unix.Close(fd)
		return beneath.Dir{}, rootError(path, err)
	}
	return beneath.FromFD(fd), nil
}

func rootError(path string, err error) error {
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		err = fmt.Errorf("not a directory (a symbolic link is not followed)")
	}
	return WithHint(fmt.Errorf("cannot use %s: %w", path, err), rootHint)
}

const rootHint = "name another directory: --workspace, --shell-root, --service-root and --secret-root; " +
	"without these an ordinary user's agent keeps its state below $XDG_RUNTIME_DIR where that is set"

// HiddenName returns a unique name for a file that is being made.
func HiddenName(prefix string) string { return prefix + rand.Text() }

// NamesAtOnce is how many names of a directory are read at a time.
const NamesAtOnce = 1024
