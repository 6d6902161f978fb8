package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// RootState is where root keeps state unless another place is named. Packages may
// set it when they build, with -ldflags -X.
var RootState = "/var/lib/paddock"

// ErrNoHome is the error of [UsualState] where nothing says where a user's state is.
var ErrNoHome = errors.New("$HOME is not set to an absolute path")

// UsualState returns the directory of state where nobody has named one: for root
// [RootState], else $XDG_STATE_HOME/paddock, else ~/.local/state/paddock. There may
// be links in its path. Without a home the error is [ErrNoHome].
func UsualState() (string, error) {
	if os.Geteuid() == 0 {
		return RootState, nil
	}
	// The XDG specification tells programs to ignore a relative value.
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "paddock"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", ErrNoHome
	}
	return filepath.Join(home, ".local", "state", "paddock"), nil
}

// List returns what the list in a directory of state and that in the usual place say
// together, and for others than root what root's sandboxes could write of other users'
// directories. It is nil without a list, or where one of them cannot be trusted.
func List(state string) *Written {
	w, err := readLists(state)
	if err != nil {
		return nil
	}
	return w
}

// readLists is List with the error, fs.ErrNotExist where there is no list. A list
// that somebody has forged, by a link in the path to it, can only add to what is
// refused.
func readLists(state string) (*Written, error) {
	var all *Written
	if state != "" {
		w, err := ReadWritten(state)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		all = w
	}
	if usual, err := UsualState(); err == nil && usual != state {
		w, err := ReadWritten(usual)
		switch {
		case errors.Is(err, fs.ErrNotExist), unreachable(err):
		case err != nil:
			return nil, err
		case all == nil:
			all = w
		default:
			all.more = w
		}
	}
	if all == nil {
		return nil, fs.ErrNotExist
	}
	lent, err := readLent()
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	last := all
	for last.more != nil {
		last = last.more
	}
	last.more = lent
	return all, nil
}

// Unwritable reports whether an error says that this user can make nothing at a path,
// wherever there is room.
func Unwritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOENT)
}

// unreachable reports whether an error says that this user has nothing at a path.
func unreachable(err error) bool {
	for _, no := range []error{unix.EACCES, unix.ENOTDIR, unix.ELOOP} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// usualList finds the usual directory of state for the list of a start that uses
// another one. The error says why none can be kept there: the place cannot be made
// or written to, or commands of a sandbox could have chosen it.
func (s *Seen) usualList() (string, error) {
	usual, err := UsualState()
	if err != nil {
		return "", err
	}
	way, err := s.follow(usual)
	if err != nil {
		return "", err
	}
	list := s.list
	if list == nil {
		list = unlisted()
	}
	if err := list.Judge(way, nil); err != nil {
		return "", err
	}
	if way.Exists && !way.IsDir() {
		return "", &fs.PathError{Op: "write", Path: way.Path, Err: unix.ENOTDIR}
	}
	return way.Path, way.Writable()
}

// UsualList reports why starts that use this directory of state cannot keep their
// list in the usual one as well, nil where they can.
func UsualList(state string) error {
	_, err := NewSeen(List(state)).usualList()
	return err
}
