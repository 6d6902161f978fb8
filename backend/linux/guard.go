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
	return nil
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
