package hostpath

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
)

// Trust resolves the path of one of Paddock's own files that is about to be believed or
// executed. It refuses a file that commands of a sandbox could have changed, by the list
// of the state directory, or that every other user of this host could have changed. A
// file that does not exist yet is judged by its place.
func Trust(list *Written, own backend.OwnFile) (*Way, error) { return NewSeen(list).Trust(own) }

// Trust is like the function [Trust], for the start that this Seen belongs to.
func (s *Seen) Trust(own backend.OwnFile) (*Way, error) {
	way, err := s.locateOwn(own)
	if err == nil {
		err = trust(way, own, s.list)
	}
	if err != nil {
		return nil, err
	}
	return way, nil
}

// TrustProgram is like Trust, for one of Paddock's own programs that is about to be
// executed. The program, and the directories above it, must also belong to root, the
// caller, or the owner of the running program, because directories that the sandboxes of
// other users could write are only on those users' lists.
func (s *Seen) TrustProgram(own backend.OwnFile) (*Way, error) {
	way, err := s.Trust(own)
	if err == nil {
		err = way.ofStranger(own)
	}
	if err != nil {
		return nil, err
	}
	return way, nil
}

// ofStranger refuses a program that another user owns or could replace, by the owners of
// the directories above it and above the links to it.
func (w *Way) ofStranger(own backend.OwnFile) error {
	found, ok := w.strange(w.UID)
	if !ok {
		return nil
	}
	return refuseOwn(own, fmt.Sprintf("%s belongs to uid %d, whose sandboxes could have put another in its place", found.Path, found.UID),
		"copy it to a directory of your own or root's, as a file of your own, and name that")
}

// strange returns the first of the directories above the file, and above the links to it, that belongs
// to somebody else than root, the caller and the owner of the running program, or else the file, if its
// owner does.
func (w *Way) strange(owner uint32) (d Dir, ok bool) {
	known := func(d Dir) bool {
		return d.UID == 0 || d.UID == uint32(os.Geteuid()) || d.UID == programOwner() || d.UID == nobody && nobodyUnmapped()
	}
	for _, dirs := range append(w.walked(), []Dir{{Path: w.Path, UID: owner}}) {
		for _, d := range dirs {
			if !known(d) {
				return d, true
			}
		}
	}
	return Dir{}, false
}

// nobodyUnmapped reports whether this process's user namespace does not have the user
// nobody, so that files of nobody belong to users that the namespace does not have, as
// the host's root in a sandbox.
var nobodyUnmapped = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false // not Linux
	}
	for line := range strings.Lines(string(text)) {
		var first, outside, count uint64
		if _, err := fmt.Sscan(line, &first, &outside, &count); err != nil || nobody >= first && nobody-first < count {
			return false
		}
	}
	return true
})

// locateOwn follows the path of one of Paddock's own files, without checking it.
func (s *Seen) locateOwn(own backend.OwnFile) (*Way, error) {
	name, err := Abs(own.Path)
	if err != nil {
		return nil, unusable(own, err)
	}
	way, err := s.follow(name)
	if err != nil {
		return nil, unusable(own, err)
	}
	return way, nil
}

// TrustState is like Trust, for a state directory, which is the first thing that a
// start checks. It returns the directory's path without links, and the Seen of the start,
// with the directory's list or a nil list. named is true if a variable or an option chose
// the directory.
//
// A directory of another user is refused before anything in it is read, and so is one in a
// directory of another user, who could put another in its place.
//
// The list that decides about the links in the path is itself reached over these links. An
// attacker who could replace a link could choose an empty list. So the list in the usual
// place counts too: every start writes there as well, and covers that place, or refuses a
// mount that holds a link on the way there. If no list can be stored there, nothing is known,
// and the path of a named directory must not have links of this user's. If there is no list
// at all, no sandbox was ever started, and such links are followed.
func TrustState(own backend.OwnFile, named bool) (string, *Seen, error) {
	s := NewSeen(nil)
	way, err := s.locateOwn(own)
	if err != nil {
		return "", nil, err
	}
	if err := way.ofOwner(own); err != nil {
		return "", nil, err
	}
	list, err := readLists(way.Path)
	s.list = list
	if errors.Is(err, fs.ErrNotExist) {
		list = unlisted()
	}
	lists := []*Written{list}
	if named {
		if _, err := s.usualList(); err != nil {
			lists = append(lists, nil)
		}
	}
	if err := trust(way, own, lists...); err != nil {
		return "", nil, err
	}
	return way.Path, s, nil
}

// ofOwner refuses a state directory that another user owns, or in the place of which another user
// could put something: what is in it is believed. Nothing in it has been read yet.
func (w *Way) ofOwner(own backend.OwnFile) error {
	me := os.Geteuid()
	if w.Exists && int(w.UID) != me {
		owner, known := nameOf(w.UID)
		why := "it belongs to " + owner + ", and you are another user: nothing in it is read or changed"
		hint := "choose a directory of your own with PADDOCK_STATE_DIR, or unset that"
		if known {
			hint = "become that user: su - " + policy.ShellWord(owner) + "; or " + hint
			if me == 0 {
				hint += "; paddock list, layers and status also list what it holds, as that user (paddock help list)"
			}
		}
		return refuseOwn(own, why, hint)
	}
	if w.Exists && w.IsDir() {
		if err := aloneIn(w.Path); err != nil { // root may own it, as it does /tmp
			hint := "choose a directory of your own with PADDOCK_STATE_DIR, or unset that"
			if own.Field == "" || w.Mode&unix.S_ISVTX == 0 { // no place of many things, as /tmp is
				hint = "look at what is in it, and take it back: chmod go-w " + policy.ShellWord(w.Path)
			}
			return refuseOwn(own, Reason(err)+", and what is in a state directory is believed: nothing in it is read or changed", hint)
		}
	}
	if d, ok := w.strange(uint32(me)); ok {
		owner, _ := nameOf(d.UID)
		return refuseOwn(own, d.Path+" belongs to "+owner+", who could put another in its place",
			"choose a directory in which no other user owns a directory above it, with PADDOCK_STATE_DIR")
	}
	return nil
}

