package protect

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/snapshot"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// guardEntry guards an entry of the inventory, if it exists and is not opened. What
// is no link and not there is left to the comparison. So is a link of a project's or
// a home's that commands could replace: what it leads to is guarded, and results tell
// of it.
func (p *protector) guardEntry(o *policy.Obeyed, at string) error {
	opened := p.opened(o.Name())
	found, info, err := p.resolve(at)
	if found != at && !o.Repositories {
		p.watch(found)
	}
	var link *changeableLinkError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case opened && err != nil:
		return nil //nolint:nilerr // it is compared
	case err != nil && !p.below(at) && !errors.As(err, &link):
		return p.shut(found, err) // else the host's programs cannot use it either
	case errors.As(err, &link) && o.Under != policy.GitDir && o.Path != ".git":
		if _, err := os.Stat(at); err != nil {
			return p.shut(at, err) // what is not there is compared alone
		}
		found = hostpath.Real(at)
		if info, err = os.Lstat(found); err != nil || info.IsDir() && !o.Dir {
			return nil //nolint:nilerr // it is compared alone, too
		}
		rel, _ := hostpath.Within(link.at, p.mountOf(link.at).Source)
		p.lose(rel + " is a symbolic link, which commands can replace: it is compared when they have ended")
	case err != nil:
		return p.unguarded(at, o.Name(), err)
	case info.IsDir() && !o.Dir:
		return nil
	}
	c := claim{at: at, why: o.Why, opens: o.Name(), except: o.Except, copy: o.Under == policy.GitDir && o.Path == "config" && info.Mode().IsRegular()}
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

// walked reports whether a comparison takes a directory for a repository's own when
// it comes there: some directories of ".git" it leaves out.
func (p *protector) walked(dir string) bool {
	parts := strings.Split(dir, "/")
	for i, part := range parts[:len(parts)-1] {
		if part == ".git" && snapshot.HeldDirs[parts[i+1]] {
			return false
		}
	}
	return p.isGitDir(dir) && !slices.Contains(parts, "objects")
}

// guarded reports whether a path is guarded, or lies in what is.
func (p *protector) guarded(at string) bool { return hostpath.UnderAny(at, p.guards) }

// claim says why a path is protected.
type claim struct {
	at     string // what leads to it: its own name, a link, or a file of configuration
	why    string
	opens  string          // what in Unprotected lets commands change it
	except []string        // names directly below it that are not meant
	nested bool            // commands may have made it so
	own    map[string]bool // directories beyond which what is nested names nothing to be guarded
	beyond bool            // it is only watched
	copy   bool            // commands are to change a copy of it
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
		p.out.Guards = append(p.out.Guards, backend.Guard{File: found, Why: c.why, Copy: c.copy})
	}
	return nil
}

// guardNamed is guard for what configuration or a link names. It is compared as
// well: many backends make nothing read-only, and a mount stays on the file that was
// there where the host replaces it.
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

// refuseMounted refuses mounts that are a protected path, or lie in one, by
// whatever name the host comes there. What the operator has mounted, and what
// only a nested repository says of a mount, is told and compared instead; what the
// operator has opened is compared.
func (p *protector) refuseMounted(found string, c claim) error {
	for i := range p.mounts {
		m := &p.mounts[i]
		rel, in := hostpath.Within(m.Source, found)
		first, _, _ := strings.Cut(rel, "/")
		if !in || rel != "" && slices.Contains(c.except, first) {
			continue
		}
		if p.opened(c.opens) {
			p.out.Watch = append(p.out.Watch, m.Source)
			continue
		}
		if !c.nested && (m.Field != "mounts" || !p.byName) {
			how := "it is protected: "
			if c.at != m.Source {
				how = c.at + " leads to it, which is protected: "
			}
			return hostpath.Refuse(m.Field, m.Source, how+c.why, p.remedy(c.opens, "name another path"))
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
func (p *protector) openedBy(m *hostpath.Mount, why string) {
	if p.told[m.Source] {
		return
	}
	p.told[m.Source] = true
	p.out.Opened = append(p.out.Opened, text.Escape(m.Source+" can be changed, because it is mounted: "+why))
}

// lose tells of a place that was not looked at, as often as a person may read.
func (p *protector) lose(why string) {
	why = text.Escape(why)
	if len(p.out.Lost) < maxLost && !slices.Contains(p.out.Lost, why) {
		p.out.Lost = append(p.out.Lost, why)
	}
}

// watch has a path in a mount compared, unless that is done by its name. Of hooks
// it is done without git's samples.
func (p *protector) watch(at string) {
	if p.below(at) && (strings.HasSuffix(at, ".sample") || !hostpath.UnderAny(at, p.met)) {
		p.out.Watch = append(p.out.Watch, at)
	}
}
