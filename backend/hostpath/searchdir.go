package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
)

// SearchDir returns the directory to which an entry of the caller's PATH leads, free
// of symbolic links. It is an error where it lies in the workspace, and where commands
// of this request's sandbox, or of any that was ever started, could put programs into
// it or make a link on the way there.
func SearchDir(req backend.Request, dir string) (string, error) {
	way, err := Follow(dir)
	if err != nil {
		return "", errors.New(Reason(err))
	}
	mounts, err := Mounts(req, policy.WorkspacePath)
	if err != nil {
		return "", err
	}
	list := seenBy(req).list
	if list == nil { // this start may be the first that tells one
		if list, err = readLists(req.StateDir); errors.Is(err, fs.ErrNotExist) {
			list = &Written{}
		} else if err != nil {
			return "", fmt.Errorf("what sandboxes could write is not known: %w", err)
		}
	}
	switch {
	case !way.Exists:
		return "", errors.New("it does not exist")
	case !way.IsDir():
		return "", errors.New("it is not a directory")
	}
	ways, err := otherWays(seenBy(req).host(), way)
	if err != nil {
		return "", err
	}
	for _, w := range ways {
		if err := w.searchable(list, mounts); err != nil {
			return "", err
		}
	}
	if err := list.Judge(way, writable(mounts)); err != nil {
		return "", err
	}
	return way.Path, nil
}

// otherWays returns a way to a directory, those to the programs that are mounted in it, and
// those by which the host reaches any of these, too, since a part of a directory is mounted
// there: of a mount the kernel does not tell what lies above.
func otherWays(all map[string]mounted, way *Way) ([]*Way, error) {
	var paths []string
	for at := range all {
		if path.Dir(at) == way.Path && at != way.Path {
			paths = append(paths, at)
		}
	}
	slices.Sort(paths)
	ways := []*Way{way}
	follow := func(paths []string) error {
		for _, at := range paths {
			w, err := Follow(at)
			if err != nil {
				return fmt.Errorf("what is mounted there cannot be looked at: %s: %s", at, Reason(err))
			}
			if w.Exists && (!w.IsDir() || path.Dir(at) != way.Path) { // no program
				ways = append(ways, w)
			}
		}
		return nil
	}
	err := follow(paths)
	for _, w := range slices.Clone(ways) {
		err = errors.Join(err, follow(otherPaths(all, w).itself))
	}
	return ways, err
}

// searchable returns the error for a directory with programs, or for one of these, that
// commands can change through these mounts, or ever could by a list.
func (w *Way) searchable(list *Written, mounts []Mount) error {
	dirs := append(w.Dirs[:len(w.Dirs):len(w.Dirs)], Dir{Path: w.Path, Identity: w.Identity})
	for i, m := range mounts {
		below := slices.ContainsFunc(dirs, func(d Dir) bool { return d.Same(m.ID) })
		switch {
		case m.Writable && below:
			return errors.New("commands can change it: it lies in " + m.Source + ", which is writable")
		case m.Writable && path.Dir(m.Source) == w.Path:
			return errors.New("commands can change what is in it: " + m.Source + " is writable")
		case i == 0 && below:
			return errors.New("it lies in the workspace")
		}
	}
	at, listed := list.above(dirs)
	if !listed {
		for i := range list.entries { // single files that were writable
			if listed = path.Dir(list.entries[i].path) == w.Path; listed {
				at.Path = list.entries[i].path
				break
			}
		}
	}
	if listed {
		return errors.New("commands of a sandbox could have changed what is in it: " + at.Path + " was writable for them")
	}
	return nil
}
