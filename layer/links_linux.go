package layer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath/snapshot"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// findLinks finds where the links lead that stand at paths of the inventory: those that come with
// the changes, and those of the source, by default only those in the directories above changes.
func (s *screen) findLinks(ctx context.Context, changes []Change) error {
	for i := range changes {
		if err := ctx.Err(); err != nil {
			return err
		}
		dir, _ := splitPath(changes[i].Path)
		for !s.linked[dir] {
			s.linksIn(dir)
			dir, _ = splitPath(dir)
		}
	}
	if !s.opt.AllLinks {
		return nil
	}
	links, err := s.allLinks(ctx)
	if err != nil {
		return err
	}
	for _, p := range links {
		if err := ctx.Err(); err != nil {
			return err
		}
		if dir, _ := splitPath(p); !s.linked[dir] {
			s.linksIn(dir)
		}
	}
	for more, n := true, 0; more && n < maxLinks; n++ { // a link can stand in what another one leads to
		more = false
		for _, p := range links {
			if err := ctx.Err(); err != nil {
				return err
			}
			m, ok := s.obeyed(p, shape{}) // as what it leads to
			if !ok {
				continue
			}
			if to, inside := s.resolve(p, true); inside && to != "" && s.aliases[to] == nil {
				s.aliases[to], more = m.Obeyed, true
			}
		}
	}
	return nil
}

// allLinks returns the links of the source. What it is not allowed to look into has none. Of
// more than are kept it cannot be told where they lead.
func (s *screen) allLinks(ctx context.Context) (links []string, err error) {
	stack, kept := []string{""}, 0
	for len(stack) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		dir := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		names, err := s.names(dir)
		switch {
		case gone(err), errors.Is(err, unix.EACCES), errors.Is(err, unix.EXDEV):
			continue
		case err != nil:
			return nil, fmt.Errorf("cannot look for links in %s of the source: %w", text.QuoteName(dir), err)
		}
		git := s.isGitDir(dir)
		for _, name := range names.Links {
			at := joinPath(dir, name)
			links = append(links, at)
			kept += len(at)
		}
		for _, name := range names.Dirs {
			if at := joinPath(dir, name); !git || name != "objects" {
				stack = append(stack, at)
				kept += len(at)
			}
		}
		if kept > maxLinkBytes {
			s.steps = maxSteps + 1
			return nil, nil
		}
	}
	slices.Sort(links)
	return links, nil
}

// names returns the links and the directories in a directory of the source, in no order. A ".git"
// may be something else.
func (s *screen) names(dir string) (n snapshot.DirNames, err error) {
	if s.opt.Names != nil {
		if n, known := s.opt.Names(dir); known {
			if n.Git {
				n.Dirs = append(n.Dirs, ".git")
			}
			return n, nil
		}
	}
	fd, err := reach(s.source, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return n, err
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	list, err := f.ReadDir(-1)
	for _, e := range list {
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			n.Links = append(n.Links, e.Name())
		case e.IsDir():
			n.Dirs = append(n.Dirs, e.Name())
		}
	}
	return n, err
}

// linksIn finds where the links of a directory lead that stand at paths of the inventory.
func (s *screen) linksIn(dir string) {
	s.linked[dir] = true
	all := inventory()
	lists := []map[string][]entry{all.project}
	if s.isGitDir(dir) {
		lists = []map[string][]entry{all.git}
	}
	if slices.Contains(s.opt.Homes, dir) || dir == "" && slices.Contains(s.opt.Homes, ".") {
		lists = append(lists, all.home)
	}
	project := dir == "" || s.isProject(dir)
	present := s.presentIn(dir)
	for _, list := range lists {
		if present == nil {
			for _, es := range list {
				s.followAll(dir, es, project)
			}
		}
		for first := range present {
			s.followAll(dir, list[first], project)
		}
	}
}

// followAll records where entries of a directory lead.
func (s *screen) followAll(dir string, es []entry, project bool) {
	for _, e := range es {
		if e.Under == policy.Project && !e.Nested && !project || e.With != nil || e.Ending {
			continue
		}
		s.follow(dir, e)
	}
}

// presentIn returns the names of the links and directories that a directory has after the commit,
// folded, and may return others; or nil if they are not known.
func (s *screen) presentIn(dir string) map[string]bool {
	present := map[string]bool{}
	if s.folding || s.byPath[dir] != nil {
		return nil
	}
	list, err := s.names(dir)
	if err != nil {
		return nil
	}
	for _, name := range slices.Concat(list.Links, list.Dirs) {
		present[foldName(name)] = true
	}
	for _, n := range s.in[dir] {
		present[foldName(n)] = true
	}
	return present
}

// follow records where an entry of a directory leads, if there is a link in its path.
func (s *screen) follow(dir string, e entry) {
	at := dir
	for _, part := range e.parts {
		at = joinPath(at, part)
		is, there := s.after(at)
		if !there {
			return
		}
		if is.Mode&fs.ModeSymlink == 0 {
			continue
		}
		if to, inside := s.resolve(joinPath(dir, e.Path), true); inside && to != "" {
			s.aliases[to] = e.Obeyed
		}
		return
	}
}

// leads returns the entry that leads to a path, or above it, over a link, or nil.
func (s *screen) leads(p string) *policy.Obeyed {
	for len(s.aliases) > 0 && p != "" {
		if o := s.aliases[p]; o != nil {
			return o
		}
		p, _ = splitPath(p)
	}
	return nil
}
