package snapshot

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/backend/hostpath/gitconfig"
	"github.com/paddock-dev/paddock/policy"
)

// leads reads, of a file of git's, where it leads, and of configuration whether
// all of it is harmless.
func (i *item) leads(full, text string) {
	dir := filepath.Dir(full)
	switch name := i.by.Path; {
	case name == ".git":
		if to, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), "gitdir: "); ok {
			i.names(to, dir)
		}
	case name == "commondir":
		i.names(strings.TrimRight(text, "\r\n"), dir)
	case name == "config" && i.by.Under == policy.GitDir:
		settings, err := gitconfig.Parse([]byte(text))
		i.harmless = err == nil
		for _, s := range settings {
			if s.Key == "core.worktree" && !s.Bare {
				i.to = leadsBy(s.Value, dir)
				i.harmless = i.harmless && i.to != ""
				continue
			}
			i.harmless = i.harmless && policy.HarmlessGit(s.Key, s.Value)
		}
	}
}

// names takes the repository that a file of git's names, in a text that git ends at
// a NUL.
func (i *item) names(text, dir string) {
	i.to = leadsBy(text, dir)
	text, _, _ = strings.Cut(text, "\x00")
	i.repository = target(text, dir)
}

// leadsBy returns the path that git finds where a file in this directory says so, "" where
// the text alone does not tell: git ends it at a NUL, and ".." behind a name is
// elsewhere where the name is a link.
func leadsBy(text, dir string) string {
	rest := text
	for strings.HasPrefix(rest, "../") {
		rest = rest[len("../"):]
	}
	if strings.ContainsAny(text, "\x00\r\n") || rest != ".." && slices.Contains(strings.Split(rest, "/"), "..") {
		return ""
	}
	return gitconfig.Absolute(text, dir)
}

// dropQuiet drops what git itself makes in a new repository, where nothing of it
// has the host run anything. The changes are given by the path of their entry,
// and what they have made is in this snapshot.
func (s *Snapshot) dropQuiet(of map[string][]Change, until time.Time) {
	tops := slices.Sorted(maps.Keys(of))
	for n, top := range slices.Backward(tops) { // what lies in a directory before it
		if time.Now().After(until) {
			return // the rest is told
		}
		if list := of[top]; len(list) != 1 || list[0].Path != top || !list[0].Made {
			continue
		}
		i, dir, quiet := s.items[top], filepath.Dir(top), false
		switch git := i.by.Under == policy.GitDir; {
		case i.by.Repositories:
			first, _ := slices.BinarySearch(tops[n:], top+"/")
			last, _ := slices.BinarySearch(tops[n:], top+"0") // what follows a "/"
			quiet = i.kind == isDir && !slices.ContainsFunc(tops[n+first:n+last], func(other string) bool { return of[other] != nil })
		case git && i.by.Path == "hooks":
			quiet = i.kind == isDir // and nothing is in it but samples
		case git && i.by.Path == "config", i.by.Path == "HEAD" && i.kind == isMarker:
			quiet = s.harmless(dir)
		case git && i.by.Path == "commondir":
			quiet = i.kind == isFile && i.to == common(dir) && s.compared(i.to)
		case i.by.Path == ".git" && i.kind == isGit:
			quiet = s.harmless(top)
		case i.by.Path == ".git" && i.kind == isFile:
			if shared, linked := s.items[filepath.Join(i.to, "commondir")]; linked { // git reads that repository's configuration
				quiet = shared.to != "" && shared.to == common(i.to) && s.harmless(shared.to)
			} else {
				quiet = s.harmless(i.to) && s.items[filepath.Join(i.to, "config")].to == dir
			}
		}
		if quiet {
			delete(of, top)
		}
	}
}

// compared reports whether a directory is a repository's own, whose
// configuration is compared. The walk follows no link, so none leads there.
func (s *Snapshot) compared(dir string) bool {
	c, ok := s.items[filepath.Join(dir, "config")]
	return ok && c.by.Under == policy.GitDir && c.by.Path == "config" && c.kind == isFile
}

// harmless reports whether it is one whose configuration has git run nothing,
// nor work in a directory that does not lead back to it.
func (s *Snapshot) harmless(dir string) bool {
	c := s.items[filepath.Join(dir, "config")]
	return s.compared(dir) && c.harmless && (c.to == "" || s.items[filepath.Join(c.to, ".git")].to == dir)
}

// common returns the repository that a linked worktree's own directory lies in.
func common(dir string) string {
	if held := filepath.Dir(dir); filepath.Base(held) == "worktrees" {
		return filepath.Dir(held)
	}
	return ""
}

// takeResumed takes what git resumes out of the changes: one of a repository,
// the directory where there is one.
func takeResumed(of map[string][]Change) []Change {
	first := map[string]Change{} // by repository
	for top, list := range of {
		by := list[0].By
		dir, ok := strings.CutSuffix(top, "/"+by.Path)
		if !by.Resumes || !ok {
			continue
		}
		delete(of, top)
		if old, ok := first[dir]; !ok || by.Dir && !old.By.Dir || by.Dir == old.By.Dir && top < old.Path {
			first[dir] = Change{Path: top, Made: list[0].Path == top && list[0].Made, By: by}
		}
	}
	return slices.Collect(maps.Values(first))
}

// shorten drops what another change tells as well. The list is sorted.
func shorten(list []Change, repositories map[string]bool, until time.Time) []Change {
	all := slices.Clone(list)
	made := map[string]policy.Class{} // directories that were not there before
	return slices.DeleteFunc(list, func(c Change) bool {
		if time.Now().After(until) {
			return false
		}
		for dir := c.Path; len(made) > 0 && dir != "/" && dir != "."; {
			dir = filepath.Dir(dir)
			if class, ok := made[dir]; ok && (class == policy.Unasked || class == c.By.Class) {
				return true
			}
		}
		if c.Made && c.By.Dir {
			made[c.Path] = c.By.Class
		}
		if c.By.Path == ".git" { // told by what is in it, where it has something
			n, _ := slices.BinarySearchFunc(all, c.Path+"/", func(o Change, path string) int { return strings.Compare(o.Path, path) })
			return n < len(all) && strings.HasPrefix(all[n].Path, c.Path+"/")
		}
		return c.By.Under == policy.GitDir && repositories[strings.TrimSuffix(c.Path, "/"+c.By.Path)]
	})
}
