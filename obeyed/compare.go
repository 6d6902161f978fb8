package obeyed

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/gitconfig"
	"github.com/paddock-dev/paddock/policy"
)

// MaxChanges is how many changes one comparison reports, and maxOf how many it reports of
// one directory before it reports the directory itself.
const (
	MaxChanges = 1000
	maxOf      = 3
)

// changes compares this snapshot with a later one. If it has not finished at until, it says so
// in the result. Its time is separate, because the look may have used up all of its own time.
func (s *Snapshot) changes(now *Snapshot, until time.Time) Changes {
	var found Changes
	var weak []string           // files that may have changed although nothing shows it
	of := map[string][]Change{} // by the path of the entry
	left := len(now.items)
	for full, i := range now.items {
		if time.Now().After(until) {
			break
		}
		left--
		was, there := s.items[full]
		if there && i.weak && i.kind == isFile && was.kind == isFile && i.id == was.id && (i.sum == "" || was.sum == "") {
			weak = append(weak, full)
		}
		moved := i.to != "" && i.by.Path == ".git" && s.items[filepath.Join(i.to, "config")].kind == isFile && !now.compared(i.to) // for example over a link
		if there && i.same(was) && !moved || !there && !s.reached(full) {
			continue
		}
		of[i.top] = append(of[i.top], Change{Path: full, Made: !there, By: *i.by})
	}
	repositories := map[string]bool{} // directories that have become one
	if !s.watch.Relative {
		now.dropQuiet(of, until)
	}
	found.List = takeResumed(of)
	for top, list := range of {
		entry := slices.IndexFunc(list, func(c Change) bool { return c.Path == top })
		switch {
		case entry >= 0:
			if len(list[entry].By.With) > 0 {
				repositories[filepath.Dir(top)] = true
			}
			found.List = append(found.List, list[entry])
		case len(list) <= maxOf:
			found.List = append(found.List, list...)
		default:
			found.List = append(found.List, Change{Path: filepath.Clean(top), By: list[0].By})
		}
	}
	slices.SortFunc(found.List, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	found.List = shorten(found.List, repositories, until)
	found.Unseen, found.Sockets = s.unlooked(now), s.newSockets(now, until)
	// Commands have ended: where something answers, they have not put it there.
	found.List = slices.DeleteFunc(found.List, func(c Change) bool { _, is := slices.BinarySearch(found.Sockets, c.Path); return is })
	if left > 0 {
		found.Unseen = append(found.Unseen, fmt.Sprintf("%d of %d paths that programs run or obey were not compared: time ran out", left, len(now.items)))
	}
	if len(weak) > 0 {
		found.Unseen = append(found.Unseen, fmt.Sprintf("%d files were not compared, since they are too large, or too many, for a file system whose times prove nothing: %s is one", len(weak), strconv.Quote(slices.Min(weak))))
	}
	// Paths that are obeyed unasked come first, and of each kind those that were there before:
	// commands can make any number of others, and would hide them where a list is cut.
	slices.SortStableFunc(found.List, func(a, b Change) int {
		return cmp.Or(strings.Compare(string(a.By.Class), string(b.By.Class)), madeLast(a)-madeLast(b))
	})
	if more := len(found.List) - MaxChanges; more > 0 {
		found.List = found.List[:MaxChanges]
		found.Unseen = append(found.Unseen, strconv.Itoa(more)+" more changes are not listed")
	}
	return found
}

// madeLast sorts files that were there before new ones.
func madeLast(c Change) int {
	if c.Made {
		return 1
	}
	return 0
}

// reached reports whether this snapshot got as far as the place of a path.
func (s *Snapshot) reached(full string) bool {
	if s.depth == 0 {
		return true
	}
	for _, root := range s.watch.Roots {
		if rel, in := hostpath.Within(full, root); in {
			return strings.Count(rel, "/") < s.depth
		}
	}
	return true
}

// leads reads where one of git's files leads and, if it is configuration, whether all of it
// is harmless.
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

// names sets the repository that one of git's files names. git ends the text at a NUL.
func (i *item) names(text, dir string) {
	i.to = leadsBy(text, dir)
	text, _, _ = strings.Cut(text, "\x00")
	i.repository = target(text, dir)
}

// leadsBy returns the path that git finds by a text in a file in this directory, or "" if the
// text alone does not tell: git ends it at a NUL, and ".." after a name leads elsewhere if
// the name is a link.
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

// dropQuiet drops the files that git itself makes in a new repository, if none of them makes
// the host run anything. The changes are given by the paths of their entries. s is the later
// snapshot, which has the state after the changes.
func (s *Snapshot) dropQuiet(of map[string][]Change, until time.Time) {
	tops := slices.Sorted(maps.Keys(of))
	for n, top := range slices.Backward(tops) { // the content of a directory before the directory
		if time.Now().After(until) {
			return // the rest is reported
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
			quiet = i.kind == isDir // with nothing but samples in it
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

// compared reports whether a directory is a repository's own whose configuration is
// compared. The walk follows no link, so the path has none.
func (s *Snapshot) compared(dir string) bool {
	c, ok := s.items[filepath.Join(dir, "config")]
	return ok && c.by.Under == policy.GitDir && c.by.Path == "config" && c.kind == isFile
}

// harmless reports whether a directory is a repository's own whose configuration does not
// make git run anything, or work in a directory that does not lead back to the repository.
func (s *Snapshot) harmless(dir string) bool {
	c := s.items[filepath.Join(dir, "config")]
	return s.compared(dir) && c.harmless && (c.to == "" || s.items[filepath.Join(c.to, ".git")].to == dir)
}

// common returns the repository that contains a linked worktree's own directory.
func common(dir string) string {
	if held := filepath.Dir(dir); filepath.Base(held) == "worktrees" {
		return filepath.Dir(held)
	}
	return ""
}

// takeResumed takes the changes of what git resumes out of the others. It returns one for
// each repository, that of a directory if there is one.
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

// shorten drops changes that another change implies. The list is sorted.
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
		if c.By.Path == ".git" { // the changes in it, if any, imply it
			n, _ := slices.BinarySearchFunc(all, c.Path+"/", func(o Change, path string) int { return strings.Compare(o.Path, path) })
			return n < len(all) && strings.HasPrefix(all[n].Path, c.Path+"/")
		}
		return c.By.Under == policy.GitDir && repositories[strings.TrimSuffix(c.Path, "/"+c.By.Path)]
	})
}

// unlooked returns the paths that one of the two looks could not read. It reports an unreadable
// directory each time, because programs may enter it, and it may hide files of earlier
// commands. It also reports a directory that the commands have made readable.
func (s *Snapshot) unlooked(now *Snapshot) []string {
	var list []string
	for _, look := range []*Snapshot{s, now} {
		if look.depth > 0 {
			when := "before"
			if look == now {
				when = "after"
			}
			list = append(list, fmt.Sprintf("looked at %d entries %s the commands; more were not looked at: %s", look.seen, when, look.why))
		}
	}
	unseen := map[string]string{}
	maps.Copy(unseen, s.unseen)
	maps.Copy(unseen, now.unseen)
	told := map[string]bool{} // with all below
	for _, path := range slices.Sorted(maps.Keys(unseen)) {
		text := "cannot look into %s: %s"
		if _, still := now.unseen[path]; !still {
			if _, err := os.Lstat(path); err != nil {
				continue // it is gone
			}
			text = "could not look into %s before the commands: %s"
		}
		if hostpath.UnderAny(path, told) {
			continue
		}
		if len(list) == maxUnseen {
			return append(list, "and more")
		}
		told[path] = true
		list = append(list, fmt.Sprintf(text, strconv.Quote(path), unseen[path]))
	}
	return list
}
