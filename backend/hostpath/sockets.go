package hostpath

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// Bounds of the search for sockets.
const (
	// MaxSockets is how many sockets of the host one sandbox may have to be kept from.
	MaxSockets = 256
	// fewNames is how many names of each read-only mount are always read, and manyNames how many if a
	// socket may be there whose own name does not say where it is, and of what commands can write.
	fewNames, manyNames = 1 << 12, 1 << 16
	// allNames is how many names are read in all, and waitingPaths how many bytes the paths of
	// directories may have that wait for it.
	allNames, waitingPaths = 1 << 20, 16 << 20
	// toldMissed is how many directories are named that were not all searched, and toldPath how many
	// bytes of the path of each.
	toldMissed, toldPath = 4, 200
)

// shownDirs are directories of the host, besides the mounts, that sandboxes show. No user makes files
// there, so that only sockets whose names say so are looked for.
var shownDirs = []string{"/usr", "/opt", "/nix/store"}

// socketFinder finds sockets.
type socketFinder struct {
	all     map[string]mounted // the host's mounts
	shown   []shownDir
	bound   []boundSocket
	partial bool            // bound may not have all of this network namespace
	found   map[string]bool // paths of sockets, in use or not
	names   int             // that were read
	missed  int             // directories that were not searched as a whole, in which a socket may be
	lost    []string
}

// shownDir is a directory, or a file, of the host that becomes visible.
type shownDir struct {
	path  string
	place place
	walk  bool // nobody else reads its names
}

// boundSocket is a socket of this network namespace that is bound to a file.
type boundSocket struct {
	name   string // as it was bound: it may be relative, of another mount namespace, or old
	device string // of the file's system, as mountinfo has it; "" if it is unknown
	ino    uint32 // the low part of the file's inode
}

// Sockets returns the sockets of this host that would be visible through these mounts of a request,
// and that a process has bound, so that commands could connect to it. walked are the paths of all
// sockets that a walk through the writable mounts has found, in use or not, and passed the directories
// that it has left out, which are searched here, in part or in whole. lost says where sockets
// may be that were not found. Sockets that the spec names are not among them.
//
// A kernel that is asked for the sockets that are bound has those of the caller's network namespace
// alone, by the names that they were bound by: so what commands can write is searched whatever it says.
// What is at a path is judged by its inode, whoever has bound it, and by whatever name.
func Sockets(ctx context.Context, req backend.Request, mounts []Mount, walked, passed []string) (list []backend.Socket, lost []string, err error) {
	f := newSocketFinder(req, mounts)
	named := map[confine.FileID]bool{}
	for _, m := range mounts {
		if m.Socket {
			named[m.ID.FileID] = true
		}
	}
	for _, at := range walked {
		f.found[at] = true
	}
	f.bound, f.partial = boundSockets()
	lonely := f.byName()
	for _, at := range passed {
		f.below(ctx, at, true)
	}
	for _, d := range f.shown {
		if d.walk {
			f.below(ctx, d.path, lonely[d.place.device] || lonely[""])
		}
	}
	if more := f.missed - toldMissed; more > 0 {
		f.lost = append(f.lost, strconv.Itoa(more)+" more directories were not all searched for sockets")
	}
	covers, _ := Covers(req, mounts) // an error refuses the start
	for at := range f.found {
		if slices.ContainsFunc(covers, func(c Cover) bool { return c.Hidden && Under(at, c.Path) }) {
			continue
		}
		id, state := socketAt(at)
		switch {
		case state == socketClosed && int(Barrier(at).UID) == os.Geteuid():
			return nil, nil, Refuse("workspace.source", at, "it may be a socket of the host, and "+Barrier(at).Path+" cannot be entered, so that commands cannot be kept from it",
				"look at it, and give it back: chmod u+rwx "+policy.ShellWord(Barrier(at).Path))
		case state == socketBound && !named[id]:
			list = append(list, backend.Socket{Path: at, ID: id})
		}
	}
	if len(list) > MaxSockets {
		return nil, nil, Refuse("workspace.source", mounts[0].Source, "programs outside of this sandbox listen at "+strconv.Itoa(len(list))+" sockets in it and in the mounts, and commands can be kept from "+strconv.Itoa(MaxSockets),
			"use `workspace.mode` overlay or copy, in which there are none, or name directories without them; if commands of another sandbox with this directory listen there, end that first")
	}
	slices.SortFunc(list, func(a, b backend.Socket) int { return strings.Compare(a.Path, b.Path) })
	return list, f.lost, nil
}

