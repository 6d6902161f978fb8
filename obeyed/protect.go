package obeyed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/gitconfig"
	"github.com/paddock-dev/paddock/policy"
)

// Protection lists the paths that commands of a sandbox must not change, and the paths that
// are compared after their end because they may have changed them.
type Protection struct {
	// Guards are the paths to make read-only: those of the unasked entries of
	// [policy.Inventory] that exist, and those that git's configuration and links name.
	Guards []backend.Guard
	// Watch are paths in writable mounts that git's configuration or links name, whether
	// they are in Guards or not. They are compared, like those of the inventory.
	Watch []policy.Obeyed // with absolute paths
	// Unread are files of git's configuration that could not be read. They may name
	// anything in the mounts.
	Unread []string
	// Lost are places that were not searched, with the reasons.
	Lost []string
	// Relative says that the user's configuration of git may name programs by paths
	// relative to the repository. Then each new repository matters.
	Relative bool
	// Opened says which protected paths the operator has opened by mounting them.
	Opened []string
	// Homes are the homes of this host's users, for [Watch]; nil: nothing was read.
	Homes []string
	// tree has the names in the writable mounts; nil: nothing was read.
	tree *Names
}

// Take begins a [Take] that uses the names which [Protect] has read already. The
// function that it returns waits for the end.
func (p Protection) Take(ctx context.Context, watch Watch) (wait func() *Snapshot) {
	return Begin(ctx, watch, p.tree)
}

// Tree has the names in the writable mounts; nil if they were not read.
func (p Protection) Tree() *Names { return p.tree }

// Parse has git parse the text of one configuration file, and returns the output of
// "git config --file - --null --list". The text is hostile.
type Parse func(ctx context.Context, text []byte) ([]byte, error)

// maxNamed is how many paths are guarded because configuration or a link names them.
const maxNamed = 256

// maxLost is how many places that were not searched are reported.
const maxLost = 8

// budget limits the reading of configuration. All repositories share one. The user's own
// configuration has one for each kind of worktree that it is read for, so that no
// repository prevents it from being read.
type budget struct {
	files  int // that were read
	parsed int // of these, how many git has parsed
	looks  int // how many more lookups of paths that they name are allowed
}

// protector finds the paths to protect. Its mounts are the writable ones.
type protector struct {
	ctx      context.Context
	open     []string
	byName   bool // mounts of protected paths are the operator's
	mounts   []hostpath.Mount
	parse    Parse
	homes    hostpath.Users
	seen     statCache
	listed   map[string]map[string]bool
	guards   map[string]bool
	entered  map[string]bool // directories that their owners may enter, see closed
	met      map[string]bool // those that a comparison finds by their names
	reported map[string]bool // mounts of protected paths that Opened reports
	covered  map[string]bool // directories of Paddock's own, which no command of this sandbox sees
	out      Protection

	repositories []*repository
	hooks        []hookDir
	budget                                    // for configuration that is read now
	plain        map[string][]gitconfig.Entry // git's output for texts
	named        int                          // guards that are not of the inventory
	nestedNamed  int                          // those of nested repositories

	beyond        bool // nothing is guarded where repositories are looked for now
	alleged       bool // a repository says itself where the worktree that is added is
	nested        int  // nested repositories that are guarded
	held          int  // repositories whose modules and worktrees were looked for
	searchedNames int
	tree          *Names
}

// Protect finds the files that the host executes or obeys in the writable ones of these
// mounts. Directories above a mount count as well as those in it, since a mount can begin
// anywhere in the host's tree. A mount of a protected path is refused, unless the operator
// has opened it; a workspace that is, or is in, a protected path is always refused. parse is
// nil if there is no git. If nothing is protected, because the operator has opened everything
// or the backend has no walls, Protect returns only the paths to compare.
func Protect(ctx context.Context, req backend.Request, mounts []hostpath.Mount, parse Parse) (Protection, error) {
	p := &protector{ctx: ctx, open: req.Spec.Workspace.Unprotected, byName: !req.NoLinks, parse: parse,
		homes: hostpath.FindUsers(), seen: statCache{}, listed: map[string]map[string]bool{}, guards: map[string]bool{}, entered: map[string]bool{}, met: map[string]bool{}, plain: map[string][]gitconfig.Entry{}, reported: map[string]bool{}, covered: map[string]bool{}}
	covers, _ := hostpath.Covers(req, mounts) // where one cannot be covered, the backend refuses the start
	for _, c := range covers {
		if c.Hidden && c.Dir {
			p.covered[c.Path] = true
		}
	}
	var dirs []string // among them
	for _, m := range mounts {
		if m.Writable && !m.Copied && m.Stored == nil {
			p.mounts = append(p.mounts, m)
			if m.Dir {
				dirs = append(dirs, filepath.Clean(m.Source))
			}
		}
	}
	if len(p.mounts) == 0 {
		return Protection{Relative: true}, nil
	}
	if req.Spec.Backend == policy.BackendHost {
		p.open = []string{"*"}
	}
	reading, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	p.tree = ReadNames(reading, dirs)
	for _, step := range []func() error{p.refuse, p.findRepositories, p.guardWorktree, p.inventory, p.configuration, p.hookLinks} {
		if err := errors.Join(step(), ctx.Err()); err != nil {
			return Protection{}, err
		}
	}
	slices.SortStableFunc(p.out.Watch, func(a, b policy.Obeyed) int { return strings.Compare(a.Path, b.Path) })
	p.out.Watch = slices.CompactFunc(p.out.Watch, func(a, b policy.Obeyed) bool { return a.Path == b.Path })
	p.out.Homes, p.out.tree = p.homes.All(), p.tree
	slices.Sort(p.out.Unread)
	p.out.Unread = slices.Compact(p.out.Unread)
	p.out.Relative = p.out.Relative || len(p.out.Unread) > 0
	if slices.Contains(p.open, "*") {
		p.out.Unread, p.out.Lost, p.out.Relative = nil, nil, true // everything that is made is compared
	}
	return p.out, nil
}

