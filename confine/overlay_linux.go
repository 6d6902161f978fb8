package confine

import (
	"cmp"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// overlay merges a directory inside with a tree of the host, without some names in that. It
// changes neither: what commands change goes to a file system in memory. So any number of
// sandboxes can use the two at once, and nothing is left when one ends.
//
// The mount belongs to the sandbox's user namespace, with the kernel's marks in user.overlay.*.
// Commands of earlier sandboxes may have left such marks in the directory inside, and device
// nodes 0:0: they hide something there, or make it unreadable. The kernel follows no
// redirections of such an overlay.
func (a *Applier) overlay(i int, s *Step) error {
	if err := a.treeless[i]; err != nil {
		return err
	}
	tree := a.trees[i]
	defer unix.Close(tree)
	delete(a.trees, i)
	at, err := openInside(s.Target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := override(true); err != nil {
		return err
	}
	merged, err := mergeTree(at, tree, s)
	if err == nil {
		defer unix.Close(merged)
	}
	if err = cmp.Or(err, override(false)); err == nil {
		err = writable(merged)
	}
	if err == nil {
		err = moveOnto(merged, at)
	}
	return err
}

// mergeTree returns the overlay of a step as a detached mount. The kernel takes only layers
// that are mounted, so they are, at the target, until it has made its own mounts of them. It
// keeps the capabilities of the calling thread for what it does to layers: its own directory in
// one of them is closed to everybody.
func mergeTree(at, tree int, s *Step) (int, error) {
	space, err := newTmpfs(&Step{Mode: 0o700, Size: s.Size, Flags: []string{FlagNoSuid, FlagNoDev, FlagNoExec}})
	if err != nil {
		return -1, err
	}
	defer unix.Close(space)
	for _, name := range []string{"upper", "work", "mask"} { // the mask hides names of the tree
		if err := unix.Mkdirat(space, name, 0o700); err != nil {
			return -1, err
		}
	}
	for _, name := range s.Names {
		if err := unix.Mknodat(space, "mask/"+name, unix.S_IFCHR, 0); err != nil { // a whiteout
			return -1, err
		}
	}
	if err := moveOnto(tree, at); err != nil {
		return -1, err
	}
	defer func() { _ = unix.Unmount(procName(tree), unix.MNT_DETACH) }()
	if err := moveOnto(space, at); err != nil {
		return -1, err
	}
	defer func() { _ = unix.Unmount(procName(space), unix.MNT_DETACH) }()
	// Without such attributes an overlay can be mounted, and some removals in it fail.
	if err := unix.Setxattr(procName(space)+"/upper", "user.overlay.try", nil, 0); err != nil {
		return -1, fmt.Errorf("cannot set attributes in memory: %w", err)
	}
	return newOverlay(procName(at)+":"+procName(space)+"/mask:"+procName(tree), procName(space), s.Flags)
}

// newOverlay makes an overlay with the kernel's marks in user.overlay.*, as a detached mount. The
// paths are those of descriptors, which need no quoting and show nothing of the host; upper and
// work are below space.
func newOverlay(lower, space string, flags []string) (int, error) {
	ctx, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigSetFlag(ctx, "userxattr"); err != nil {
		return -1, err
	}
	for _, option := range [][2]string{
		{"source", "paddock"},
		{"lowerdir", lower},
		{"upperdir", space + "/upper"},
		{"workdir", space + "/work"},
		// With an index the names of one file would stay together, and an upper directory
		// could never become a lower one: what only the index has would be lost.
		{"index", "off"}, {"metacopy", "off"},
	} {
		if err := unix.FsconfigSetString(ctx, option[0], option[1]); err != nil {
			return -1, OverlayError(ctx, err)
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, OverlayError(ctx, err)
	}
	return unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, int(mountAttrs(flags)))
}

// OverlayError returns the error of a file system that could not be made, with what the kernel
// says of it.
func OverlayError(ctx int, err error) error {
	text := make([]byte, 1024)
	n, rerr := unix.Read(ctx, text)
	if line := strings.TrimSpace(string(text[:max(n, 0)])); rerr == nil && line != "" {
		return fmt.Errorf("%w (%s)", err, strings.TrimPrefix(line, "e "))
	}
	return err
}

// layer attaches the overlay of a workspace: one that the host side has mounted, or one that
// belongs to the sandbox's user namespace. What commands change goes to its layer, which stays.
func (a *Applier) layer(i int, s *Step) error {
	tree := a.trees[i]
	defer unix.Close(tree)
	delete(a.trees, i)
	if err := a.mountPoint(s.Target, true); err != nil {
		return err
	}
	at, err := openInside(s.Target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	merged := tree
	if s.FD == "" {
		if merged, err = a.ownLayer(i, at, tree, s); err != nil {
			return err
		}
		defer unix.Close(merged)
	}
	if err := Changeable(merged); err != nil {
		return err
	}
	return moveOnto(merged, at)
}

// Changeable refuses a mount in which nothing can be changed. The kernel makes an overlay
// read-only, and reports no error, if its work directory is of no use.
func Changeable(mount int) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(mount, &st); err != nil {
		return err
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		return unix.EROFS
	}
	return nil
}

// ownLayer returns the overlay of a step as a detached mount, see mergeTree.
func (a *Applier) ownLayer(i, at, tree int, s *Step) (merged int, err error) {
	space := a.uppers[i]
	defer unix.Close(space)
	delete(a.uppers, i)
	if err := moveOnto(tree, at); err != nil {
		return -1, err
	}
	defer func() { _ = unix.Unmount(procName(tree), unix.MNT_DETACH) }()
	if err := moveOnto(space, at); err != nil {
		return -1, err
	}
	defer func() { _ = unix.Unmount(procName(space), unix.MNT_DETACH) }()
	if err := override(true); err != nil {
		return -1, err
	}
	merged, err = newOverlay(procName(tree), procName(space), s.Flags)
	return merged, cmp.Or(err, override(false))
}

// procName returns a path of an open file, whatever its own path is.
func procName(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// writable tries to change an overlay: one in which nothing can be changed is mounted, too.
func writable(merged int) error {
	const name = ".paddock-try"
	if err := unix.Mkdirat(merged, name, 0o700); err != nil {
		return err
	}
	return unix.Unlinkat(merged, name, unix.AT_REMOVEDIR)
}
