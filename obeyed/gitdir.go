package obeyed

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/gitconfig"
	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/policy"
)

// repository is a directory that git takes for a repository's own: ".git", a bare
// repository, the directory of a linked worktree or of a submodule.
type repository struct {
	dir    string
	roots  []string        // of its known worktrees: git runs programs there
	own    map[string]bool // the roots in which it was found, not only named by itself
	nested bool            // it lies somewhere in a mount, and not around one
	held   bool            // it lies in the modules or worktrees of another
	beyond bool            // nothing is guarded for it: files that it names are only watched
}

// Bounds of the search for nested repositories, which is breadth-first: first on the number
// that are guarded, then on the number whose configuration is read at all.
const (
	maxNested      = 64
	maxNestedDirs  = 256
	maxNestedDepth = 5
	maxDirEntries  = 4096

	maxSearched      = 1 << 14 // directories
	maxSearchedNames = 1 << 20
	maxRepositories  = 1024
)

// madeDirs are directories that tools can make again, and that people remove as a whole. A
// directory with a mount in it cannot be removed, so repositories that are found in these are
// not guarded.
var madeDirs = []string{".venv", ".tox", ".nox", ".terraform", "node_modules", "vendor", "build", "_build", "dist", "target", "out", "_deps", "deps", "Pods", "__pycache__", "venv"}

// isGitDir reports whether git treats a directory as a repository's own.
func (p *protector) isGitDir(dir string) bool {
	has := func(name string) bool { return p.seen.exists(filepath.Join(dir, name)) }
	return hasRepository(has) || filepath.Base(dir) == ".git" && has("config")
}

// findRepositories finds the repositories in and above each mount, and those that are
// nested in one.
func (p *protector) findRepositories() error {
	for i := range p.mounts {
		err := above(p.mounts[i].Source, func(dir string) error {
			if p.isGitDir(dir) {
				if err := p.addRepository(dir, dir, false); err != nil {
					return err
				}
			}
			return p.dotGit(dir, false)
		})
		if err != nil {
			return err
		}
	}
	if err := p.namedRepository(); err != nil {
		return err
	}
	if err := p.findHeld(); err != nil {
		return err
	}
	for i := range p.mounts {
		if m := &p.mounts[i]; m.Dir {
			if err := p.findNested(m.Source); err != nil {
				return err
			}
		}
	}
	return p.findHeld()
}

// dotGit adds the repository of a directory's ".git", if it has one: a directory, or a file
// that names one.
func (p *protector) dotGit(dir string, nested bool) error {
	at := filepath.Join(dir, ".git")
	found, info, err := p.find(at, ".git")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return p.doubtful(at, at, ".git", nested, err)
	case info.IsDir():
		return p.addRepository(found, dir, nested)
	}
	to, err := p.readPath(found, "gitdir: ")
	if err != nil {
		return p.doubtful(at, found, ".git", nested, err)
	}
	to, info, err = p.find(gitconfig.Absolute(to, filepath.Dir(found)), ".git")
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir():
		return nil // git refuses it
	case err != nil:
		return p.doubtful(at, to, ".git", nested, err)
	}
	return p.addRepository(to, dir, nested)
}

// readPath reads the path that is the content of one of git's files.
func (p *protector) readPath(file, prefix string) (string, error) {
	text, err := hostpath.Read(p.ctx, "/", file[1:], gitconfig.MaxPathFile)
	if err != nil {
		return "", err
	}
	return gitPath(text, prefix)
}

