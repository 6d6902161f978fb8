package hostpath

import (
	"errors"
	"io/fs"
	"os"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
)

// LentName is the file in root's usual directory of state that lists, for every user
// of the host to read, which directories of other users root's sandboxes could ever
// change: the links that their commands made there belong to those users.
const LentName = "lent"

// readLent reads it for a user who is not root. Without one, or where this user cannot
// reach it, the error is fs.ErrNotExist.
func readLent() (*Written, error) {
	if os.Geteuid() == 0 {
		return nil, fs.ErrNotExist // it is a part of root's own list
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

// unlisted returns the list of a user for whom no sandbox was started yet: what root's
// could change. It is nil where that cannot be trusted.
func unlisted() *Written {
	w, err := readLent()
	if errors.Is(err, fs.ErrNotExist) {
		return &Written{}
	}
	return w
}

// lend puts on it what of these mounts belongs to other users, for a start by root,
// whose usual directory of state is given. That can be entered by all then; what else
// is in it stays private.
func lend(usual string, req backend.Request, mounts []Mount, dirs []entry) error {
	var lent []entry
	for _, d := range dirs {
		for _, m := range mounts {
			// A wrapper's commands may be root, and give what they make to anybody.
			if m.ID == d.Identity && (m.UID != 0 || req.Spec.Backend == policy.BackendWrapper) {
				lent = append(lent, d)
				break
			}
		}
	}
	if len(lent) == 0 {
		return nil
	}
	if err := remember(usual, LentName, 0o644, nil, lent); err != nil {
		return err
	}
	info, err := os.Stat(usual)
	if err == nil && info.Mode().Perm() != 0o711 {
		err = os.Chmod(usual, 0o711)
	}
	return err
}
