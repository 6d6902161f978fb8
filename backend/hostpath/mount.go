// Package hostpath checks the host's paths that a spec names, before a backend
// shows them to a sandbox: where they lead, over which links, who owns them, and
// whether commands of a sandbox could have written there.
//
// It changes nothing. Other processes may change a path between its check and a backend's
// use: so a backend opens the results of [Mounts] without following links and compares their
// identity, or leaves that to an engine and verifies the engine's mounts.
//
// In its subdirectories, protect finds the files that commands must not change, snapshot
// compares the files that the host executes or obeys before and after, gitconfig reads
// git's configuration, and toolchain finds the toolchains below the caller's home.
package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// Mount is a host path that a spec names: the workspace or a mount.
type Mount struct {
	Field    string          // of the spec, for messages
	Source   string          // absolute, free of symbolic links
	Target   string          // absolute, inside
	Writable bool            // commands can change the host's files through it
	Copied   bool            // commands get a copy instead
	Layered  bool            // what commands change goes to a layer above it
	Stored   *backend.Stored // what the request says of it; nil: it is another mount
	Dir      bool
	Socket   bool   // it is a Unix socket
	UID, GID uint32 // its owner
	ID       dirfd.Identity
	Index    int // among the spec's mounts
	place    place
	dirs     []Dir // the directories above it, from "/" on
}

// Mounts checks the paths that the spec of a request names: the workspace first, which
// gets the given path inside, then the mounts.
//
// It follows a symbolic link only if no command of a sandbox can have made it: see
// [Written.Judge]. Backends later open the resulting paths without following links, and
// compare them with ID. One start checks each path only once, see [Seen].
func Mounts(req backend.Request, workspace string) ([]Mount, error) {
	s := seenBy(req)
	if s.mounts == nil {
		mounts, err := s.look(req)
		if err != nil {
			return mounts, err
		}
		s.mounts = mounts
	}
	mounts := slices.Clone(s.mounts)
	mounts[0].Target = workspace
	return mounts, nil
}

// look does the work of Mounts, except for the workspace's path inside.
func (s *Seen) look(req backend.Request) ([]Mount, error) {
	spec := req.Spec
	ws := Mount{Field: "workspace.source", Writable: spec.Workspace.Access != "ro"}
	way, err := ws.locateDir(spec.Workspace.Source)
	if err != nil {
		return nil, err
	}
	ways := []*Way{way}
	switch spec.Workspace.Mode {
	case policy.ModeCopy:
		ws.Copied, ws.Writable = true, false
	case policy.ModeOverlay:
		ws.Layered, ws.Writable = true, false
		if err := ws.bare(s.host()); err != nil {
			return nil, err
		}
	}
	mounts, written, fields := []Mount{ws}, []string{spec.Workspace.Source}, []string{ws.Field}
	for i, m := range spec.Mounts {
		um := Mount{Field: "mounts", Target: m.Target, Writable: m.Mode == "rw", Index: i}
		way, err := um.locate(m.Source)
		if err != nil {
			return nil, err
		}
		mounts, ways, written, fields = append(mounts, um), append(ways, way), append(written, m.Source), append(fields, um.named())
	}
	if spec.Home != "" {
		home := Mount{Field: "home", Target: policy.HomePath, Writable: true}
		way, err := home.locateDir(spec.Home)
		if err != nil {
			return nil, err
		}
		if spec.Level == policy.LevelLandlock {
			home.Target = home.Source
		}
		// After the workspace, because other mounts may lie below HOME.
		mounts, ways = slices.Insert(mounts, 1, home), slices.Insert(ways, 1, way)
		written, fields = slices.Insert(written, 1, spec.Home), slices.Insert(fields, 1, home.Field)
	}
	for i, at := range spec.HostSockets {
		m := Mount{Field: "host_sockets", Target: at, Index: i}
		way, err := m.locate(at)
		if err != nil {
			return nil, err
		}
		if !m.Socket {
			return nil, Refuse(m.named(), at, "it is not a socket", "name one that a program of the host listens at")
		}
		toolchains := len(mounts) - req.Toolchains.Mounts // they stay the last ones
		mounts, ways = slices.Insert(mounts, toolchains, m), slices.Insert(ways, toolchains, way)
		written, fields = slices.Insert(written, toolchains, at), slices.Insert(fields, toolchains, m.named())
	}
	findStored(mounts, req.Stored)
	for i := range mounts {
		mounts[i].place = placeOf(s.host(), mounts[i].Source)
	}
	if spec.RootFS != policy.RootHost && spec.RootFS != "" {
		way, err := Follow(spec.RootFS)
		if err == nil {
			err = way.absent()
		}
		if err != nil {
			return nil, Refuse("rootfs", spec.RootFS, Reason(err), "")
		}
		ways, written, fields = append(ways, way), append(written, spec.RootFS), append(fields, "rootfs")
	}
	if err := s.judge(req, mounts, ways, written, fields); err != nil {
		return mounts, err
	}
	if err := s.trustSockets(mounts, ways); err != nil {
		return mounts, err
	}
	return mounts, noKernelBelow(mounts, s.host())
}

