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
	dirs := append(way.Dirs[:len(way.Dirs):len(way.Dirs)], Dir{Path: way.Path, Identity: way.Identity})
	for i, m := range mounts {
		below := slices.ContainsFunc(dirs, func(d Dir) bool { return d.same(m.ID) })
		switch {
		case m.Writable && below:
			return "", errors.New("commands can change it: it lies in " + m.Source + ", which is writable")
		case m.Writable && path.Dir(m.Source) == way.Path:
			return "", errors.New("commands can change what is in it: " + m.Source + " is writable")
		case i == 0 && below:
			return "", errors.New("it lies in the workspace")
		}
	}
	if err := list.Judge(way, writable(mounts)); err != nil {
		return "", err
	}
	at, listed := list.above(dirs)
	if !listed {
		for i := range list.entries { // single files that were writable
			if listed = path.Dir(list.entries[i].path) == way.Path; listed {
				at.Path = list.entries[i].path
				break
			}
		}
	}
	if listed {
		return "", errors.New("commands of a sandbox could have changed what is in it: " + at.Path + " was writable for them")
	}
	return way.Path, nil
}
