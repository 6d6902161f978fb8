package confine

import (
	"cmp"
	"fmt"

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
	ctx, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigSetFlag(ctx, "userxattr"); err != nil {
		return -1, err
	}
	for _, option := range [][2]string{ // names of descriptors need no quoting, and show no path
		{"source", "paddock"},
		{"lowerdir", procName(at) + ":" + procName(space) + "/mask:" + procName(tree)},
		{"upperdir", procName(space) + "/upper"},
		{"workdir", procName(space) + "/work"},
	} {
		if err := unix.FsconfigSetString(ctx, option[0], option[1]); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, err
	}
	return unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, int(mountAttrs(s.Flags)))
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