// newSocketFinder returns one that knows what becomes visible.
func newSocketFinder(req backend.Request, mounts []Mount) *socketFinder {
	f := &socketFinder{all: seenBy(req).host(), found: map[string]bool{}}
	for i, m := range mounts {
		if m.Socket || m.Copied || m.Layered || m.Merged() {
			continue // nothing in it can be connected to
		}
		tools := i >= len(mounts)-req.Toolchains.Mounts
		f.show(m.Source, m.Dir && !m.Writable && m.Stored == nil && !tools)
	}
	dirs := shownDirs
	if req.Spec.RootFS != policy.RootHost && req.Spec.RootFS != "" {
		dirs = []string{Real(req.Spec.RootFS)}
	}
	for _, dir := range dirs {
		f.show(dir, false)
	}
	return f
}

// ShownBy returns the directory, of a mount or of the root file system, by which a request shows a path of
// the host to its commands, or "". at has no symbolic links.
func ShownBy(req backend.Request, mounts []Mount, at string) (dir string) {
	f := newSocketFinder(req, mounts)
	here := placeOf(f.all, at)
	for _, d := range f.shown {
		if _, ok := here.within(d.place); ok || Under(at, d.path) {
			return d.path
		}
	}
	return ""
}

// RefuseServer refuses a request by whose mounts commands could connect to a server of Paddock's that
// listens at a Unix socket: as one that the spec names, or, if the server asks for no token, as one that
// they show and that is not covered.
func RefuseServer(req backend.Request, mounts []Mount, at string, open bool) error {
	id, state := socketAt(at)
	if state == socketNone {
		return nil
	}
	for _, m := range mounts {
		if m.Socket && m.ID.FileID == id {
			return Refuse(m.named(), m.Source, "a server of Paddock listens there", "name another socket")
		}
	}
	if !open || req.Spec.Level == policy.LevelLandlock || // in which there is no Unix socket
		slices.ContainsFunc(req.Sockets, func(s backend.Socket) bool { return s.ID == id }) {
		return nil
	}
	if dir := ShownBy(req, mounts, at); dir != "" {
		return Refuse(mounts[0].named(), mounts[0].Source, "a server of Paddock that asks for no token listens at "+at+", and commands could connect to it through "+dir,
			"end that server, let it listen outside of what commands see, or have it ask for tokens; or use `workspace.mode` overlay")
	}
	return nil
}

// show adds a directory or file that becomes visible.
func (f *socketFinder) show(at string, walk bool) {
	f.shown = append(f.shown, shownDir{path: at, place: placeOf(f.all, at), walk: walk})
}

// byName finds the sockets whose names lead to what becomes visible: also those with another inode than
// the kernel names, as file systems have that are made of others. It returns the devices of
// sockets whose names do not say where they are: bound by a relative name, renamed since, or seen
// by another name in another mount namespace. "" among them stands for any device.
func (f *socketFinder) byName() (lonely map[string]bool) {
	lonely = map[string]bool{}
	devices := map[string]bool{"": true}
	for _, d := range f.shown {
		devices[d.place.device] = true
	}
	for at, m := range f.all { // what the host has mounted below comes along
		devices[m.device] = devices[m.device] || slices.ContainsFunc(f.shown, func(d shownDir) bool { return Under(at, d.path) })
	}
	for _, s := range f.bound {
		if !devices[s.device] {
			continue
		}
		var st unix.Stat_t
		at := s.name
		if path.IsAbs(at) {
			at = filepath.Join(Future(filepath.Dir(at)), filepath.Base(at))
		}
		err := error(unix.ENOENT)
		if path.IsAbs(at) {
			err = unix.Lstat(at, &st)
		}
		closed := errors.Is(err, unix.EACCES)
		if err != nil && !closed || err == nil && s.device != "" && uint32(st.Ino) != s.ino { //nolint:gocritic // the kernel names 32 bits of it
			lonely[s.device] = true
		}
		if err != nil && !closed {
			continue
		}
		here := placeOf(f.all, at)
		for _, d := range f.shown {
			if Under(at, d.path) {
				f.found[at] = true
			} else if rel, ok := here.within(d.place); ok {
				f.found[path.Join(d.path, rel)] = true // the host shows the same directory at two places
			}
		}
	}
	if f.partial {
		lonely[""] = true
	}
	return lonely
}

