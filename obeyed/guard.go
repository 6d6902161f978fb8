package obeyed

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// guardEntry guards an entry of the inventory, if it exists and is not opened. Entries that
// do not exist are only compared. If an entry of a project or a home is a link that commands
// could replace, its target is guarded, the link is compared, and results say so.
func (p *protector) guardEntry(o *policy.Obeyed, at string) error {
	opened := p.opened(o.Name())
	found, info, err := p.resolve(at)
	if found != at && !o.Repositories {
		p.watchFor(found, o.Tool, o.Why+"; "+at+" leads to it")
	}
	var link *changeableLinkError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case opened && err != nil:
		return nil //nolint:nilerr // it is only compared
	case err != nil && !p.below(at) && !errors.As(err, &link):
		return p.shut(found, err) // if it is nil, the host's programs cannot use the path either
	case errors.As(err, &link) && o.Under != policy.GitDir && o.Path != ".git":
		if _, err := os.Stat(at); err != nil {
			return p.shut(at, err) // an entry that does not exist is only compared
		}
		found = hostpath.Real(at)
		if info, err = os.Lstat(found); err != nil || info.IsDir() && !o.Dir {
			return nil //nolint:nilerr // it is only compared, too
		}
		rel, _ := hostpath.Within(link.at, p.mountOf(link.at).Source)
		p.lose(rel + " is a symbolic link, which commands can replace: it is compared when they have ended")
	case err != nil:
		return p.unguarded(at, o.Name(), err)
	case info.IsDir() && !o.Dir:
		return nil
	}
	c := claim{at: at, why: o.Why, tool: o.Tool, opens: o.Name(), except: o.Except, copy: o.Under == policy.GitDir && o.Path == "config" && info.Mode().IsRegular()}
	if opened && found == at {
		return nil
	}
	if opened || o.Repositories {
		return p.refuseMounted(found, c)
	}
	if found == at && len(o.Except) == 0 && (o.Under != policy.GitDir || p.walked(filepath.Dir(at))) {
		p.met[found] = true
	}
	return p.guard(found, c)
}

// walked reports whether a comparison, which leaves out some directories of ".git", will
// find a directory and treat it as a repository's own.
func (p *protector) walked(dir string) bool {
	parts := strings.Split(dir, "/")
	for i, part := range parts[:len(parts)-1] {
		if part == ".git" && heldDirs[parts[i+1]] {
			return false
		}
	}
	return p.isGitDir(dir) && !slices.Contains(parts, "objects")
}

// guarded reports whether a path is guarded, or is in a guarded directory.
func (p *protector) guarded(at string) bool { return hostpath.UnderAny(at, p.guards) }

// claim says why a path is protected.
type claim struct {
	at     string // what leads to it: its own name, a link, or a configuration file
	why    string
	tool   string          // that obeys it; "" for git
	opens  string          // the name in Unprotected that lets commands change it
	except []string        // names directly below it that are not protected
	nested bool            // commands may have made what leads to it
	own    map[string]bool // if nested: only paths below these directories are guarded
	beyond bool            // it is only watched
	copy   bool            // commands get a copy that they can change
}

// guard makes a path read-only, if commands could change it.
func (p *protector) guard(found string, c claim) error {
	if err := p.refuseMounted(found, c); err != nil {
		return err
	}
	if p.below(found) && !p.guarded(found) {
		if err := p.closed(found); err != nil {
			return err
		}
		p.guards[found] = true
		p.out.Guards = append(p.out.Guards, backend.Guard{File: found, Why: c.why, Tool: c.tool, Copy: c.copy})
	}
	return nil
}

// guardNamed guards a file that configuration or a link names. The file is compared as well,
// because many backends make nothing read-only, and because a mount stays on the old file if
// the host replaces it.
func (p *protector) guardNamed(found string, c claim) error {
	p.watch(found)
	if c.beyond || c.nested && (c.own[found] || !hostpath.UnderAny(found, c.own)) {
		return p.refuseMounted(found, c)
	}
	if p.below(found) && !p.guarded(found) {
		count := &p.named
		if c.nested {
			count = &p.nestedNamed
		}
		if *count++; *count > maxNamed {
			p.lose("more than " + strconv.Itoa(maxNamed) + " paths that git's configuration and links name: " + found + " is compared, and not read-only")
			return p.refuseMounted(found, c)
		}
	}
	return p.guard(found, c)
}

// refuseMounted refuses mounts that are a protected path, or lie in one, whatever name led
// there. If the operator has mounted it, or only a nested repository names the mount, that
// is reported and compared instead. What the operator has opened is compared.
func (p *protector) refuseMounted(found string, c claim) error {
	for i := range p.mounts {
		m := &p.mounts[i]
		rel, in := hostpath.Within(m.Source, found)
		first, _, _ := strings.Cut(rel, "/")
		if !in || rel != "" && slices.Contains(c.except, first) {
			continue
		}
		if p.opened(c.opens) {
			p.addWatch(m.Source, "git", byGit)
			continue
		}
		if !c.nested && (m.Field != "mounts" || !p.byName) {
			how := "it is protected: "
			if c.at != m.Source {
				how = c.at + " leads to it, which is protected: "
			}
			return hostpath.Refuse(m.Field, m.Source, how+c.why, p.remedy(c.opens, "name another path"))
		}
		if !p.reported[m.Source] { // otherwise it is compared by its name
			p.addWatch(m.Source, "git", byGit)
		}
		p.openedBy(m, c.why)
	}
	return nil
}

