package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
)

// Protection is what commands of a sandbox must not change, and what they may
// have changed of that when it has ended.
type Protection struct {
	// Guards are the paths to be made read-only: what exists of the unasked
	// entries of [policy.Inventory], and what git's configuration and links name.
	Guards []backend.Guard
	// Watch are paths in writable mounts that are obeyed and cannot be read-only,
	// because they do not exist or daily work changes them: to be compared,
	// beside what the inventory says.
	Watch []string
	// Unread is git's configuration that could not be read: then everything in
	// the mounts may be named there.
	Unread []string
	// Lost says where nothing was looked at, and why.
	Lost []string
	// Relative says that the user's configuration of git may name programs by paths
	// relative to the repository: then each new repository matters.
	Relative bool
	// Opened says which protected paths the operator has opened by mounting them.
	Opened []string
	// Homes are those of this host's users, for [Watch]; nil: nothing was looked at.
	Homes []string
	// tree is what was read of the writable mounts; nil: nothing was.
	tree *names
}

// Parse has git parse the text of one file of configuration, and returns what
// "git config --file - --null --list" prints. The text is hostile.
type Parse func(ctx context.Context, text []byte) ([]byte, error)

// maxNamed bounds the paths that are guarded because configuration or a link
// names them.
const maxNamed = 256

// maxLost bounds what is told of places that were not looked at.
const maxLost = 8

// protector finds what is protected. Its mounts are the writable ones.
type protector struct {
	ctx     context.Context
	open    []string
	byName  bool // mounts of protected paths are the operator's
	mounts  []Mount
	parse   Parse
	homes   users
	seen    statCache
	listed  map[string]map[string]bool
	guards  map[string]bool
	entered map[string]bool // directories that their owners may enter, see closed
	told    map[string]bool // mounts of protected paths that Opened tells of
	out     Protection

	repositories []*repository
	hooks        []hookDir
	files        int // of configuration that were read
	parsed       int // of these, how many git has parsed
	looks        int // at what they name, that are left
	named        int // guards that are not of the inventory

	beyond        bool // nothing is guarded where repositories are looked for now
	nested        int  // nested repositories that are guarded
	held          int  // repositories whose modules and worktrees were looked for
	searchedNames int
	tree          *names
}

// Protect finds what the host executes or obeys in the writable ones of these
// mounts, wherever in the tree of the host they begin: what lies above a mount
// counts as much as what lies in it. A mount of a protected path is refused,
// unless the operator has opened it; a workspace that is one, or lies in one,
// always is. parse may be nil: there is no git.
func Protect(ctx context.Context, req backend.Request, mounts []Mount, parse Parse) (Protection, error) {
	p := &protector{ctx: ctx, open: req.Spec.Workspace.Unprotected, byName: !req.NoLinks, parse: parse,
		homes: findUsers(), seen: statCache{}, listed: map[string]map[string]bool{}, guards: map[string]bool{}, entered: map[string]bool{}, told: map[string]bool{}}
	var dirs []string // among them
	for _, m := range mounts {
		if m.Writable && !m.Copied {
			p.mounts = append(p.mounts, m)
			if m.Dir {
				dirs = append(dirs, filepath.Clean(m.Source))
			}
		}
	}
	if len(p.mounts) == 0 || slices.Contains(p.open, "*") {
		return Protection{Relative: true}, nil
	}
	reading, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	p.tree = readNames(reading, dirs)
	for _, step := range []func() error{p.refuse, p.findRepositories, p.inventory, p.configuration, p.hookLinks} {
		if err := errors.Join(step(), ctx.Err()); err != nil {
			return Protection{}, err
		}
	}
	slices.Sort(p.out.Watch)
	p.out.Watch = slices.Compact(p.out.Watch)
	p.out.Homes, p.out.tree = p.homes.all(), p.tree
	slices.Sort(p.out.Unread)
	p.out.Unread = slices.Compact(p.out.Unread)
	p.out.Relative = p.out.Relative || len(p.out.Unread) > 0
	return p.out, nil
}

// opened reports whether the spec opens a protected path; ".git" opens all of the
// repository's own.
func (p *protector) opened(name string) bool {
	return slices.Contains(p.open, name) || under(name, ".git") && slices.Contains(p.open, ".git")
}

// above calls f with a directory and all those above it, itself first.
func above(dir string, f func(dir string) error) error {
	for {
		if err := f(dir); err != nil || dir == "/" {
			return err
		}
		dir = filepath.Dir(dir)
	}
}

// entries gives those that count in a directory of the host.
func (p *protector) entries(dir string) iter.Seq[*policy.Obeyed] {
	home, git := p.homes.has(dir), p.isGitDir(dir)
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
			below, _ := Within(m.Source, dir)
			for o := range p.entries(dir) {
				rel, in := Within(below, o.Path)
				first, _, _ := strings.Cut(rel, "/")
				if !in || !o.Dir && (m.Dir || rel != "") || rel != "" && slices.Contains(o.Except, first) || p.opened(o.Name()) {
					continue
				}
				if m.Field == "mounts" && p.byName {
					p.openedBy(m, o.Why)
					return fs.SkipAll
				}
				project := strings.TrimSuffix(dir, "/.git")
				return Refuse(m.Field, m.Source, fmt.Sprintf("it belongs to %s of %s, which is protected: %s", o.Name(), project, o.Why), p.remedy(o.Name(), "name "+project))
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.SkipAll) {
			return err
		}
	}
	return nil
}

// remedy is a hint that says how a protected path is opened.
func (p *protector) remedy(name, other string) string {
	if !slices.Contains(policy.ProtectedPaths(), name) {
		name = "'*'"
	}
	return other + ", or allow changes with --unprotect " + name
}

