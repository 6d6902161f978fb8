//go:build linux

package linux

import (
	"context"
	"fmt"
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

// guard adds the steps that take Paddock's own files out of the mounts: what is
// hidden is covered, also in read-only ones, since a socket can be connected to
// through those as well; what is to stay as it is becomes read-only in each
// writable one.
//
// A path is only as safe as its parents: renaming one would leave the
// protection on the renamed directory, and the old name free. So each parent
// below the mount becomes a mount point itself, which the kernel refuses to
// rename or remove (rename(2), EBUSY).
func (b *builder) guard(req backend.Request) error {
	covers, err := hostpath.Covers(req, b.mounts)
	if err != nil {
		return err
	}
	type fixed struct {
		file, why string
		mounts    []hostpath.Mount
		guard     backend.Guard // what it is for, where it has a copy
	}
	var all []fixed
	for _, c := range covers {
		if c.Hidden {
			b.hide(c)
		} else {
			all = append(all, fixed{c.Path, c.What, b.showing(c.Path), backend.Guard{}})
		}
	}
	for _, g := range req.Guards {
		if g.Except != "" {
			b.allBut(g)
			continue
		}
		all = append(all, fixed{g.File, g.Why, b.showingBelow(g.File), g})
	}
	// Directories before what is in them, which then needs no mount of its own.
	slices.SortStableFunc(all, func(a, b fixed) int { return strings.Compare(a.file, b.file) })
	for _, f := range all {
		if targets := b.protectAt(f.mounts, f.file, f.why); f.guard.Copy {
			b.ownCopy(f.guard, targets)
		}
	}
	return nil
}

// allBut makes a directory read-only but for one name in it. That needs a mount of
// its own, which is writable when the one above it becomes read-only, last.
func (b *builder) allBut(g backend.Guard) {
	for _, m := range b.showingBelow(g.File) {
		rel, _ := hostpath.Within(g.File, m.Source)
		if cover, ok := b.cover(m, path.Join(rel, g.Except)); ok {
			b.pin(m.Target, path.Dir(cover))
			continue
		}
		b.pin(m.Target, path.Join(rel, g.Except))
		b.last = append(b.last, confine.Step{Do: confine.OpReadOnly, Target: path.Join(m.Target, rel), Why: g.Why})
	}
}

// copiesDir holds what commands have a copy of, one directory for each file.
const (
	copiesDir  = "/run/paddock-copies"
	copiesSize = 8 << 20
)

// ownCopy gives commands a copy of a file that is read-only at these places. A
// kernel that cannot do it leaves it read-only.
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
		if s.Do != confine.OpBind || !ok {
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

// showing lists the writable mounts through which a path of the host can be
// reached.
func (b *builder) showing(file string) []hostpath.Mount {
	var found []hostpath.Mount
	for _, m := range b.mounts {
		if _, ok := hostpath.Within(file, m.Source); ok && m.Writable {
			found = append(found, m)
		}
	}
	return found
}

// showingBelow is showing without mounts of the path itself: which of these may
// be made was decided before.
func (b *builder) showingBelow(file string) []hostpath.Mount {
	return slices.DeleteFunc(b.showing(file), func(m hostpath.Mount) bool { return m.Source == file })
}

// protectAt makes a path of the host read-only in these mounts, and gives the places
// inside that it has made so.
func (b *builder) protectAt(mounts []hostpath.Mount, file, why string) (targets []string) {
	for _, m := range mounts {
		rel, _ := hostpath.Within(file, m.Source)
		if cover, ok := b.cover(m, rel); ok {
			// Not reachable through this mount, as long as that stays in place.
			b.pin(m.Target, path.Dir(cover))
			continue
		}
		if b.protect(m.Target, rel, why) {
			targets = append(targets, path.Join(m.Target, rel))
		}
	}
	return targets
}

// cover finds another mount inside m that hides a path of it, and says where
// in m that is.
func (b *builder) cover(m hostpath.Mount, rel string) (at string, ok bool) {
	for _, o := range b.mounts {
		at, below := hostpath.Within(o.Target, m.Target)
		if _, hidden := hostpath.Within(path.Join(m.Target, rel), o.Target); below && at != "" && hidden {
			return at, true
		}
	}
	return "", false
}

// protect makes one path of a writable mount read-only, and reports false where it,
// or a directory above it, is already.
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

// ownCopy is a file of the host of which commands have a copy.
type ownCopy struct {
	backend.Guard
	inside  string   // the copy, below copiesDir
	targets []string // where commands find it
}

// Bounds of what is read of the copies.
const (
	maxCopy  = 1 << 20 // bytes
	copyWait = 5 * time.Second
)

// openCopies opens the directory with the copies. The handle outlives all
// processes inside, so that nothing changes any more what is read by it.
func (s *sandbox) openCopies() error {
	if len(s.plan.copies) == 0 {
		return nil
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/root%s", s.pid, copiesDir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return backend.Failed("verify", "open", copiesDir, err, "")
	}
	s.copies = os.NewFile(uintptr(fd), copiesDir)
	return nil
}

// readCopies reads what commands have made of their copies, once they have ended.
func (s *sandbox) readCopies() map[string]backend.Copy {
	if s.copies == nil {
		return nil
	}
	defer s.copies.Close()
	ctx, cancel := context.WithTimeout(context.Background(), copyWait)
	defer cancel()
	found := map[string]backend.Copy{}
	for _, c := range s.plan.copies {
		if c.Text != "" || !slices.ContainsFunc(c.targets, func(at string) bool { return slices.Contains(s.isolation.OwnCopies, at) }) {
			continue
		}
		rel := strings.TrimPrefix(c.inside, copiesDir+"/")
		text, err := hostpath.Read(ctx, fmt.Sprintf("/proc/self/fd/%d", s.copies.Fd()), path.Clean(rel), maxCopy)
		found[c.File] = backend.Copy{Text: text, Err: err}
	}
	return found
}
