//go:build linux

package linux

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

// guarded is what commands must never be able to change although it may lie
// in something that they may write: Paddock's own state and programs.
type guarded struct {
	stateDir    string
	executables []string
}

// guard adds the steps that take guarded paths out of the writable mounts:
// the state is covered, programs and host-executed files become read-only.
//
// A path is only as safe as its parents: renaming one would leave the
// protection on the renamed directory, and the old name free. So each parent
// below the mount becomes a mount point itself, which the kernel refuses to
// rename or remove (rename(2), EBUSY).
func (b *builder) guard(g guarded, spec policy.Spec) error {
	if err := b.coverState(realPath(g.stateDir)); err != nil {
		return err
	}
	for _, m := range b.mounts {
		if m.writable {
			b.guardPrograms(m, g.executables)
		}
	}
	if ws := b.mounts[0]; ws.writable {
		return b.guardProtected(ws, spec.Workspace.Unprotected)
	}
	return nil
}

// coverState hides Paddock's state wherever a bind would show it, read-only
// ones included: a socket can be connected to through those as well.
func (b *builder) coverState(state string) error {
	if state == "" {
		return nil
	}
	for _, m := range b.mounts {
		if _, ok := within(m.source, state); ok {
			return badSource(m.field, m.source, "it is Paddock's own state", "name another directory, or move the state with PADDOCK_STATE_DIR")
		}
	}
	for _, s := range slices.Clone(b.plan.Setup) {
		rel, ok := within(state, s.Source)
		if s.Do != confine.OpBind || !ok {
			continue
		}
		if !slices.Contains(s.Flags, confine.FlagReadOnly) {
			b.pin(s.Target, path.Dir(rel))
		}
		b.add(confine.Step{Do: confine.OpTmpfs, Target: path.Join(s.Target, rel), Mode: 0o555, Size: 4096,
			Flags: []string{confine.FlagReadOnly, confine.FlagNoSuid, confine.FlagNoDev, confine.FlagNoExec, confine.FlagExisting},
			Why:   "Paddock's own state is not visible"})
	}
	return nil
}

// guardPrograms makes Paddock's programs read-only where they lie in a mount.
func (b *builder) guardPrograms(m userMount, executables []string) {
	for _, exe := range executables {
		exe := realPath(exe)
		if exe == "" {
			continue
		}
		if rel, ok := within(exe, m.source); ok {
			b.protect(m.target, rel, "Paddock's own program")
		}
	}
}

// guardProtected makes the files that the host executes or obeys read-only.
func (b *builder) guardProtected(ws userMount, open []string) error {
	if slices.Contains(open, "*") {
		return nil
	}
	b.guardGit(ws)
	for _, p := range policy.Protections() {
		if slices.Contains(open, p.Path) {
			continue
		}
		link, err := firstLink(ws.source, p.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			b.absent = append(b.absent, p.Path)
		case err != nil:
			return fail("plan", "protect", p.Path, err, "")
		case link != "":
			return badSource(ws.field, ws.source, link+" is a symbolic link, so "+p.Path+" cannot be protected",
				"replace the link, or allow changes with --unprotect "+p.Path)
		default:
			b.protect(ws.target, p.Path, p.Why)
		}
	}
	return nil
}

// guardGit protects what makes a ".git" the repository that it is.
func (b *builder) guardGit(ws userMount) {
	const commonDir = ".git/commondir"
	switch info, err := os.Lstat(filepath.Join(ws.source, ".git")); {
	case err != nil: // each path below it is absent, and reported as such
	case info.Mode().IsRegular():
		b.protect(ws.target, ".git", "git finds the repository through it")
	case exists(filepath.Join(ws.source, commonDir)):
		b.protect(ws.target, commonDir, "git takes its whole configuration from where it leads")
	default:
		b.absent = append(b.absent, commonDir)
	}
}

// firstLink names the first component of a path that is a symbolic link.
func firstLink(root, rel string) (string, error) {
	at := ""
	for _, part := range strings.Split(rel, "/") {
		at = path.Join(at, part)
		info, err := os.Lstat(filepath.Join(root, at))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || reason(err) == "not a directory" {
				return "", fs.ErrNotExist
			}
			return "", err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return at, nil
		}
	}
	return "", nil
}

// protect makes one path of a writable mount read-only.
func (b *builder) protect(target, rel, why string) {
	b.pin(target, path.Dir(rel))
	b.add(confine.Step{Do: confine.OpSelf, Target: path.Join(target, rel), Why: why,
		Flags: []string{confine.FlagReadOnly, confine.FlagNoSuid, confine.FlagNoDev}})
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

// realPath is the path free of symbolic links, or "" where it does not exist.
func realPath(p string) string {
	if p == "" {
		return ""
	}
	resolved, err := filepath.EvalSymlinks(p)
	if err != nil {
		return ""
	}
	return resolved
}
