package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
)

// RootState is root's usual state directory. Distributions may set another one when they
// build, with -ldflags -X.
var RootState = "/var/lib/paddock"

// ErrNoHome is the error of [UsualState] if the user has no known home.
var ErrNoHome = errors.New("$HOME is not set to an absolute path")

// UsualState returns the state directory that is used if none is named: for root
// [RootState], for others $XDG_STATE_HOME/paddock, else ~/.local/state/paddock. Its path
// may have links. Without a home the error is [ErrNoHome].
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

// List returns the lists in a state directory and in the usual one together and, for users
// other than root, the list of what root's sandboxes could write in other users'
// directories. It returns nil if there is no list, or if one of them cannot be trusted.
func List(state string) *Written {
	w, err := readLists(state)
	if err != nil {
		return nil
	}
	return w
}

// readLists is like List, but also returns the error, which is fs.ErrNotExist if there is no
// list. An attacker can forge a list with a link in the path to it, but that only makes
// Paddock refuse more.
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

// Unwritable reports whether an error means that this user cannot make anything at a path,
// even if there is room.
func Unwritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOENT)
}

// unreachable reports whether an error means that this user can have nothing at a path.
func unreachable(err error) bool {
	for _, no := range []error{unix.EACCES, unix.ENOTDIR, unix.ELOOP} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// usualList returns the usual state directory, for the list of a start that uses another
// one. The error says why no list can be stored there: the directory cannot be made or
// written to, or commands of a sandbox could have chosen it.
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

// UsualList returns why starts that use this state directory cannot also keep their list
// in the usual one, or nil if they can.
func UsualList(state string) error {
	_, err := NewSeen(List(state)).usualList()
	return err
}

// OwnUsual returns the usual state directory for a process that uses this one, if what is recorded
// there can be believed, and something can be recorded: it is this user's own, and no command of a
// sandbox could have chosen it. It may not exist yet. The error says why not.
func OwnUsual(state string) (string, error) {
	if usual, err := UsualState(); err == nil && Real(usual) == state {
		return state, nil
	}
	s := NewSeen(List(state))
	usual, err := s.usualList()
	if err != nil {
		return "", err
	}
	way, err := s.follow(usual)
	if err == nil {
		err = way.ofOwner(backend.OwnFile{Path: usual, What: "the usual state directory", Dir: true})
	}
	return usual, err
}

// LentName is the file in root's usual state directory that lists which directories of
// other users root's sandboxes could ever change. Every user of the host can read it: the
// links that commands made in these directories belong to those users.
const LentName = "lent"

// readLent reads that list for a user who is not root. If it does not exist, or this user
// cannot reach it, the error is fs.ErrNotExist.
func readLent() (*Written, error) {
	if os.Geteuid() == 0 {
		return nil, fs.ErrNotExist // root's own list has all of it
	}
	dir := Real(RootState)
	if dir == "" {
		return nil, fs.ErrNotExist
	}
	w, err := readList(dir, LentName, func(uid uint32) bool { return uid == 0 || uid == nobody && nobodyUnmapped() })
	if unreachable(err) {
		err = fs.ErrNotExist
	}
	return w, err
}

// unlisted returns the list of a user who has never started a sandbox: directories that root's
// sandboxes could change. It returns nil if that list cannot be trusted.
func unlisted() *Written {
	w, err := readLent()
	if errors.Is(err, fs.ErrNotExist) {
		return &Written{}
	}
	return w
}

// openLent makes root's usual state directory accessible to everybody, for the file lent; its other
// content stays private.
func openLent(usual string) error {
	info, err := os.Stat(usual)
	if err == nil && info.Mode().Perm() != 0o711 {
		err = os.Chmod(usual, 0o711)
	}
	return err
}
