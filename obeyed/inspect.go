package obeyed

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// The bounds of [Inspect].
const (
	inspectTime  = 10 * time.Second
	inspectNames = 1 << 18  // names that it looks at
	inspectPaths = 16 << 20 // bytes of the paths of directories that wait for it
	// MaxInspected is how many links, and how many programs, it names.
	MaxInspected = 50
)

// Inspection is what there is in a directory that commands could change.
type Inspection struct {
	// Obeyed are files that programs of the host execute or obey, those first that are obeyed unasked.
	Obeyed []Change
	// Links lead out of the directory, and Programs can be executed: the paths of the first.
	Links, Programs         []string
	MoreLinks, MorePrograms int // that are not named
	// Unseen lists what was not looked at, and why. Empty: everything was.
	Unseen []string
}

// Inspect looks at all that is in a directory, or at a file, whoever made it: root is free of symbolic
// links. It follows no link, changes nothing, and is bounded.
func Inspect(ctx context.Context, root string) Inspection {
	watch := Watch{Workspace: root, Roots: []string{root}, Homes: hostpath.Homes(), Search: hostpath.ShellDirs(root), Relative: true}
	found := (&Snapshot{watch: watch, items: map[string]item{}, unseen: map[string]string{}}).Compare(ctx)
	all := Inspection{Obeyed: found.List, Unseen: found.Unseen}
	ctx, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	top, err := dirfd.Open(unix.AT_FDCWD, root, dirfd.DirFlags)
	switch {
	case errors.Is(err, unix.ENOTDIR):
		all.look(unix.AT_FDCWD, root, root, root, unix.DT_UNKNOWN)
		return all
	case err != nil:
		all.Unseen = append(all.Unseen, root+": "+hostpath.Reason(err))
		return all
	}
	defer func() { _ = unix.Close(top) }()
	names, paths, missed, next := 0, 0, 0, []string{"."}
	within := func() bool { return ctx.Err() == nil && names < inspectNames && paths < inspectPaths }
	for ; len(next) > 0 && within(); next = next[1:] {
		fd, err := dirfd.OpenBelow(top, next[0], unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			if !dirfd.Gone(err) {
				missed++
			}
			continue
		}
		err = dirfd.EachName(fd, func(name []byte, kind byte) bool {
			if kind == unix.DT_UNKNOWN {
				kind = dirfd.TypeOf(fd, string(name))
			}
			if names++; !within() {
				return false
			}
			if kind == unix.DT_DIR {
				next = append(next, path.Join(next[0], string(name)))
				paths += len(next[len(next)-1])
			}
			all.look(fd, string(name), filepath.Join(root, next[0], string(name)), root, kind)
			return true
		})
		if err != nil {
			missed++
		}
		_ = unix.Close(fd)
	}
	if !within() {
		all.Unseen = append(all.Unseen, "there is too much to search all of it for links and programs: "+text.Count(names, "name")+" were looked at")
	}
	if missed > 0 {
		all.Unseen = append(all.Unseen, text.Count(missed, "directory")+" cannot be read")
	}
	slices.Sort(all.Links)
	slices.Sort(all.Programs)
	return all
}

// look adds a name if it is a link that leads out of root, or a program.
func (a *Inspection) look(fd int, name, full, root string, kind byte) {
	add := func(list *[]string, more *int) {
		if len(*list) < MaxInspected {
			*list = append(*list, full)
		} else {
			*more++
		}
	}
	switch kind {
	case unix.DT_LNK:
		to := readLink(fd, name)
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(full), to)
		}
		if _, in := hostpath.Within(filepath.Clean(to), root); !in {
			add(&a.Links, &a.MoreLinks)
		}
	case unix.DT_REG, unix.DT_UNKNOWN:
		var st unix.Stat_t
		if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0 {
			add(&a.Programs, &a.MorePrograms)
		}
	}
}

// Unasked reports whether the host obeys a change although nobody asks for it.
func (c Change) Unasked() bool { return c.By.Class == policy.Unasked }
