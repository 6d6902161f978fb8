package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/beneath"
)

// openWorkspace opens the workspace, and makes it where there is none. It may
// be anybody's: what is in it is the clients'.
func openWorkspace(path string) (beneath.Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return beneath.Dir{}, fmt.Errorf("cannot make the workspace: %w", err)
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return beneath.Dir{}, rootError(path, err)
	}
	return beneath.FromFD(fd), nil
}

// openState opens a directory that only the agent uses, and makes it where
// there is none. What somebody else made could be watched, or changed.
func openState(path string) (beneath.Dir, error) {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.Mkdir(path, 0o700)
	}
	if err != nil && !os.IsExist(err) {
		return beneath.Dir{}, hinted{fmt.Errorf("cannot make %s: %w", path, err), rootHint}
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
		err = fmt.Errorf("it is no directory of its own (a symbolic link is none)")
	}
	return hinted{fmt.Errorf("cannot use %s: %w", path, err), rootHint}
}

const rootHint = "name another directory: --workspace, --shell-root, --service-root and --secret-root; " +
	"without these an ordinary user's agent keeps its state below $XDG_RUNTIME_DIR where that is set"