// findStored sets what of the store each mount shows.
func findStored(mounts []Mount, stored []backend.Stored) {
	for i := range mounts {
		m := &mounts[i]
		at := slices.IndexFunc(stored, func(s backend.Stored) bool {
			return s.Source == m.Source && (s.Over == "" || s.Over == m.Target)
		})
		if at >= 0 {
			m.Stored = &stored[at]
		}
	}
}

// judge refuses paths with symbolic links that must not be followed.
func (s *Seen) judge(req backend.Request, mounts []Mount, ways []*Way, written, fields []string) error {
	if !slices.ContainsFunc(ways, func(w *Way) bool { return len(w.Links) > 0 }) {
		return nil
	}
	if req.NoLinks {
		var errs []error
		for i, way := range ways {
			if len(way.Links) > 0 {
				errs = append(errs, Refuse(fields[i], written[i], "it has a symbolic link in its path, and links are not followed here", "name the path that the link leads to"))
			}
		}
		return errors.Join(errs...)
	}
	more := writable(mounts)
	var errs []error
	for i, way := range ways {
		if err := s.list.Judge(way, more); err != nil {
			errs = append(errs, Refuse(fields[i], written[i], err.Error(), Hint(err)))
		}
	}
	return errors.Join(errs...)
}

// writable returns the directories that commands can change through these mounts.
func writable(mounts []Mount) []Dir {
	var dirs []Dir
	for _, m := range mounts {
		if m.Writable && m.Dir {
			dirs = append(dirs, Dir{Path: m.Source, Identity: m.ID})
		}
	}
	return dirs
}

// kernelDirs are the trees through which programs talk to the kernel itself. Package
// policy refuses them in a spec, but a link may lead there too.
var kernelDirs = []string{"/proc", "/sys", "/dev"}

// Merged reports whether the mount is merged with what is at its target already, for one sandbox
// alone. A cache whose changes end is merged with an empty directory.
func (m Mount) Merged() bool { return m.Stored != nil && (m.Stored.Over != "" || m.Stored.Ends) }

// Locate resolves the source and reads its owner and type. It does not check the links
// in it.
func (m *Mount) Locate(source string) error {
	_, err := m.locate(source)
	return err
}

// locateDir is locate for a directory.
func (m *Mount) locateDir(source string) (*Way, error) {
	way, err := m.locate(source)
	if err == nil && !m.Dir {
		err = Refuse(m.Field, source, "it is not a directory", "name a directory with `"+m.Field+"`")
	}
	return way, err
}

func (m *Mount) locate(source string) (*Way, error) {
	way, err := Follow(source)
	if err == nil {
		err = way.absent()
	}
	if err != nil {
		return nil, Refuse(m.named(), source, Reason(err), "")
	}
	if way.Path == "/" {
		return nil, Refuse(m.named(), source, "it is the root of the host's file system", "name the directory that commands are to work in")
	}
	for _, dir := range kernelDirs {
		if _, ok := Within(way.Path, dir); ok {
			return nil, Refuse(m.named(), source, "it leads to "+way.Path+", and "+dir+" belongs to the kernel", "a sandbox has a "+dir+" of its own")
		}
	}
	kind := way.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR && kind != unix.S_IFREG && kind != unix.S_IFSOCK {
		return nil, Refuse(m.named(), source, "it is neither a file nor a directory", "")
	}
	m.Source, m.Dir, m.UID, m.GID, m.ID = way.Path, kind == unix.S_IFDIR, way.UID, way.GID, way.Identity
	m.dirs, m.Socket = way.Dirs, kind == unix.S_IFSOCK
	mask := uint32(unix.R_OK)
	if m.Dir {
		mask |= unix.X_OK
	}
	if err := unix.Access(m.Source, mask); err != nil {
		hint := "the caller must be able to read it"
		if errors.Is(err, unix.EACCES) && int(way.UID) == os.Geteuid() {
			hint = "look at it, and give it back: chmod u+rwx " + policy.ShellWord(m.Source)
		}
		return nil, Refuse(m.named(), source, Reason(err), hint)
	}
	return way, nil
}