// addRepository adds a repository, and the one that it shares with other worktrees.
func (p *protector) addRepository(dir, root string, nested bool) error {
	beyond := p.beyond || p.opened(".git") || nested && (p.nested >= maxNested || p.openedIn(dir))
	if i := slices.IndexFunc(p.repositories, func(r *repository) bool { return r.dir == dir }); i >= 0 {
		r := p.repositories[i]
		r.beyond = r.beyond && (beyond || r.held)
		if !slices.Contains(r.roots, root) {
			r.roots = append(r.roots, root)
		}
		r.own[root] = r.own[root] || !p.alleged
		return nil
	}
	if nested && !beyond {
		p.nested++
	}
	p.repositories = append(p.repositories, &repository{dir: dir, roots: []string{root}, own: map[string]bool{root: !p.alleged}, nested: nested, beyond: beyond})
	at := filepath.Join(dir, "commondir")
	found, _, err := p.resolve(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var to string
	if err == nil {
		to, err = p.readPath(found, "")
	}
	var info fs.FileInfo
	if err == nil {
		to, info, err = p.resolve(gitconfig.Absolute(to, dir))
		found = to
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir():
		return nil
	case err != nil:
		return p.doubtful(at, found, ".git/commondir", nested, err)
	}
	return p.addRepository(to, root, nested)
}

// openedIn reports whether the operator has opened a nested repository, itself
// or the one that holds it.
func (p *protector) openedIn(dir string) bool {
	return slices.ContainsFunc(p.mounts, func(m hostpath.Mount) bool {
		return slices.ContainsFunc(p.open, func(name string) bool {
			_, in := hostpath.Within(dir, filepath.Join(m.Source, name))
			return in && policy.NestedRepository(name)
		})
	})
}

// findHeld searches for the repositories that other repositories in a mount hold: those of
// submodules and of linked worktrees.
func (p *protector) findHeld() error {
	defer func() { p.beyond = false }()
	for ; p.held < len(p.repositories); p.held++ {
		r := p.repositories[p.held]
		for _, o := range inventory().readOnly {
			top, info, err := p.resolve(filepath.Join(r.dir, o.Path))
			if !o.Repositories || err != nil || !info.IsDir() || !p.below(top) {
				continue
			}
			p.beyond = r.beyond || p.opened(o.Name())
			queue := []string{top}
			for searched := 0; searched < len(queue); searched++ {
				names, err := p.names(queue[searched])
				if errors.Is(err, unix.EACCES) {
					if err := p.unsearched(queue[searched], err); err != nil {
						return err
					}
					continue
				}
				if err == nil && names.head && searched > 0 {
					if err := p.addHeld(queue[searched]); err != nil {
						return err
					}
					// The search for what it holds comes later. A directory can easily be given
					// a HEAD, which must not hide other repositories in it.
					names.Dirs = slices.DeleteFunc(names.Dirs, func(name string) bool { return writtenDirs[name] || name == "modules" || name == "worktrees" })
				}
				if dir := queue[searched]; filepath.Base(dir) == "objects" {
					names.Dirs = slices.DeleteFunc(names.Dirs, func(name string) bool {
						return isObjects(name) && !p.seen.exists(filepath.Join(dir, name, "HEAD"))
					})
				}
				if err != nil || searched > maxSearched || p.searchedNames > maxSearchedNames || len(p.repositories) >= maxRepositories {
					p.lose("cannot look at all repositories in " + top + ": what git's configuration in the others names is not protected")
					break
				}
				for _, name := range names.Dirs {
					queue = append(queue, filepath.Join(queue[searched], name))
				}
			}
		}
	}
	return nil
}

// addHeld adds a submodule's repository, or that of a linked worktree, which names its
// worktree. A submodule's is named by core.worktree.
func (p *protector) addHeld(dir string) error {
	root := dir
	if file, err := p.readPath(filepath.Join(dir, "gitdir"), ""); err == nil && filepath.IsAbs(file) {
		root = filepath.Dir(file)
	}
	n := len(p.repositories)
	p.alleged = true
	err := p.addRepository(dir, root, true)
	p.alleged = false
	if n < len(p.repositories) {
		p.repositories[n].held = true
	}
	return err
}

// findNested searches for repositories below a directory. Of those that lie far below it,
// in what tools make, or in other repositories, it only reads the configuration.
func (p *protector) findNested(top string) error {
	type place struct {
		dir    string
		depth  int
		beyond bool
	}
	defer func() { p.beyond = false }()
	queue, looked := []place{{dir: top}}, 0
	for searched := 1; len(queue) > 0 && p.ctx.Err() == nil; searched++ {
		here := queue[0]
		queue = queue[1:]
		p.beyond = here.beyond || looked == maxNestedDirs || here.depth > maxNestedDepth
		if !p.beyond {
			looked++
		}
		names, err := p.names(here.dir)
		if err != nil {
			if err := p.unsearched(here.dir, err); err != nil {
				return err
			}
		}
		inside := false
		full := len(p.repositories) >= maxRepositories
		if here.depth > 0 && !full {
			switch {
			case names.git:
				inside = true
				err = p.dotGit(here.dir, true)
			case names.bare():
				inside = true
				err = p.addRepository(here.dir, here.dir, true)
			default:
				err = nil
			}
			if err != nil {
				return err
			}
		}
		if full || p.searchedNames > maxSearchedNames || searched+len(queue)+len(names.Dirs) > maxSearched {
			p.lose(fmt.Sprintf("%s has more directories or repositories than are looked at: what git's configuration in the others names is not protected", top))
			if full || p.searchedNames > maxSearchedNames {
				break
			}
			names.Dirs = names.Dirs[:max(0, maxSearched-searched-len(queue))]
		}
		for _, name := range names.Dirs {
			if at := filepath.Join(here.dir, name); !p.covered[at] {
				queue = append(queue, place{at, here.depth + 1, p.beyond || inside || slices.Contains(madeDirs, name)})
			}
		}
	}
	return p.ctx.Err()
}

// names returns the names in a directory that commands could have made.
func (p *protector) names(dir string) (DirNames, error) {
	if known, found := p.tree.Find(p.ctx, dir); found {
		known.Dirs = slices.DeleteFunc(known.Dirs, func(name string) bool { return name == ".git" })
		return known, nil
	}
	var n DirNames
	fd, err := dirfd.Open(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	switch {
	case dirfd.Gone(err):
		return n, nil
	case err != nil:
		return n, err
	}
	defer func() { _ = unix.Close(fd) }()
	err = dirfd.EachName(fd, func(name []byte, kind byte) bool {
		p.searchedNames++
		if n.note(name); string(name) == ".git" {
			return true
		}
		if kind == unix.DT_UNKNOWN {
			kind = dirfd.TypeOf(fd, string(name))
		}
		if kind == unix.DT_DIR && len(n.Dirs) < maxSearched {
			n.Dirs = append(n.Dirs, string(name))
		}
		return p.searchedNames <= maxSearchedNames
	})
	slices.Sort(n.Dirs)
	return n, err
}

// readDir lists a directory that commands could have made. It does not follow a link.
func readDir(dir string) ([]fs.DirEntry, error) {
	fd, err := dirfd.Open(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	entries, err := f.ReadDir(maxDirEntries)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, err
}

// nestedGuards are the paths that are guarded in a nested repository. The rest is only
// compared.
var nestedGuards = []string{"config", "config.worktree", "hooks"}

// guardRepository guards the files that git obeys in a repository. In a nested one it guards
// only the configuration and the hooks, since a directory with a mount in it cannot be removed.
func (p *protector) guardRepository(r *repository) error {
	if r.beyond {
		return nil // it is only compared
	}
	for _, o := range inventory().readOnly {
		if o.Under != policy.GitDir || !p.mayHave(r.dir, o.Path) || r.nested && !slices.Contains(nestedGuards, o.Path) {
			continue
		}
		at := filepath.Join(r.dir, o.Path)
		if err := p.closed(at); err != nil {
			return err
		}
		err := p.guardEntry(o, at)
		switch {
		case err == nil:
		case !r.nested:
			return err
		default:
			p.watch(at)
			if !p.below(at) {
				p.out.Unread = append(p.out.Unread, at)
			}
		}
	}
	for _, root := range r.roots {
		encloses := slices.ContainsFunc(p.mounts, func(m hostpath.Mount) bool { _, in := hostpath.Within(m.Source, root); return in })
		if at := filepath.Join(root, ".git"); encloses && root != r.dir && p.below(at) {
			if err := p.guardEntry(&policy.Obeyed{Path: ".git", Under: policy.Project, Why: "git finds the repository through it"}, at); err != nil {
				return err
			}
		}
	}
	return nil
}
