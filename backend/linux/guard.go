//go:build linux

package linux

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
)

// guard adds the steps that protect Paddock's own files and the files that the host
// executes. Hidden files are covered, also in read-only mounts, since a socket can be
// connected to through those as well. Files that must not change become read-only in each
// writable mount.
//
// A path is only as safe as its parents: renaming one would leave the protection on
// the renamed directory, and the old name free. So each parent below the mount becomes
// a mount point itself, which the kernel refuses to rename or remove (rename(2), EBUSY).
func (b *builder) guard(req backend.Request) error {
	covers, err := hostpath.Covers(req, b.mounts)
	if err != nil {
		return err
	}
	type fixed struct {
		file, why string
		mounts    []hostpath.Mount
		guard     backend.Guard // the zero value if it is a file of Paddock's own
	}
	var all []fixed
	for _, c := range covers {
		if c.Hidden {
			b.hide(c)
		} else {
			all = append(all, fixed{c.Path, c.What, hostpath.Showing(b.mounts, c.Path), backend.Guard{}})
		}
	}
	for _, g := range req.Guards {
		if g.Except != "" {
			b.protectAllBut(g)
			continue
		}
		all = append(all, fixed{g.File, g.Why, hostpath.ShowingBelow(b.mounts, g.File), g})
	}
	// Directories before what is in them: that then needs no mount of its own.
	slices.SortStableFunc(all, func(a, b fixed) int { return strings.Compare(a.file, b.file) })
	for _, f := range all {
		targets := []string{} // where it has become read-only
		for _, m := range f.mounts {
			rel, _ := hostpath.Within(f.file, m.Source)
			if cover, ok := hostpath.CoveredIn(m, b.mounts, rel); ok {
				// This mount does not reach it, as long as the cover stays in place.
				b.pin(m.Target, path.Dir(cover))
			} else if b.protect(m.Target, rel, f.why) {
				targets = append(targets, path.Join(m.Target, rel))
			}
		}
		if f.guard.Copy {
			b.ownCopy(f.guard, targets)
		}
	}
	b.coverSockets(req.Sockets)
	return nil
}

// coverSockets covers sockets of the host wherever a bind shows them, in read-only ones too, since a
// socket can be connected to through those as well. An overlay's sockets are others than the
// host's. A step that fails is judged by uncovered: the host's program may have removed the
// socket meanwhile.
//
// The directories above need not stay in place: the cover moves along with what it covers, and
// what commands put in the old place is reported at the end. But into what another mount shows, it
// would not move along: then they stay.
func (b *builder) coverSockets(sockets []backend.Socket) {
	b.sockets = map[string]backend.Socket{}
	for _, socket := range sockets {
		for _, s := range slices.Clone(b.plan.Setup) {
			rel, ok := hostpath.Within(socket.Path, s.Source)
			target := path.Join(s.Target, rel)
			if s.Do != confine.OpBind || !ok || b.sockets[target] != (backend.Socket{}) || slices.ContainsFunc(b.mounts, func(m hostpath.Mount) bool {
				return m.Target != s.Target && hostpath.Under(m.Target, s.Target) && hostpath.Under(target, m.Target)
			}) {
				continue
			}
			b.sockets[target] = socket
			if slices.ContainsFunc(b.mounts, func(m hostpath.Mount) bool { return m.Target == s.Target && hostpath.Overlaps(m, b.mounts) }) {
				b.pinAbove(s.Target, rel)
			}
			b.add(confine.Step{Do: confine.OpSelf, Source: os.DevNull, Target: target, Optional: true, Why: "a program of the host listens there, and commands are kept from it",
				Flags: []string{confine.FlagReadOnly, confine.FlagNoSuid, confine.FlagNoDev, confine.FlagNoExec}})
			if h := &b.plan.Holds; !slices.Contains(h.CoveredSockets, socket.Path) {
				h.CoveredSockets = append(h.CoveredSockets, socket.Path)
			}
		}
	}
}

// uncovered takes the cover of a socket out of the plan if nothing is there any more that commands
// could connect to, or returns why the start must fail.
func (b *builder) uncovered(e *confine.Error) error {
	socket, ok := b.sockets[e.Object]
	if !ok {
		return nil
	}
	gone := !hostpath.Bound(socket.Path)
	apart := e.Errno == int(unix.EACCES) && !b.opens(socket.Path)
	if !gone && !apart {
		return &backend.StartError{Stage: "setup", Op: "cover", Object: socket.Path, Errno: e.Errno, Cause: e.Cause,
			Hint: "a program of the host listens there: start again, or name a directory without it"}
	}
	b.plan.Setup = slices.DeleteFunc(b.plan.Setup, func(s confine.Step) bool { return s.Do == confine.OpSelf && s.Target == e.Object })
	delete(b.sockets, e.Object)
	if !slices.Contains(slices.Collect(maps.Values(b.sockets)), socket) {
		h := &b.plan.Holds
		h.CoveredSockets = slices.DeleteFunc(h.CoveredSockets, func(at string) bool { return at == socket.Path })
	}
	return nil
}

// opens reports whether commands could make a closed directory above a path of a mount passable, by
// changing its mode.
func (b *builder) opens(at string) bool {
	return slices.ContainsFunc(b.mounts, func(m hostpath.Mount) bool {
		for dir := path.Dir(at); hostpath.Under(dir, m.Source); dir = path.Dir(dir) {
			var st unix.Stat_t
			if err := unix.Lstat(dir, &st); err != nil || st.Uid == m.UID {
				return true
			}
			if dir == "/" {
				break
			}
		}
		return false
	})
}

