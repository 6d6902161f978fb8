package obeyed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// closed refuses a start if a directory of a mount, above a path that must be protected,
// cannot be entered by its owner. Commands can change their directories like that, and the
// process that mounts the protection inside has no more rights than they have.
func (p *protector) closed(at string) error {
	m, above := p.mountOf(at), filepath.Dir(at)
	rel, in := hostpath.Within(above, m.Source)
	if !in || p.entered[above] {
		return nil
	}
	dir := m.Source
	for name := range strings.SplitSeq("./"+rel, "/") {
		dir = filepath.Join(dir, name)
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && info.Mode()&0o100 == 0 {
			return hostpath.Refuse(m.Field, m.Source, text.Escape(fmt.Sprintf("%s cannot be entered (mode %04o), so that %s cannot be protected", dir, info.Mode().Perm(), at)),
				"look at it, and give it back: chmod u+rwx "+policy.ShellWord(dir))
		}
	}
	p.entered[above] = true
	return nil
}

// reserved reports whether the directory or file that denies the caller a path belongs to
// another user, so that commands cannot open it either. For root it must also lie outside
// of the mounts, since the owner of what root cannot read is unknown.
func (p *protector) reserved(at string) bool {
	me := os.Geteuid()
	return int(hostpath.Barrier(at).UID) != me && (me != 0 || !p.below(at))
}

// shut returns the error of a path to which access was denied, if commands could have
// changed the mode of the path or of a directory above it: they could change it back. For
// other errors it returns nil.
func (p *protector) shut(at string, err error) error {
	if !errors.Is(err, unix.EACCES) {
		return nil
	}
	d := hostpath.Barrier(at)
	need, give := uint32(0o400), "u+rw"
	if d.Mode&unix.S_IFMT == unix.S_IFDIR {
		need, give = 0o500, "u+rwx"
	}
	if int(d.UID) != os.Geteuid() || d.Mode&need == need || !p.below(d.Path) {
		return nil
	}
	what, verb := at, "read"
	if d.Path == at {
		what = "what is in it"
	}
	if d.Mode&0o100 == 0 && need != 0o400 {
		verb = "entered"
	}
	m := p.mountOf(d.Path)
	return hostpath.Refuse(m.Field, m.Source, fmt.Sprintf("%s cannot be %s (mode %04o), so that %s cannot be protected", d.Path, verb, d.Mode&0o7777, what),
		"look at it, and give it back: chmod "+give+" "+policy.ShellWord(d.Path))
}

// LinkError is the refusal of a start because a link that commands could replace leads to a path that
// must be protected.
type LinkError struct{ error }

// Unwrap returns the refusal.
func (e *LinkError) Unwrap() error { return e.error }

// unguarded returns the error of a path that cannot be protected.
func (p *protector) unguarded(at, name string, err error) error {
	if err := p.closed(at); err != nil {
		return err
	}
	m := p.mountOf(at)
	rel, inside := hostpath.Within(at, m.Source)
	if !inside {
		rel = at
	}
	var link *changeableLinkError
	if !errors.As(err, &link) {
		return &backend.StartError{Stage: "plan", Op: "protect", Object: text.Escape(rel), Cause: hostpath.Reason(err)}
	}
	m = p.mountOf(link.at)
	where, _ := hostpath.Within(link.at, m.Source)
	return &LinkError{hostpath.Refuse(m.Field, m.Source, where+" is a symbolic link, so "+rel+" cannot be protected", p.remedy(name, "replace the link"))}
}

// doubtful handles one of git's files that cannot be used because of the file at where, a
// path without links. If where is in or above a mount's root and commands could have caused
// this, the start is refused. Otherwise the file counts as unread.
func (p *protector) doubtful(at, where, name string, nested bool, err error) error {
	var link *changeableLinkError
	denied := errors.Is(err, unix.EACCES)
	if denied && !p.opened(name) && !p.openedIn(at) {
		if err := p.shut(where, err); err != nil {
			return err
		}
	}
	switch {
	case denied:
		p.watch(where)
		if !p.reserved(where) { // otherwise the user's git cannot read it either
			p.out.Unread = append(p.out.Unread, at)
		}
		return nil
	case nested || p.opened(name) || !p.below(at) && !errors.As(err, &link):
		p.out.Unread = append(p.out.Unread, at)
		p.watch(at)
		return nil
	case errors.As(err, &link):
		return p.unguarded(at, name, err)
	}
	m := p.mountOf(at)
	rel, _ := hostpath.Within(at, m.Source)
	return hostpath.Refuse(m.Field, m.Source, "cannot tell what git obeys: "+rel+": "+hostpath.Reason(err), p.remedy(name, "remove "+at))
}

// unsearched handles a directory in which repositories cannot be searched for. If
// commands could have closed it and its repositories would be guarded, the start is
// refused; otherwise the directory is reported. A directory that only other users can open
// has no file that the caller's git obeys.
func (p *protector) unsearched(dir string, err error) error {
	if !p.beyond && !p.opened(".git") && !p.openedIn(dir) {
		if err := p.shut(dir, err); err != nil {
			return err
		}
	}
	if !errors.Is(err, unix.EACCES) || !p.reserved(dir) || unix.Access(dir, unix.X_OK) == nil {
		p.lose(fmt.Sprintf("cannot look for repositories in %s: %s: what the host runs there is not protected", dir, hostpath.Reason(err)))
	}
	return nil
}
