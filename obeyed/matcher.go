package obeyed

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// caches are directories that tools fill. Only entries that apply everywhere apply there,
// since one installation brings thousands of files that match the others.
var caches = map[string]bool{
	"node_modules": true, "bower_components": true, "vendor": true, "site-packages": true, ".venv": true, "venv": true, ".tox": true, ".nox": true,
	".yarn": true, ".pnpm-store": true, ".cargo": true, "target": true, ".gradle": true, ".m2": true, ".terraform": true, "Pods": true, "Carthage": true,
	".bundle": true, "third_party": true, "__pycache__": true, ".cache": true, ".next": true, ".nuxt": true, "_build": true, ".build": true,
}

// Fills reports whether tools fill directories of a name.
func Fills(name string) bool { return caches[name] }

// writtenDirs are directories in a repository's own directory in which git writes files
// whose names, or content, commands can choose.
var writtenDirs = map[string]bool{"logs": true, "refs": true, "info": true, "rr-cache": true, "rebase-merge": true, "rebase-apply": true, "sequencer": true, "NOTES_MERGE_WORKTREE": true}

// heldDirs are directories in a repository's own directory that hold its content, in many
// directories, or that are entries of the inventory themselves. Files in them are examined
// only if one of git's files leads there.
var heldDirs = map[string]bool{"objects": true, "hooks": true, "lfs": true, "annex": true}

// writtenThrough stands for a link in a repository's own directory that is not a path of
// the inventory.
var writtenThrough = &policy.Obeyed{Under: policy.GitDir, Class: policy.Unasked, Everywhere: true, Tool: "git", Why: "it is a link, and git writes through it"}

// intoGit stands for a link into a repository's own directory, where only git's own files
// are looked at.
var intoGit = &policy.Obeyed{Class: policy.Unasked, Everywhere: true, Tool: "git", Why: "it is a link into a repository's own directory: what lies there is not compared"}

// matcher finds the entries of the inventory.
type matcher struct {
	project, git index
	home         []*policy.Obeyed
	// readOnly are the entries that are read-only, and parts the names in their paths, in lower case.
	readOnly []*policy.Obeyed
	parts    map[string]bool
}

// index finds entries by the first names of their paths.
type index struct {
	all    []*policy.Obeyed
	first  map[string][]*policy.Obeyed
	folded func() map[string][]*policy.Obeyed // the same, by folded names
}

// inventory returns the matcher of [policy.Inventory].
var inventory = sync.OnceValue(func() *matcher {
	list := policy.Inventory()
	m := &matcher{project: index{first: make(map[string][]*policy.Obeyed, len(list))}, git: index{first: map[string][]*policy.Obeyed{}}, parts: make(map[string]bool, len(list))}
	for i := range list {
		o := &list[i]
		switch o.Under {
		case policy.GitDir:
			m.git.add(o)
		case policy.Project:
			m.project.add(o)
		case policy.Home:
			m.home = append(m.home, o)
		}
		if o.ReadOnly() {
			m.readOnly = append(m.readOnly, o)
			for part := range strings.SplitSeq(strings.ToLower(o.Path), "/") {
				m.parts[part] = true
			}
		}
	}
	for _, x := range []*index{&m.project, &m.git} {
		x.folded = sync.OnceValue(x.fold)
	}
	return m
})

func (x *index) add(o *policy.Obeyed) {
	key := firstOf(o)
	x.all = append(x.all, o)
	x.first[key] = append(x.first[key], o)
}

func (x *index) fold() map[string][]*policy.Obeyed {
	folded := make(map[string][]*policy.Obeyed, len(x.first))
	for _, o := range x.all {
		key := foldName(firstOf(o))
		folded[key] = append(folded[key], o)
	}
	return folded
}

// firstOf returns the first name of an entry's path, with "*" before it if it is how names end.
func firstOf(o *policy.Obeyed) string {
	first, _, below := strings.Cut(o.Path, "/")
	if o.Ending && !below {
		return "*" + first
	}
	return first
}

// named returns the entries whose paths begin with a name, and those that are how it ends.
func (x *index) named(name string) []*policy.Obeyed { return find(x.first, name, filepath.Ext(name)) }

// alike returns the entries that named returns for a name, or for another one that some file systems do
// not tell from it.
func (x *index) alike(name string) []*policy.Obeyed {
	return find(x.folded(), foldName(name), foldName(filepath.Ext(name)))
}

func find(by map[string][]*policy.Obeyed, name, ext string) []*policy.Obeyed {
	if endings := by["*"+ext]; ext != "" && ext != name && endings != nil {
		return slices.Concat(by[name], endings)
	}
	return by[name]
}

// in returns the index for a directory, or nil.
func (m *matcher) in(what kind) *index {
	switch what {
	case written:
		return nil
	case plain:
		return &m.project
	}
	return &m.git
}

// around finds the paths below a root that matter because of the directories above it, and
// those in it that matter because of homes.
func (m *matcher) around(root string, homes []string) []link {
	var found []link
	below := func(dir string, list []*policy.Obeyed) {
		at, _ := hostpath.Within(root, dir) // the root's path, relative as in the entries
		for _, o := range list {
			if _, in := hostpath.Within(o.Path, at); in && o.Path != at {
				found = append(found, link{to: filepath.Join(dir, o.Path), by: o})
				continue
			}
			rest, holds := hostpath.Within(at, o.Path)
			if first, _, _ := strings.Cut(rest, "/"); holds && o.With == nil && !slices.Contains(o.Except, first) {
				found = append(found, link{to: root, by: o})
			}
		}
	}
	for dir := root; dir != "/"; {
		dir = filepath.Dir(dir)
		rel, _ := hostpath.Within(root, dir)
		first, _, _ := strings.Cut(rel, "/")
		below(dir, m.project.first[first])
		if list := m.git.first[first]; len(list) > 0 && isGitDir(dir) {
			below(dir, list)
		}
	}
	for _, home := range homes {
		if _, in := hostpath.Within(root, home); in && root != home {
			below(home, m.home)
			continue
		}
		if _, in := hostpath.Within(home, root); in {
			for _, o := range m.home {
				found = append(found, link{to: filepath.Join(home, o.Path), by: o})
			}
		}
	}
	return found
}

// isGitDir reports whether git treats a directory as a repository's own.
func isGitDir(dir string) bool {
	return filepath.Base(dir) == ".git" || hasRepository(func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	})
}

// hasRepository reports whether the names in a directory are those of a repository.
func hasRepository(has func(name string) bool) bool {
	return has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}
