package confine

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// base is where the new root is mounted before it becomes the root: any
// directory that every host has. What it covers is opened beforehand.
const base = "/tmp"

// relative turns a path inside into one below the working directory, which is
// the new root from the moment it is mounted until it becomes "/".
func relative(target string) string {
	return "./" + strings.TrimPrefix(path.Clean(target), "/")
}

func mountAttrs(flags []string) (attr uint64) {
	for _, f := range flags {
		switch f {
		case FlagReadOnly:
			attr |= unix.MOUNT_ATTR_RDONLY
		case FlagNoSuid:
			attr |= unix.MOUNT_ATTR_NOSUID
		case FlagNoDev:
			attr |= unix.MOUNT_ATTR_NODEV
		case FlagNoExec:
			attr |= unix.MOUNT_ATTR_NOEXEC
		}
	}
	return attr
}

func mountFlags(flags []string) (ms uintptr) {
	for _, f := range flags {
		switch f {
		case FlagReadOnly:
			ms |= unix.MS_RDONLY
		case FlagNoSuid:
			ms |= unix.MS_NOSUID
		case FlagNoDev:
			ms |= unix.MS_NODEV
		case FlagNoExec:
			ms |= unix.MS_NOEXEC
		}
	}
	return ms
}

// openTrees takes every bind's source as a detached mount, before anything
// covers it. Attributes are set on the whole detached tree (mount_setattr(2)
// with AT_RECURSIVE), never by a remount, which would leave submounts as they were.
func (a *Applier) openTrees(steps []Step) *Error {
	a.trees = map[int]int{}
	for i := range steps {
		s := &steps[i]
		if s.Do != OpBind && s.Do != OpCopy && (s.Do != OpCgroup || a.InPlace) {
			continue
		}
		fd, err := a.openTree(s)
		if err == nil {
			err = setAttrs(fd, mountAttrs(s.Flags))
		}
		if err == nil && hasFlag(s.Flags, FlagBelowRO) {
			err = BelowReadOnly(fd)
		}
		if err != nil {
			return stepError("setup", s, err)
		}
		a.trees[i] = fd
	}
	return nil
}

func (a *Applier) openTree(s *Step) (int, error) {
	switch {
	case s.FD != "":
		fd, ok := a.Files[s.FD]
		if !ok {
			return -1, fmt.Errorf("the descriptor %q was not handed over", s.FD)
		}
		return fd, nil
	case hasFlag(s.Flags, FlagResolved):
		return OpenResolved(s.Source, s.ID)
	case s.Do == OpCgroup: // a mount of its own, from which no ".." leads out
		return unix.OpenTree(unix.AT_FDCWD, s.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	}
	return unix.OpenTree(unix.AT_FDCWD, s.Source, cloneTree)
}

// cloneTree makes a detached mount of a path and of all that is mounted below it.
const cloneTree = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE

// OpenResolved takes a path of the host, with all that is mounted below it, as
// a detached mount. The path was resolved when the plan was made, and led to the
// file of this id, unless that is zero. Where a symbolic link has come into it
// since, the error is ELOOP, and ESTALE where it leads to another file.
func OpenResolved(path string, id FileID) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	if err := sameFile(fd, id); err != nil {
		return -1, err
	}
	return unix.OpenTree(fd, "", cloneTree|unix.AT_EMPTY_PATH)
}

// sameFile is ESTALE where what is open is not the file of this id.
func sameFile(fd int, id FileID) error {
	if id == (FileID{}) {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if id != (FileID{Dev: st.Dev, Ino: st.Ino}) {
		return unix.ESTALE
	}
	return nil
}

// BelowReadOnly makes what is mounted below the root of a detached tree
// read-only, and leaves the root as it is.
func BelowReadOnly(tree int) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(tree, &st); err != nil {
		return err
	}
	if st.Flags&unix.ST_RDONLY != 0 { // the root is so, too
		return setAttrs(tree, unix.MOUNT_ATTR_RDONLY)
	}
	if err := setAttrs(tree, unix.MOUNT_ATTR_RDONLY); err != nil {
		return err
	}
	return unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
}

func setAttrs(tree int, attr uint64) error {
	return unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{
		Attr_set:    attr,
		Propagation: unix.MS_PRIVATE,
	})
}

