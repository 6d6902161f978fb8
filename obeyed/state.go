package obeyed

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/layer/delta"
)

// Bounds of one look at a state. Beyond them everything is held back.
const (
	maxFollowed = 40      // links that one path leads over, as the kernel has it
	maxSteps    = 1 << 22 // names that are looked up to follow links; those in long paths count more
	maxVisits   = 1 << 20 // directories, each as often as it counts in another way; and what is obeyed
)

// state is a source with some changes applied, and what the host would obey in it.
type state struct {
	*Judge
	lands   func(i int) bool
	byPath  map[string]int      // the change that says what is at a path
	over    map[string]int      // the change that says what is below a path
	nearest map[string]int      // what above has found
	in      map[string][]string // names that change in a directory
	implied map[string]bool     // directories of changes

	things  map[thingKey]*thing
	links   map[string]way    // links that changes may lead elsewhere
	git     map[string]bool   // repositories' own directories
	tops    map[string]gitTop // what gitAbove has found since all of these are known; nil before
	unasked map[string]bool   // paths of things and directories that are obeyed unasked
	named   map[string]bool   // paths of things that are obeyed when named
	met     map[visit]bool
	queue   []*visited
	steps   int
}

// newState applies changes to the source.
func (j *Judge) newState(lands func(i int) bool) *state {
	s := &state{Judge: j, lands: lands, byPath: map[string]int{}, over: map[string]int{}, nearest: map[string]int{}, in: map[string][]string{}, implied: map[string]bool{},
		things: map[thingKey]*thing{}, links: map[string]way{}, git: map[string]bool{}, unasked: map[string]bool{}, named: map[string]bool{}, met: map[visit]bool{}}
	for i := range j.changes {
		ch := &j.changes[i]
		if _, there := s.byPath[ch.Path]; !lands(i) || there && ch.Kind != delta.Renamed {
			continue
		}
		s.byPath[ch.Path] = i
		over := ch.Kind != delta.Modified
		if ch.Kind == delta.Added && ch.New.Mode.IsDir() { // the source may have made one, too
			was, there := j.look(ch.Path)
			over = !there || !was.Mode.IsDir()
		}
		if over {
			s.over[ch.Path] = i
		}
		for dir, name := delta.Split(ch.Path); ; dir, name = delta.Split(dir) {
			s.in[dir] = append(s.in[dir], name)
			if ch.Kind == delta.Deleted || dir == "" || s.implied[dir] {
				break
			}
			s.implied[dir] = true
		}
	}
	return s
}

// look returns what the source has at a path.
func (j *Judge) look(p string) (delta.Entry, bool) {
	if l, known := j.looked[p]; known {
		return l.Entry, l.there
	}
	if dir, name := delta.Split(p); p != "" {
		if names := j.namesIn(dir); names != nil {
			if names.lacks(name) {
				return delta.Entry{}, false
			}
			if _, is := slices.BinarySearch(names.Dirs, name); is {
				return delta.Entry{Mode: fs.ModeDir | 0o755}, true
			}
			if i := slices.IndexFunc(names.Links, func(l Symlink) bool { return l.Name == name }); i >= 0 {
				return delta.Entry{Mode: fs.ModeSymlink | 0o777, Link: names.Links[i].Text}, true
			}
		}
	}
	e, err := j.source.Look(p)
	j.looked[p] = lookedUp{e, err == nil}
	return e, err == nil
}

// namesIn returns the names in a directory of the source, if they were read already.
func (j *Judge) namesIn(dir string) *DirNames {
	if j.opt.Names == nil || j.opt.Folding {
		return nil
	}
	n, asked := j.names[dir]
	if !asked {
		if found, known := j.opt.Names(dir); known {
			n = &found
		}
		j.names[dir] = n
	}
	return n
}

// above returns the change that says what is below the nearest directory above a path, or -1.
func (s *state) above(p string) int {
	dir, _ := delta.Split(p)
	if dir == "" {
		return -1
	}
	if i, own := s.over[dir]; own {
		return i
	}
	i, known := s.nearest[dir]
	if !known {
		i = s.above(dir)
		s.nearest[dir] = i
	}
	return i
}

