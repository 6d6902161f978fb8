package obeyed

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/policy"
)

// maxHops is how many links lead from one to the next, as the kernel follows them.
const maxHops = 40

// link is a path that counts as an entry of the inventory because a link, or git's
// configuration, leads there.
type link struct {
	to   string // absolute
	by   *policy.Obeyed
	hops int
}

// follow records the target of a link, plus rest: if commands can write there, the host obeys
// their files.
func (l *look) follow(p place, name, rest string, o *policy.Obeyed, hops int) {
	if text := readLink(p.fd, name); text != "" {
		l.lead(link{to: filepath.Join(target(text, filepath.Dir(p.path(name))), rest), by: o, hops: hops + 1})
	}
}

// target returns the path that programs find by the text of a link in a directory whose own
// path is free of links. If that depends on other links, it is the present path.
func target(text, dir string) string {
	if to := leadsBy(text, dir); to != "" {
		return filepath.Clean(to)
	}
	if !filepath.IsAbs(text) {
		text = dir + "/" + text
	}
	if to := hostpath.Real(text); to != "" {
		return to
	}
	return filepath.Clean(text)
}

// alias records the target of a link in a directory where people work: a directory that tools fill,
// or git, counts as one of theirs under another name. In /proc it is another one for each program.
func (l *look) alias(text, dir string) {
	other := func(p string) bool {
		return strings.HasPrefix(p, "/proc/") || slices.ContainsFunc(strings.Split(p, "/"), func(name string) bool { return Fills(name) || name == ".git" })
	}
	if lexical := leadsBy(text, dir); lexical != "" && !other(lexical) {
		return // a link on the way is one by itself
	}
	if to := target(text, dir); other(to) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.aliases) < maxItems {
			l.aliases = append(l.aliases, to)
		}
	}
}

// meetAliases looks at the directories to which aliases lead, as at those where people work.
func (l *look) meetAliases(ctx context.Context, roots map[string]place) {
	met := map[string]bool{}
	for i := 0; i < len(l.aliases); i++ { // looking finds more
		to, proc := l.enter(l.aliases[i], nil)
		if info, err := os.Stat(l.aliases[i]); proc && (err != nil || info.IsDir() && !hostpath.Under(to, "/proc")) {
			l.missed(l.aliases[i], "", errProc)
		}
		root, rel := within(to, roots)
		if root == "" || met[to] {
			continue
		}
		met[to] = true
		w := newWalk(l, roots[root], nil)
		w.queue[0] = task{rel: rel, depth: 1 + strings.Count(rel, "/"), now: &node{}}
		w.all(ctx)
	}
}

// lead records a path to look at, unless programs cannot reach it.
func (l *look) lead(to link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case to.hops > maxHops:
	case len(l.links) < maxItems:
		l.links = append(l.links, to)
	case len(l.unseen) < maxItems:
		l.unseen[to.to] = "more than " + strconv.Itoa(maxItems) + " links were followed before"
	}
}

// search records the directories of PATH, and of those outside of the roots what may lead into them.
func (l *look) search(dirs []string, roots, files map[string]place) {
	program := *searched
	program.Dir = false
	met := map[string]bool{}
	for _, dir := range dirs {
		l.lead(link{to: dir, by: searched, hops: 1})
		at := hostpath.Future(dir)
		if root, _ := within(at, roots); root != "" || met[at] {
			continue
		}
		met[at] = true
		for _, name := range linksIn(at) {
			if text, _ := os.Readlink(filepath.Join(at, name)); strings.Contains(text, "/") { // not to another one in it
				l.lead(link{to: target(text, at), by: &program, hops: 1})
			}
		}
		for file := range files {
			if filepath.Dir(file) == at {
				l.lead(link{to: file, by: &program})
			}
		}
	}
}

// followAll looks at the paths to which links lead, and at the repositories that git's own
// files name, if they lie in roots.
func (l *look) followAll(ctx context.Context, roots, files map[string]place) {
	named := map[string]bool{} // repositories
	for i := 0; ; i++ {
		for ; i == len(l.links) && len(l.repositories) > 0; l.repositories = l.repositories[1:] {
			dir := l.repositories[0]
			if c := l.items[filepath.Join(dir, "config")]; named[dir] || c.by != nil && c.by.Under == policy.GitDir {
				continue // the walk has found it already
			}
			named[dir] = true
			for _, o := range inventory().git.all {
				l.lead(link{to: filepath.Join(dir, o.Path), by: o})
			}
		}
		if i == len(l.links) {
			return
		}
		if ctx.Err() != nil {
			l.cut(1, "time ran out")
			return
		}
		to := l.links[i]
		root, rel := within(to.to, roots)
		if root == "" && to.hops > 0 && files[to.to].root == "" { // it may lie in a root, over a link of the host's
			at, proc := l.enter(to.to, roots)
			if proc {
				l.missed(to.to, "", errProc)
			}
			to.to = at
			root, rel = within(to.to, roots)
		}
		if p, ok := files[to.to]; ok {
			l.at(ctx, p, filepath.Base(to.to), to.by, to.hops)
		}
		if p := roots[root]; root != "" {
			p.rel = rel
			l.led(ctx, p, to)
		}
	}
}

var errProc = errors.New("a link leads there, and it is another place for each program")

// enter follows the links of a path to where it enters a root, or to its end. It reports whether /proc
// was on the way.
func (l *look) enter(to string, roots map[string]place) (at string, proc bool) {
	at = "/"
	for links, rest := 0, strings.Split(to, "/"); len(rest) > 0 && links <= maxHops; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		if root, _ := within(next, roots); root != "" {
			return target(strings.Join(append([]string{next}, rest...), "/"), "/"), proc
		}
		proc = proc || next == "/proc"
		text, known := l.texts[next]
		if !known {
			text, _ = os.Readlink(next)
			l.texts[next] = text
		}
		if text == "" {
			at = next
			continue
		}
		links++
		if filepath.IsAbs(text) {
			at = "/"
		}
		rest = append(strings.Split(text, "/"), rest...)
	}
	return at, proc
}

// within returns the root that holds a path, and the path below it.
func within(full string, roots map[string]place) (root, rel string) {
	for root := range roots {
		if rel, ok := hostpath.Within(full, root); ok {
			return root, rel
		}
	}
	return "", ""
}

// led looks at a path to which a link leads, or that is watched by name, below the root
// that holds it.
func (l *look) led(ctx context.Context, p place, to link) {
	dir, name := path.Split(p.rel)
	p.rel = ""
	opened := -1
	defer func() { _ = unix.Close(opened) }()
	for part := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		if part == "" {
			continue
		}
		fd, err := dirfd.Open(p.fd, part, dirfd.DirFlags)
		if err != nil {
			if errors.Is(dirfd.LinkError(p.fd, part, err), unix.ELOOP) {
				full := p.path(part)
				l.follow(p, part, strings.TrimPrefix(to.to, full), to.by, to.hops)
				l.add(full, item{kind: isLink, sum: linkText(p.fd, part), by: to.by, top: full})
			} else {
				l.missed(p.root, path.Join(p.rel, part), err)
			}
			return
		}
		_ = unix.Close(opened)
		opened, p.fd, p.rel = fd, fd, path.Join(p.rel, part)
	}
	if name == "" {
		name = "." // the root itself
	}
	l.at(ctx, p, name, to.by, to.hops)
}
