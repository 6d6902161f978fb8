package obeyed

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
)

// hookDir is a directory whose files git runs as hooks. It need not lie in a mount.
type hookDir struct {
	dir    string
	opens  string // the name in Unprotected that lets commands change it
	nested bool
	own    map[string]bool // as in claim
	beyond bool            // targets of links in it are watched, but not guarded
}

// hookDirs are the read-only entries of the inventory that hold hooks, besides the
// repository's own.
var hookDirs = []string{".husky", ".githooks", ".git-hooks", ".lefthook", ".github/hooks", ".clinerules/hooks"}

// addHooks adds a directory of hooks to those whose links are checked.
func (p *protector) addHooks(dir, opens string, nested bool, own map[string]bool, beyond bool) {
	if p.opened(opens) {
		nested, beyond = true, true
	}
	p.hooks = append(p.hooks, hookDir{dir, opens, nested, own, beyond})
}

// hookLinks guards what hooks that are links lead to in a mount.
func (p *protector) hookLinks() error {
	for _, r := range p.repositories {
		p.addHooks(filepath.Join(r.dir, "hooks"), ".git/hooks", r.nested, r.own, r.beyond)
	}
	for i := range p.mounts {
		_ = above(p.mounts[i].Source, func(dir string) error {
			for _, name := range hookDirs {
				if !p.mayHave(dir, name) {
					continue
				}
				p.addHooks(filepath.Join(dir, name), name, false, nil, false)
			}
			return nil
		})
	}
	weaker := func(h hookDir) int {
		switch {
		case h.beyond:
			return 2
		case h.nested:
			return 1
		}
		return 0
	}
	// The strongest first: a directory that is named again stays as well protected.
	slices.SortStableFunc(p.hooks, func(a, b hookDir) int { return weaker(a) - weaker(b) })
	done := map[string]bool{}
	for _, h := range p.hooks {
		if done[h.dir] {
			continue
		}
		done[h.dir] = true
		found, info, err := p.find(h.dir, h.opens)
		if err == nil && !info.IsDir() || err != nil && !errors.Is(err, unix.EACCES) {
			continue
		}
		var entries []fs.DirEntry
		if err == nil {
			entries, err = readDir(found)
		}
		if err != nil {
			if err := p.doubtful(found, found, h.opens, h.nested, err); err != nil {
				return err
			}
		}
		for _, e := range entries {
			if e.Type()&fs.ModeSymlink == 0 {
				continue
			}
			if err := p.hookLink(h, filepath.Join(found, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// hookLink guards the target of a hook that is a link.
func (p *protector) hookLink(h hookDir, at string) error {
	found, info, err := p.resolve(at)
	if !h.beyond && !p.made(found) {
		if err := p.shut(found, err); err != nil {
			return err
		}
	}
	var link *changeableLinkError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.watch(found)
	case errors.As(err, &link) && !h.nested && !p.made(link.at):
		m := p.mountOf(link.at)
		where, _ := hostpath.Within(link.at, m.Source)
		return &LinkError{hostpath.Refuse(m.Field, m.Source, where+" is a symbolic link, and the hook "+at+" leads through it, so it cannot be protected",
			p.remedy(h.opens, "let the hook lead to the file itself"))}
	case err != nil:
		p.watch(found)
	case info.Mode().IsRegular() && !p.made(found):
		return p.guardNamed(found, claim{at: at, why: "the hook " + filepath.Base(at) + " is a link to it", opens: h.opens, nested: h.nested, own: h.own, beyond: h.beyond})
	default:
		p.watch(found)
	}
	return nil
}