// below finds the sockets in a directory by the names in it: all of them in a small one, in a large one
// those that are not too deep. If more may be there than what was bound leads to, it reads more names, and
// tells of what it has not read.
func (f *socketFinder) below(ctx context.Context, top string, more bool) {
	most := fewNames
	if more {
		most = manyNames
	}
	names, waiting := 0, 0
	for queue := []string{top}; len(queue) > 0; queue = queue[1:] {
		waiting -= len(queue[0])
		dir, err := dirfd.Open(unix.AT_FDCWD, queue[0], unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			if more && passable(queue[0], err) {
				f.miss(queue[0])
			}
			continue // a socket that has a name is found by it
		}
		_ = dirfd.EachName(dir, func(name []byte, kind byte) bool {
			if kind == unix.DT_UNKNOWN {
				kind = dirfd.TypeOf(dir, string(name))
			}
			switch kind {
			case unix.DT_DIR:
				queue = append(queue, path.Join(queue[0], string(name)))
				waiting += len(queue[len(queue)-1])
			case unix.DT_SOCK:
				f.found[path.Join(queue[0], string(name))] = true
			}
			names++
			f.names++
			return names < most && f.names < allNames && waiting < waitingPaths
		})
		_ = unix.Close(dir)
		if names >= most || f.names >= allNames || waiting >= waitingPaths || ctx.Err() != nil {
			if more {
				f.miss(top)
			}
			return
		}
	}
}

// miss tells of a directory that was not all searched, in which a socket may be.
func (f *socketFinder) miss(dir string) {
	if f.missed++; f.missed <= toldMissed {
		f.lost = append(f.lost, "not all of "+text.Truncate(text.Escape(dir), toldPath)+" was searched for sockets: one that a program outside of this sandbox listens at may be there, and commands can connect to it")
	}
}

// passable reports whether commands may get into a directory that could not be opened: they can pass
// through it, or change its mode, or its path is only too long at once.
func passable(dir string, err error) bool {
	if dirfd.Gone(err) {
		return false
	}
	var st unix.Stat_t
	return !errors.Is(err, unix.EACCES) || unix.Access(dir, unix.X_OK) == nil || unix.Lstat(dir, &st) == nil && int(st.Uid) == os.Geteuid()
}

// trustSockets refuses sockets named by the spec that commands, of this sandbox or of an earlier one,
// could have put in their places: connecting there would reach whatever else they chose.
func (s *Seen) trustSockets(mounts []Mount, ways []*Way) error {
	for i, m := range mounts {
		if m.Field != "host_sockets" {
			continue
		}
		paths := append(otherPaths(s.host(), ways[i]).itself, m.Source)
		for _, o := range mounts {
			if o.Writable && slices.ContainsFunc(paths, func(at string) bool { return Under(at, o.Source) }) {
				return Refuse(m.named(), m.Source, "commands could put another in its place: "+o.Source+" is writable for them",
					"let the server listen outside of what commands can write, in $XDG_RUNTIME_DIR say, or use `workspace.mode` overlay")
			}
		}
		if _, err := s.Trust(backend.OwnFile{Path: m.Source, What: "the socket", Field: m.named()}); err != nil {
			return err
		}
	}
	return nil
}

// MountedSockets returns a sentence for each mount that is a socket, which specs could name before
// they had a field for it.
func MountedSockets(mounts []Mount) (notices []string) {
	for _, m := range mounts {
		if m.Socket && m.Field == "mounts" {
			notices = append(notices, "commands can connect to "+m.Source+", a socket of the host that is mounted: the next release refuses such a mount, and host_sockets of a spec, or the flag of this name, takes its place")
		}
	}
	return notices
}

// socketState says whether something can be connected to.
type socketState int

const (
	socketNone   socketState = iota // it is not a socket, or no process has bound it, as when its server has ended
	socketBound                     // a process has bound it, or it cannot be told
	socketClosed                    // the caller cannot reach it
)

// Bound reports whether a path is a socket that a process has bound.
func Bound(at string) bool {
	_, state := socketAt(at)
	return state == socketBound
}