// owner returns the change that says what is at a path, or -1.
func (s *state) owner(p string) int {
	if i, own := s.byPath[p]; own {
		return i
	}
	return s.above(p)
}

// at returns what is at a path.
func (s *state) at(p string) (e delta.Entry, there bool) {
	if i, own := s.byPath[p]; own {
		return s.changes[i].New, s.changes[i].Kind != delta.Deleted
	}
	switch i := s.above(p); {
	case i < 0:
		e, there = s.look(p)
	case s.changes[i].Kind == delta.Renamed:
		e, there = s.look(s.changes[i].From + p[len(s.changes[i].Path):])
	}
	if !there && s.implied[p] {
		return delta.Entry{Mode: fs.ModeDir | 0o755}, true
	}
	return e, there
}

func (s *state) has(p string) bool {
	_, there := s.at(p)
	return there
}

// spent reports whether looking takes more than is done.
func (s *state) spent() bool { return s.steps > maxSteps || max(len(s.met), len(s.things)) > maxVisits }

// stirs reports whether a change may lead one of these paths elsewhere, or make or remove it.
func (j *Judge) stirs(paths []string) bool {
	var stirs func(p string) bool
	stirs = func(p string) bool {
		if p == "" {
			return false
		}
		is, known := j.stirred[p]
		if !known {
			dir, _ := delta.Split(p)
			is = j.structural[p] || stirs(dir)
			j.stirred[p] = is
		}
		return is
	}
	return slices.ContainsFunc(paths, stirs)
}

// list returns the names in a directory, in Hits all of them if full says so, or if other names than
// those of projects matter there. It returns nothing of what cannot be read.
func (s *state) list(dir string, full bool) (n DirNames, err error) {
	base, based := dir, true
	switch i := s.owner(dir); {
	case i < 0 || s.changes[i].Kind == delta.Modified:
	case s.changes[i].Kind == delta.Renamed:
		base = s.changes[i].From + dir[len(s.changes[i].Path):]
	default:
		_, over := s.over[dir]
		based = s.byPath[dir] == i && !over
	}
	if i := s.above(dir); based && base == dir && i >= 0 {
		if based = s.changes[i].Kind == delta.Renamed; based {
			base = s.changes[i].From + dir[len(s.changes[i].Path):]
		}
	}
	if based {
		if known := s.namesIn(base); known != nil && !full && base == dir { // elsewhere other names count
			n = *known
		} else if n, err = s.source.List(base); dirfd.Gone(err) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EXDEV) {
			n = DirNames{}
		} else if err != nil {
			return n, fmt.Errorf("cannot look into %s: %w", text.QuoteName(base), err)
		}
	}
	s.steps += len(n.Hits)>>2 + 2*len(s.in[dir]) // links may lead here often
	if len(s.in[dir]) == 0 {
		return n, nil
	}
	return s.changed(dir, n), nil
}

// changed returns names in a directory as they are after the changes.
func (s *state) changed(dir string, n DirNames) DirNames {
	fresh := map[string]bool{}
	for _, name := range s.in[dir] {
		fresh[name] = true
	}
	keep := DirNames{marks: marks{alike: n.alike}}
	put := func(name string) {
		e, there := s.at(delta.Join(dir, name))
		if !there {
			return
		}
		keep.note([]byte(name))
		keep.Hits = append(keep.Hits, name)
		switch {
		case e.Mode.IsDir():
			keep.Dirs = append(keep.Dirs, name)
		case e.Mode&fs.ModeSymlink != 0:
			keep.Links = append(keep.Links, Symlink{name, e.Link})
		}
	}
	for name := range fresh {
		put(name)
	}
	for _, name := range markNames {
		if *n.of([]byte(name)) && !fresh[name] {
			keep.note([]byte(name))
		}
	}
	for _, name := range n.Hits {
		if !fresh[name] {
			keep.Hits = append(keep.Hits, name)
		}
	}
	for _, name := range n.Dirs {
		if !fresh[name] {
			keep.Dirs = append(keep.Dirs, name)
		}
	}
	for _, l := range n.Links {
		if !fresh[l.Name] {
			keep.Links = append(keep.Links, l)
		}
	}
	return keep
}