// bind attaches a tree. A target that exists may lie in something that is
// somebody else's, so it is resolved without following any symbolic link; all
// other targets are in the new root, where this process makes everything.
func (a *Applier) bind(i int, s *Step) error {
	tree := a.trees[i]
	defer unix.Close(tree)
	delete(a.trees, i)
	if hasFlag(s.Flags, FlagExisting) {
		return attach(tree, s.Target)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(tree, "", &st, unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	if err := a.mountPoint(s.Target, st.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, relative(s.Target), unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// openCgroup keeps a handle of the sandbox's control group. Only a detached
// mount of it may cross into another root: from any other handle, ".." would
// lead to the host's files.
func (a *Applier) openCgroup(i int, s *Step) (err error) {
	if a.InPlace {
		a.Cgroup, err = unix.Open(s.Source, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	}
	tree := a.trees[i]
	delete(a.trees, i)
	defer unix.Close(tree)
	// What is mounted is an O_PATH handle, and groups are used by one that can be read.
	a.Cgroup, err = unix.Openat(tree, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return err
}

// copy fills a directory of the new root from a tree that is never attached.
func (a *Applier) copy(i int, s *Step) error {
	tree := a.trees[i]
	defer unix.Close(tree)
	delete(a.trees, i)
	to, err := openInside(s.Target)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	return copyTree(tree, to)
}

// attach puts a detached mount at a path that exists already.
func attach(tree int, target string) error {
	at, err := openInside(target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// openInside opens a path of the new root. It does without O_NOFOLLOW, with
// which the kernel would open a link at the very end instead of refusing it
// (openat2(2), RESOLVE_NO_SYMLINKS).
func openInside(target string) (int, error) { return openBeneath(target, unix.O_PATH) }

func openBeneath(target string, flags uint64) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, relative(target), &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if errors.Is(err, unix.ELOOP) {
		return -1, fmt.Errorf("%s leads through a symbolic link", target)
	}
	return fd, err
}

// bindSelf makes a path inside a mount point of its own: its parent directory
// can then not be renamed away from under it, and Flags apply to it alone.
func bindSelf(s *Step) error {
	at, err := openInside(s.Target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	tree, err := unix.OpenTree(at, "", cloneTree|unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := setAttrs(tree, mountAttrs(s.Flags)); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// mountTmpfs mounts an empty file system. At "/" it is the new root itself,
// which becomes the working directory.
func (a *Applier) mountTmpfs(s *Step) error {
	fd, err := newTmpfs(s)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if s.Target == "/" {
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, base, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return err
		}
		return unix.Chdir(base)
	}
	if !hasFlag(s.Flags, FlagExisting) {
		if err := a.mountPoint(s.Target, true); err != nil {
			return err
		}
	}
	return attach(fd, s.Target)
}

// newTmpfs makes an empty file system that is attached nowhere yet. Its
// inodes are bounded with its bytes, one for each 4 KiB.
func newTmpfs(s *Step) (int, error) {
	ctx, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ctx)
	for _, option := range [][2]string{
		{"source", "paddock"},
		{"mode", fmt.Sprintf("%04o", s.Mode)},
		{"size", strconv.FormatInt(s.Size, 10)},
		{"nr_inodes", strconv.FormatInt(max(s.Size/4096, 1024), 10)},
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

func (a *Applier) mountDevpts(s *Step) error {
	if err := a.mountPoint(s.Target, true); err != nil {
		return err
	}
	return unix.Mount("devpts", relative(s.Target), "devpts", mountFlags(s.Flags), "newinstance,ptmxmode=0666,mode=0620")
}

// pivot makes the working directory the root and detaches the old root, so
// that no path leads to it (pivot_root(2), "pivot_root(".", ".")").
func pivot() error {
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Chdir("/")
}

func setReadOnly(target string) error {
	return unix.MountSetattr(unix.AT_FDCWD, target, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// DetachedTmpfs makes an empty file system of at most size bytes that is
// attached nowhere: only the returned directory handle reaches it.
func DetachedTmpfs(size int64) (int, error) {
	return newTmpfs(&Step{Mode: 0o700, Size: size, Flags: []string{FlagNoSuid, FlagNoDev, FlagNoExec}})
}

// DetachedProc mounts a fresh proc of the caller's pid namespace that is
// attached nowhere: only the returned directory handle reaches it.
func DetachedProc() (int, error) {
	ctx, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, err
	}
	return unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC,
		unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
}
