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

// WrittenDirs are directories in a repository's own directory in which git writes files
// whose names, or content, commands can choose.
var WrittenDirs = map[string]bool{"logs": true, "refs": true, "info": true, "rr-cache": true, "rebase-merge": true, "rebase-apply": true, "sequencer": true, "NOTES_MERGE_WORKTREE": true}

// HeldDirs are directories in a repository's own directory that hold its content, in many
// directories, or that are entries of the inventory themselves. Files in them are examined
// only if one of git's files leads there.
var HeldDirs = map[string]bool{"objects": true, "hooks": true, "lfs": true, "annex": true}

// writtenThrough stands for a link in a repository's own directory that is not a path of
// the inventory.
var writtenThrough = &policy.Obeyed{Under: policy.GitDir, Class: policy.Unasked, Everywhere: true, Tool: "git", Why: "it is a link, and git writes through it"}

// intoGit stands for a link into a repository's own directory, where only git's own files
// are looked at.
var intoGit = &policy.Obeyed{Class: policy.Unasked, Everywhere: true, Tool: "git", Why: "it is a link into a repository's own directory: what lies there is not compared"}

// matcher finds the entries of the inventory by the first name of their paths.
type matcher struct {
	root, nested, repository map[string][]*policy.Obeyed
	git, home                []*policy.Obeyed
	// ReadOnly are the entries that are read-only, and Parts the names in their
	// paths, in lower case.
	ReadOnly []*policy.Obeyed
	Parts    map[string]bool
}

// Inventory returns the matcher of [policy.Inventory].
var Inventory = sync.OnceValue(func() *matcher {
	inventory := policy.Inventory()
	m := &matcher{root: make(map[string][]*policy.Obeyed, len(inventory)), nested: map[string][]*policy.Obeyed{}, repository: map[string][]*policy.Obeyed{},
		Parts: make(map[string]bool, len(inventory))}
	for i := range inventory {
		o := &inventory[i]
		first, _, below := strings.Cut(o.Path, "/")
		if o.Ending {
			if below {
				continue
			}
			first = "*" + first
		}
		switch o.Under {
		case policy.GitDir:
			m.git = append(m.git, o)
			m.repository[first] = append(m.repository[first], o)
		case policy.Project:
			m.root[first] = append(m.root[first], o)
			if o.Nested {
				m.nested[first] = append(m.nested[first], o)
			}
		case policy.Home:
			m.home = append(m.home, o)
		}
		if o.ReadOnly() {
			m.ReadOnly = append(m.ReadOnly, o)
			for part := range strings.SplitSeq(strings.ToLower(o.Path), "/") {
				m.Parts[part] = true
			}
		}
	}
	return m
})

// firsts returns the entries that apply in a directory, by the first name of their paths.
func (m *matcher) firsts(what kind, root bool) map[string][]*policy.Obeyed {
	switch {
	case what == written:
		return nil
	case what != plain:
		return m.repository
	case root:
		return m.root
	}
	return m.nested
}

// named returns the entries of firsts whose paths begin with a name, and those that are how it ends.
func named(firsts map[string][]*policy.Obeyed, name string) (list, endings []*policy.Obeyed) {
	if ext := filepath.Ext(name); ext != "" && ext != name {
		endings = firsts["*"+ext]
	}
	return firsts[name], endings
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
		below(dir, m.root[first])
		if list := m.repository[first]; len(list) > 0 && isGitDir(dir) {
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
	has := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	return filepath.Base(dir) == ".git" || has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}