// protectAllBut makes a directory read-only except for one name in it. That name becomes a
// separate mount, which stays writable when the directory becomes read-only, last.
func (b *builder) protectAllBut(g backend.Guard) {
	for _, m := range hostpath.ShowingBelow(b.mounts, g.File) {
		rel, _ := hostpath.Within(g.File, m.Source)
		if cover, ok := hostpath.CoveredIn(m, b.mounts, path.Join(rel, g.Except)); ok {
			b.pin(m.Target, path.Dir(cover))
			continue
		}
		b.pin(m.Target, path.Join(rel, g.Except))
		b.last = append(b.last, confine.Step{Do: confine.OpReadOnly, Target: path.Join(m.Target, rel), Why: g.Why})
	}
}

// copiesDir holds the copies for commands, each in a separate directory.
const (
	copiesDir  = "/run/paddock-copies"
	copiesSize = 8 << 20
)

// ownCopy gives commands a copy of a file that is read-only at these places. If the
// kernel cannot do that, the file stays read-only.
func (b *builder) ownCopy(g backend.Guard, targets []string) {
	if len(targets) == 0 {
		return
	}
	if len(b.copies) == 0 {
		b.add(confine.Step{Do: confine.OpTmpfs, Target: copiesDir, Mode: 0o700, Size: copiesSize, Why: "what commands change of their copies of files",
			Flags: []string{confine.FlagNoSuid, confine.FlagNoDev, confine.FlagNoExec}})
	}
	at := path.Join(copiesDir, strconv.Itoa(len(b.copies)), path.Base(g.File))
	b.copies = append(b.copies, ownCopy{g, at, targets})
	for _, target := range targets {
		b.add(confine.Step{Do: confine.OpOwnCopy, Source: at, Target: target, Data: []byte(g.Text), Flags: roDir, Optional: true, Why: "commands change a copy of their own"})
		b.plan.Holds.OwnCopies = append(b.plan.Holds.OwnCopies, target)
	}
}

// hide covers a file or directory wherever a bind shows it.
func (b *builder) hide(c hostpath.Cover) {
	for _, s := range slices.Clone(b.plan.Setup) {
		rel, ok := hostpath.Within(c.Path, s.Source)
		if s.Do != confine.OpBind && s.Do != confine.OpLayer || !ok {
			continue
		}
		if !slices.Contains(s.Flags, confine.FlagReadOnly) {
			b.pin(s.Target, path.Dir(rel))
		}
		cover := confine.Step{Do: confine.OpTmpfs, Target: path.Join(s.Target, rel), Mode: 0o555, Size: 4096, Why: c.What + " is not visible",
			Flags: []string{confine.FlagReadOnly, confine.FlagNoSuid, confine.FlagNoDev, confine.FlagNoExec, confine.FlagExisting}}
		if !c.Dir {
			cover.Do, cover.Source, cover.Mode, cover.Size = confine.OpBind, os.DevNull, 0, 0
		}
		b.add(cover)
	}
}

// protect makes one path of a writable mount read-only. It reports false if the path,
// or a directory above it, is read-only already.
func (b *builder) protect(target, rel, why string) bool {
	for at := path.Join(target, rel); at != target; at = path.Dir(at) {
		if b.fixed[at] {
			return false
		}
	}
	b.fixed[path.Join(target, rel)] = true
	b.pin(target, path.Dir(rel))
	b.add(confine.Step{Do: confine.OpSelf, Target: path.Join(target, rel), Why: why,
		Flags: []string{confine.FlagReadOnly, confine.FlagNoSuid, confine.FlagNoDev}})
	return true
}

// pinAbove pins the directories above a path of a mount, unless it is in one that is read-only, where
// nothing can be renamed.
func (b *builder) pinAbove(target, rel string) {
	for at := path.Join(target, rel); at != target; at = path.Dir(at) {
		if b.fixed[at] {
			return
		}
	}
	b.pin(target, path.Dir(rel))
}

// pin makes a directory below target, and its parents, mount points.
func (b *builder) pin(target, rel string) {
	if rel == "." || rel == "" {
		return
	}
	b.pin(target, path.Dir(rel))
	at := path.Join(target, rel)
	if b.pinned[at] {
		return
	}
	b.pinned[at] = true
	b.add(confine.Step{Do: confine.OpSelf, Target: at, Flags: []string{confine.FlagNoSuid, confine.FlagNoDev},
		Why: "a mount point cannot be renamed away"})
}

// ownCopy is a file of the host that commands have a copy of.
type ownCopy struct {
	backend.Guard
	inside  string   // the copy, below copiesDir
	targets []string // where commands find it
}

// Bounds of reading one copy, and all of them.
const (
	maxCopy  = 1 << 20 // bytes
	copyWait = 5 * time.Second
)

// readCopies reads the copies as commands left them, once all commands have ended.
func (s *sandbox) readCopies() map[string]backend.Copy {
	if s.copies == nil {
		return nil
	}
	defer s.copies.Close()
	ctx, cancel := context.WithTimeout(context.Background(), copyWait)
	defer cancel()
	found := map[string]backend.Copy{}
	for file, rel := range s.copied {
		text, err := hostpath.Read(ctx, fmt.Sprintf("/proc/self/fd/%d", s.copies.Fd()), path.Clean(rel), maxCopy)
		found[file] = backend.Copy{Text: text, Err: err}
	}
	return found
}

// copiedFiles returns the files that commands really have copies of, and where below copiesDir
// those are.
func (s *sandbox) copiedFiles() map[string]string {
	found := map[string]string{}
	for _, c := range s.plan.copies {
		if c.Text == "" && slices.ContainsFunc(c.targets, func(at string) bool { return slices.Contains(s.isolation.OwnCopies, at) }) {
			found[c.File] = strings.TrimPrefix(c.inside, copiesDir+"/")
		}
	}
	return found
}