// openedBy reports, once for each mount, that commands can change files that the host obeys
// because they are mounted.
func (p *protector) openedBy(m *hostpath.Mount, why string) {
	if p.reported[m.Source] {
		return
	}
	p.reported[m.Source] = true
	p.out.Opened = append(p.out.Opened, text.Escape(m.Source+" can be changed, because it is mounted: "+why))
}

// lose reports a place that was not searched. It stops at a number that people still read.
func (p *protector) lose(why string) {
	why = text.Escape(why)
	if len(p.out.Lost) < maxLost && !slices.Contains(p.out.Lost, why) {
		p.out.Lost = append(p.out.Lost, why)
	}
}

// watch has a path in a mount compared, unless the comparison finds it by its name anyway,
// as it does for all hooks except git's samples.
func (p *protector) watch(at string) { p.watchFor(at, "git", byGit) }

// byGit says why most paths are watched.
const byGit = "git's configuration names it, or a link of a hook or of a home leads to it"

// watchFor watches a path that a tool obeys.
func (p *protector) watchFor(at, tool, why string) {
	if p.below(at) && (strings.HasSuffix(at, ".sample") || !hostpath.UnderAny(at, p.met)) {
		p.addWatch(at, tool, why)
	}
}

func (p *protector) addWatch(at, tool, why string) {
	p.out.Watch = append(p.out.Watch, policy.Obeyed{Path: at, Dir: true, Class: policy.Unasked, Tool: tool, Why: why})
}

// changeableLinkError is the error of a symbolic link that commands can replace.
type changeableLinkError struct{ at string }

func (e *changeableLinkError) Error() string { return e.at + " is a symbolic link" }

// statCache caches the results of Lstat.
type statCache map[string]statAnswer

type statAnswer struct {
	info fs.FileInfo
	err  error
}

func (c statCache) lstat(at string) (fs.FileInfo, error) {
	if a, ok := c[at]; ok {
		return a.info, a.err
	}
	info, err := os.Lstat(at)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENAMETOOLONG) {
		err = fs.ErrNotExist
	}
	c[at] = statAnswer{info, err}
	return info, err
}

func (c statCache) exists(at string) bool {
	_, err := c.lstat(at)
	return err == nil
}

// mayHave reports whether a directory can have the path of a read-only entry, by the names
// in it and in the directories below it. It ignores case, as the file system may. Behind a
// link, and with too many names, the answer is true.
func (p *protector) mayHave(dir, rel string) bool {
	for {
		part, rest, more := strings.Cut(rel, "/")
		names, ok := p.listed[dir]
		if !ok {
			names = listParts(dir)
			p.listed[dir] = names
		}
		if names == nil || !more {
			return names == nil || names[strings.ToLower(part)]
		}
		if !names[strings.ToLower(part)] {
			return false
		}
		dir, rel = filepath.Join(dir, part), rest
	}
}

// listParts returns, in lower case, those names in a directory that occur in paths of
// read-only entries, or nil if it cannot read them all.
func listParts(dir string) map[string]bool {
	fd, err := dirfd.Open(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	names, all, parts := map[string]bool{}, 0, inventory().parts
	err = dirfd.EachName(fd, func(name []byte, _ byte) bool {
		if low := bytes.ToLower(name); parts[string(low)] {
			names[string(low)] = true
		}
		all++
		return all < maxDirEntries
	})
	if err != nil || all == maxDirEntries {
		return nil
	}
	return names
}

// resolve follows the links of an absolute path as long as commands cannot replace them.
// The first one that they can replace is a [*changeableLinkError]. They cannot replace a
// link that is a mount point, as in a sandbox around this one. If nothing exists at the path,
// the result is the path that a file made there would have.
func (p *protector) resolve(name string) (string, fs.FileInfo, error) {
	at, rest, links := "/", strings.Split(filepath.Clean(name), "/"), 0
	info, err := p.seen.lstat("/")
	for len(rest) > 0 && err == nil {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			info, err = p.seen.lstat(at)
			continue
		}
		next := filepath.Join(at, part)
		info, err = p.seen.lstat(next)
		if err != nil {
			at = next
			break
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if p.below(next) && !p.guarded(next) && !dirfd.IsMount(next) {
			return next, info, &changeableLinkError{next}
		}
		target, err := os.Readlink(next)
		if links++; err != nil || links > hostpath.MaxLinks {
			return next, nil, errors.Join(err, unix.ELOOP)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = slices.Concat(strings.Split(target, "/"), rest)
	}
	return filepath.Join(append([]string{at}, rest...)...), info, err
}

// find resolves a path. If the operator has opened it, so that it is only compared, find
// also follows links that commands can replace.
func (p *protector) find(name, opens string) (string, fs.FileInfo, error) {
	found, info, err := p.resolve(name)
	var link *changeableLinkError
	if !p.opened(opens) || !errors.As(err, &link) {
		return found, info, err
	}
	p.watch(link.at)
	end := hostpath.Real(name)
	if end == "" {
		return found, nil, fs.ErrNotExist
	}
	info, err = os.Lstat(end)
	return end, info, err
}