// opened reports whether the spec opens a protected path, which is then only compared.
// ".git" opens everything in the repository's own directory.
func (p *protector) opened(name string) bool {
	return slices.Contains(p.open, name) || slices.Contains(p.open, "*") || hostpath.Under(name, ".git") && slices.Contains(p.open, ".git")
}

// above calls f with a directory and then with each one above it.
func above(dir string, f func(dir string) error) error {
	for {
		if err := f(dir); err != nil || dir == "/" {
			return err
		}
		dir = filepath.Dir(dir)
	}
}

// entries returns the entries of the inventory that apply in a directory of the host.
func (p *protector) entries(dir string) iter.Seq[*policy.Obeyed] {
	home, git := p.homes.Has(dir), p.isGitDir(dir)
	return func(yield func(*policy.Obeyed) bool) {
		for _, o := range inventory().readOnly {
			if (o.Under == policy.Home && !home || o.Under == policy.GitDir && !git) || yield(o) {
				continue
			}
			return
		}
	}
}

// refuse refuses mounts that are protected paths, or lie in one.
func (p *protector) refuse() error {
	for i := range p.mounts {
		m := &p.mounts[i]
		err := above(filepath.Dir(m.Source), func(dir string) error {
			below, _ := hostpath.Within(m.Source, dir)
			for o := range p.entries(dir) {
				rel, in := hostpath.Within(below, o.Path)
				first, _, _ := strings.Cut(rel, "/")
				if !in || !o.Dir && (m.Dir || rel != "") || rel != "" && slices.Contains(o.Except, first) || p.opened(o.Name()) {
					continue
				}
				if m.Field == "mounts" && p.byName {
					p.openedBy(m, o.Why)
					return fs.SkipAll
				}
				project := strings.TrimSuffix(dir, "/.git")
				return hostpath.Refuse(m.Field, m.Source, fmt.Sprintf("it belongs to %s of %s, which is protected: %s", o.Name(), project, o.Why), p.remedy(o.Name(), "name "+project))
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.SkipAll) {
			return err
		}
	}
	return nil
}

// remedy returns a hint that says how to open a protected path.
func (p *protector) remedy(name, other string) string {
	if !slices.Contains(policy.ProtectedPaths(), name) {
		name = "'*'"
	}
	return other + ", or allow changes with `workspace.unprotected` " + name
}

// inventory guards the entries of the inventory that exist, in and above each mount. In
// the user's own home it guards the targets of links that lead into a mount: files that the
// user stores elsewhere, under version control for example.
func (p *protector) inventory() error {
	for _, r := range p.repositories {
		if err := p.guardRepository(r); err != nil {
			return err
		}
	}
	done := map[string]bool{}
	for i := range p.mounts {
		m := &p.mounts[i]
		err := above(m.Source, func(dir string) error {
			if done[dir] {
				return nil
			}
			done[dir] = true
			for o := range p.entries(dir) {
				if o.Under == policy.GitDir || !p.mayHave(dir, o.Path) {
					continue
				}
				if err := p.guardEntry(o, filepath.Join(dir, o.Path)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	var tops []homeDir
	for _, o := range inventory().readOnly {
		if o.Under != policy.Home || p.homes.Own == "" || !p.mayHave(p.homes.Own, o.Path) {
			continue
		}
		at := filepath.Join(p.homes.Own, o.Path)
		if err := p.guardEntry(o, at); err != nil {
			return err
		}
		if o.Dir {
			tops = append(tops, homeDir{at, o})
		}
	}
	return p.homeLinks(tops)
}

// homeDir is a directory of the user's home, and the entry that it is, or is in.
type homeDir struct {
	at string
	by *policy.Obeyed
}

// maxHomeDirs is how many directories of a home are searched for links, those nearest to the home first:
// some hold the plugins of an editor.
const maxHomeDirs = 128

// homeLinks guards what links in directories of the user's home lead to in a mount, as people make them
// who keep such files under version control.
func (p *protector) homeLinks(queue []homeDir) error {
	tops := len(queue)
	for n := 0; n < min(len(queue), maxHomeDirs); n++ {
		dir, o := queue[n].at, queue[n].by
		if n < tops {
			var err error
			if dir, _, err = p.resolve(dir); err != nil {
				continue
			}
		}
		if p.below(dir) { // it is guarded itself
			continue
		}
		entries, _ := readDir(dir)
		for _, e := range entries {
			switch at := filepath.Join(dir, e.Name()); {
			case n < tops && slices.Contains(o.Except, e.Name()):
			case e.IsDir():
				queue = append(queue, homeDir{at, o})
			case e.Type()&fs.ModeSymlink != 0:
				if err := p.guardEntry(o, at); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// mountOf returns the mount that holds a path, or the first.
func (p *protector) mountOf(at string) *hostpath.Mount {
	for i := range p.mounts {
		if _, ok := hostpath.Within(at, p.mounts[i].Source); ok {
			return &p.mounts[i]
		}
	}
	return &p.mounts[0]
}

// below reports whether a path is in a writable mount, but is not a mount itself.
func (p *protector) below(at string) bool {
	return slices.ContainsFunc(p.mounts, func(m hostpath.Mount) bool {
		rel, ok := hostpath.Within(at, m.Source)
		return ok && rel != ""
	})
}