// Refuse returns the error of a field of a spec whose value cannot be used.
func Refuse(field, value, why, hint string) error {
	return &policy.FieldError{Field: field, Value: value, Reason: text.Escape(why), Hint: text.Escape(hint)}
}

// RefuseBytes refuses mounts with paths that are not UTF-8, for a wall that is told of them in JSON.
func RefuseBytes(mounts []Mount, wall string) error {
	for _, m := range mounts {
		for _, p := range []string{m.Source, m.Target} {
			if !utf8.ValidString(p) {
				return Refuse(m.named(), p, "it is not valid UTF-8, which "+wall+" needs", "name another directory, or use `backend` linux")
			}
		}
	}
	return nil
}

// Reason returns an error's text without the path, which the message has already.
func Reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return err.Error()
}

// Within reports whether path is dir or lies below it, and returns path relative to dir.
// Both are absolute and clean.
func Within(path, dir string) (rel string, ok bool) {
	if path == dir {
		return "", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// Showing returns the writable mounts through which commands can reach a path of the host.
func Showing(mounts []Mount, file string) []Mount {
	var found []Mount
	for _, m := range mounts {
		if _, ok := Within(file, m.Source); ok && m.Writable {
			found = append(found, m)
		}
	}
	return found
}

// ShowingBelow returns what [Showing] does, without mounts of the path itself: whether
// those are allowed was decided before.
func ShowingBelow(mounts []Mount, file string) []Mount {
	return slices.DeleteFunc(Showing(mounts, file), func(m Mount) bool { return m.Source == file })
}

// CoveredIn finds another mount inside m that hides the path rel of m, and returns where
// in m that mount is.
func CoveredIn(m Mount, mounts []Mount, rel string) (at string, ok bool) {
	for _, o := range mounts {
		at, below := Within(o.Target, m.Target)
		if _, hidden := Within(path.Join(m.Target, rel), o.Target); below && at != "" && hidden {
			return at, true
		}
	}
	return "", false
}

// Overlaps reports whether a part of a writable mount is shown by another one, too: what commands move
// there through m appears in the other without what was mounted on it.
func Overlaps(m Mount, mounts []Mount) bool {
	return m.Writable && slices.ContainsFunc(mounts, func(o Mount) bool {
		rel, in := Within(o.Source, m.Source)
		if !in { // the host may show the same directory at two places
			rel, in = o.place.within(m.place)
		}
		if !o.Dir || o.Copied || o.Layered || o.Merged() || in && rel == "" {
			return false
		}
		if !in {
			return slices.ContainsFunc(o.dirs, func(d Dir) bool { return d.Same(m.ID) })
		}
		_, hidden := CoveredIn(m, mounts, rel)
		return !hidden
	})
}

// Seen stores what one start has read about the host, from [TrustState] on. [Mounts] and
// [Covers] add to the request's Seen, so that each path is checked only once, and a backend
// opens exactly the files that were checked. It is valid for one start.
type Seen struct {
	list    *Written
	ways    map[string]*Way    // of Paddock's own files
	mounted map[string]mounted // nil: not read yet
	mounts  []Mount            // nil: not checked yet
	covers  []Cover
	covered bool
}

// NewSeen returns the Seen of a new start, with the list of its state directory. A nil
// list stands for a list that is missing or cannot be trusted.
func NewSeen(list *Written) *Seen { return &Seen{list: list, ways: map[string]*Way{}} }

// Apart returns a Seen of the same start for a request with other mounts.
func (s *Seen) Apart() *Seen {
	return &Seen{list: s.list, ways: s.ways, mounted: s.host()}
}

// Written returns the list, which this start uses, of what commands could write.
func (s *Seen) Written() *Written { return s.list }

// follow does what [Follow] does, only once for each path that exists.
func (s *Seen) follow(name string) (*Way, error) {
	if way := s.ways[name]; way != nil {
		return way, nil
	}
	way, err := Follow(name)
	if err == nil && way.Exists { // else it may be made
		s.ways[name] = way
	}
	return way, err
}

// seenBy returns what the start of a request has read so far. If the request has no Seen,
// that is only the list.
func seenBy(req backend.Request) *Seen {
	if s, ok := req.Seen.(*Seen); ok {
		return s
	}
	return NewSeen(List(req.StateDir))
}

// host returns the mounts of the host, by mount point.
func (s *Seen) host() map[string]mounted {
	if s.mounted == nil {
		s.mounted = mountedAll()
	}
	return s.mounted
}