// inventory guards what exists of the inventory, in and above each mount.
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
	return p.home()
}

// home guards what the links of the user's own home lead to in a mount: files
// that are kept elsewhere, under version control say.
func (p *protector) home() error {
	for _, o := range inventory().readOnly {
		if o.Under != policy.Home || p.homes.own == "" || !p.mayHave(p.homes.own, o.Path) {
			continue
		}
		if err := p.guardEntry(o, filepath.Join(p.homes.own, o.Path)); err != nil {
			return err
		}
	}
	return nil
}

// guardEntry guards an entry of the inventory, if it exists. What is no link
// and not there is left to the comparison. So is a link of a project's or a home's
// that commands could replace: what it leads to is guarded, and results tell of it.
func (p *protector) guardEntry(o *policy.Obeyed, at string) error {
	if p.opened(o.Name()) {
		return nil
	}
	found, info, err := p.resolve(at)
	var link *changeableLinkError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil && !p.below(at) && !errors.As(err, &link):
		return nil // the host's programs cannot use it either
	case errors.As(err, &link) && o.Under != policy.GitDir && o.Path != ".git":
		p.watch(link.at)
		found = Real(at)
		if info, err = os.Lstat(found); err != nil || info.IsDir() && !o.Dir {
			return nil //nolint:nilerr // what is not there is compared alone
		}
		rel, _ := Within(link.at, p.mountOf(link.at).Source)
		p.lose(rel + " is a symbolic link, which commands can replace: it is compared when they have ended")
	case err != nil:
		return p.unguarded(at, o.Name(), err)
	case info.IsDir() && !o.Dir:
		return nil
	}
	c := claim{at: at, why: o.Why, opens: o.Name(), except: o.Except}
	if o.Repositories {
		return p.refuseMounted(found, c)
	}
	return p.guard(found, c)
}

// mountOf is the mount that holds a path, or the first.
func (p *protector) mountOf(at string) *Mount {
	for i := range p.mounts {
		if _, ok := Within(at, p.mounts[i].Source); ok {
			return &p.mounts[i]
		}
	}
	return &p.mounts[0]
}

// below reports whether a path lies in a writable mount, and is not one itself.
func (p *protector) below(at string) bool {
	return slices.ContainsFunc(p.mounts, func(m Mount) bool {
		rel, ok := Within(at, m.Source)
		return ok && rel != ""
	})
}

// guarded reports whether a path is guarded, or lies in what is.
func (p *protector) guarded(at string) bool {
	for ; at != "/"; at = filepath.Dir(at) {
		if p.guards[at] {
			return true
		}
	}
	return false
}

// claim says why a path is protected.
type claim struct {
	at     string // what leads to it: its own name, a link, or a file of configuration
	why    string
	opens  string   // what in Unprotected lets commands change it
	except []string // names directly below it that are not meant
	nested bool     // commands may have made it so
	beyond bool     // it is only watched
}

// guard has a path read-only, where commands could change it.
func (p *protector) guard(found string, c claim) error {
	if err := p.refuseMounted(found, c); err != nil {
		return err
	}
	if p.below(found) && !p.guarded(found) {
		if err := p.closed(found); err != nil {
			return err
		}
		p.guards[found] = true
		p.out.Guards = append(p.out.Guards, backend.Guard{File: found, Why: c.why})
	}
	return nil
}

// guardNamed is guard for what configuration or a link names.
func (p *protector) guardNamed(found string, c claim) error {
	if c.beyond {
		p.watch(found)
		return p.refuseMounted(found, c)
	}
	if p.below(found) && !p.guarded(found) {
		if p.named++; p.named > maxNamed {
			p.out.Watch = append(p.out.Watch, found)
			return p.refuseMounted(found, c)
		}
	}
	return p.guard(found, c)
}

// refuseMounted refuses mounts that are a protected path, or lie in one, by
// whatever name the host comes there. What the operator has mounted, and what
// only a nested repository says of a mount, is told and compared instead.
func (p *protector) refuseMounted(found string, c claim) error {
	for i := range p.mounts {
		m := &p.mounts[i]
		rel, in := Within(m.Source, found)
		first, _, _ := strings.Cut(rel, "/")
		if !in || rel != "" && slices.Contains(c.except, first) {
			continue
		}
		if !c.nested && (m.Field != "mounts" || !p.byName) {
			how := "it is protected: "
			if c.at != m.Source {
				how = c.at + " leads to it, which is protected: "
			}
			return Refuse(m.Field, m.Source, how+c.why, p.remedy(c.opens, "name another path"))
		}
		if !p.told[m.Source] { // else it is compared by its name
			p.out.Watch = append(p.out.Watch, m.Source)
		}
		p.openedBy(m, c.why)
	}
	return nil
}

// openedBy tells once that commands can change what the host obeys, because a
// mount says so.
func (p *protector) openedBy(m *Mount, why string) {
	if p.told[m.Source] {
		return
	}
	p.told[m.Source] = true
	p.out.Opened = append(p.out.Opened, Printable(m.Source+" can be changed, because it is mounted: "+why))
}

// lose tells of a place that was not looked at, as often as a person may read.
func (p *protector) lose(why string) {
	why = Printable(why)
	if len(p.out.Lost) < maxLost && !slices.Contains(p.out.Lost, why) {
		p.out.Lost = append(p.out.Lost, why)
	}
}

func (p *protector) watch(at string) {
	if p.below(at) && !p.guarded(at) {
		p.out.Watch = append(p.out.Watch, at)
	}
}