// nameOf returns the name that the host's list of users has for a user, or else "uid N".
func nameOf(id uint32) (name string, known bool) {
	eachUser(func(of, uid, _ string) {
		if name == "" && uid == strconv.FormatUint(uint64(id), 10) {
			name = of
		}
	})
	if name == "" {
		return fmt.Sprintf("uid %d", id), false
	}
	return name, true
}

// trust checks the way to an own file by these lists and by modes.
func trust(way *Way, own backend.OwnFile, lists ...*Written) error {
	for _, list := range lists {
		if err := list.Judge(way, nil); err != nil {
			return unusable(own, err)
		}
		if err := way.placed(own, list); err != nil {
			return err
		}
	}
	return way.guarded(own)
}

// placed refuses a file that, by a list, commands could have written or put there.
func (w *Way) placed(own backend.OwnFile, list *Written) error {
	if d, ok := list.Keeps(w.Dirs, w.Path); !ok {
		return refuseOwn(own, "commands of a sandbox could have put another in its place: "+WasWritable(d.Path)+", and it was not covered each time",
			"look at it, and move it outside of "+d.Path+"; or "+Unlist(d.Path))
	}
	if w.Exists && !w.IsDir() && list.has(Dir{Path: w.Path, Identity: w.Identity}) {
		return refuseOwn(own, "commands of a sandbox could have written it, as a mount of its own: "+WasWritable(w.Path), "make it anew, or look at it and copy it; or "+Unlist(w.Path))
	}
	return nil
}

// guarded refuses a file that, by its mode and those of the directories above it, every
// other user of this host could have written or put there.
func (w *Way) guarded(own backend.OwnFile) error {
	for i, dirs := range w.walked() {
		owner := w.UID
		if i > 0 {
			owner = w.Links[i-1].UID
		}
		// A state directory belongs to this user, or does not exist yet ([Way.ofOwner]):
		// an attacker who replaced it would gain nothing.
		if why, hint := openToAll(dirs, owner, w.Exists || i > 0, own.Dir); why != "" {
			return refuseOwn(own, why, hint)
		}
	}
	if w.Exists && w.Mode&unix.S_IFMT == unix.S_IFREG && w.Mode&0o002 != 0 {
		return refuseOwn(own, fmt.Sprintf("every user of this host may write to it (mode %04o)", w.Mode&0o7777), "chmod o-w "+policy.ShellWord(w.Path))
	}
	return nil
}

// walked returns the directories above the file, and above each link to it.
func (w *Way) walked() [][]Dir {
	ways := [][]Dir{w.Dirs}
	for _, l := range w.Links {
		ways = append(ways, l.Dirs)
	}
	return ways
}

// refuseOwn returns the error of an own file that must not be used.
func refuseOwn(own backend.OwnFile, why, hint string) error {
	return Refuse(cmp.Or(own.Field, own.What), own.Path, why, hint)
}

// openToAll says which of the directories above a file of this owner every other user may
// change, and what to do, or returns "". In a directory with the sticky bit, users can replace only what
// they own; the parameter sticky allows even that. In a user namespace without the host's root,
// owners are not known, and count as root.
func openToAll(dirs []Dir, owner uint32, exists, sticky bool) (why, hint string) {
	for i, d := range dirs {
		next, known := owner, exists
		if i+1 < len(dirs) {
			next, known = dirs[i+1].UID, true
		}
		mine := slices.Contains([]uint32{0, uint32(os.Geteuid()), programOwner()}, next) || next == nobody && nobodyUnmapped()
		switch {
		case d.Mode&0o002 == 0:
		case d.Mode&unix.S_ISVTX == 0:
			return fmt.Sprintf("every user of this host may write to %s (mode %04o)", d.Path, d.Mode&0o7777), "chmod o-w " + policy.ShellWord(d.Path) + ", or keep it elsewhere"
		case known && !mine && !sticky:
			return fmt.Sprintf("what it leads through in %s belongs to uid %d, who may replace it", d.Path, next), "keep it in a directory of your own"
		}
	}
	return "", ""
}

// programOwner returns the owner of the running program. The program does what that user
// wants anyway.
var programOwner = sync.OnceValue(func() uint32 {
	self, err := os.Executable()
	if err != nil {
		return 0
	}
	var st unix.Stat_t
	if err := unix.Stat(self, &st); err != nil {
		return 0
	}
	return st.Uid
})

// GroupWritable returns the path that a group may change, one of Paddock's own files or a
// directory above it, or "".
func (w *Way) GroupWritable() string {
	for _, d := range w.Dirs {
		if d.Mode&0o020 != 0 && d.Mode&unix.S_ISVTX == 0 {
			return d.Path
		}
	}
	if w.Exists && w.Mode&0o020 != 0 {
		return w.Path
	}
	return ""
}
