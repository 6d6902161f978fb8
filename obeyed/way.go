package obeyed

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/paddock-dev/paddock/layer/delta"
)

// way is where a path leads.
type way struct {
	to       string // without links: within the source, or from the host's root
	mode     fs.FileMode
	absolute bool // a link within the source, on its way, begins with "/"
	there    bool
	broken   bool     // it leads on from what is not there
	inside   bool     // it leads to a place within the source
	out      bool     // it leaves the source on its way
	over     []string // paths in the source that were looked up
}

// resolve returns where a path leads, step by step as the host follows it.
func (s *state) resolve(p string) way { return s.follow("", p) }

// follow resolves a path from the source or, with from "/", from the host's root.
func (s *state) follow(from, p string) (w way) {
	at, rest := from, strings.Split(p, "/")
	w.inside, w.there, w.mode = from == "", true, fs.ModeDir
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		w.broken = w.broken || !w.there
		e, there := delta.Entry{Mode: fs.ModeDir}, true
		var next string
		switch {
		case name == ".." && w.inside && at == "":
			if s.opt.Source == "" {
				w.inside, w.out, w.there = false, true, false
				return w
			}
			w.inside, w.out, next = false, true, filepath.Dir(s.opt.Source)
		case name == ".." && w.inside:
			next, _ = delta.Split(at)
		case !w.inside:
			if s.steps += 4; s.spent() { // it asks the kernel
				w.there = false
				return w
			}
			next, e, there = s.outside(at, name)
		default:
			next = delta.Join(at, name)
			if s.steps += 1 + len(next)>>6; s.spent() {
				w.inside, w.there = false, false
				return w
			}
			e, there = s.at(next)
			w.over = append(w.over, next)
		}
		if name != ".." && e.Mode&fs.ModeSymlink != 0 {
			if links++; links > maxFollowed {
				w.inside, w.there = false, false
				return w
			}
			if strings.HasPrefix(e.Link, "/") {
				w.absolute = w.absolute || w.inside
				w.inside, at = false, "/"
			}
			s.steps += (len(e.Link) + len(rest)) >> 5
			rest = append(strings.Split(e.Link, "/"), rest...)
			continue
		}
		at, w.there, w.mode = next, w.there && there, e.Mode
		if !w.inside && s.opt.Source != "" && at == s.opt.Source {
			at, w.inside = "", true
		}
	}
	w.to, w.out = at, w.out || !w.inside
	return w
}

// maxOuter is how many paths outside of the source are remembered.
const maxOuter = 1 << 16

// outside returns what the host has at a name in a directory that is not in the source.
func (s *state) outside(at, name string) (next string, e delta.Entry, there bool) {
	next = filepath.Join(at, name)
	if l, known := s.outer[next]; known {
		return next, l.Entry, l.there
	}
	info, err := os.Lstat(next)
	if there = err == nil; there {
		if e.Mode = info.Mode(); e.Mode&fs.ModeSymlink != 0 {
			e.Link, _ = os.Readlink(next)
		}
	}
	if len(s.outer) < maxOuter {
		s.outer[next] = lookedUp{e, there}
	}
	return next, e, there
}
