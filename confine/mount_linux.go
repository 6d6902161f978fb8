package confine

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// base is where the new root is mounted before it becomes the root: some
// directory that every host has. Sources below it are opened before.
const base = "/tmp"

// relative returns a path inside as one relative to the working directory,
// which is the new root from its mount until it becomes "/".
func relative(target string) string {
	return "./" + strings.TrimPrefix(path.Clean(target), "/")
}

// mountAttrs returns the flags of a step as MOUNT_ATTR_… The MS_… flags of the
// same names have the same values.
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

// openTrees opens the source of every step as a detached mount, before a mount
// covers it. It sets attributes on the whole detached tree (mount_setattr(2)
// with AT_RECURSIVE); a remount would leave submounts as they were.
func (a *Applier) openTrees(steps []Step) *Error {
	a.trees, a.uppers, a.treeless = map[int]int{}, map[int]int{}, map[int]error{}
	for i := range steps {
		s := &steps[i]
		if s.Do != OpBind && s.Do != OpCopy && s.Do != OpOverlay && s.Do != OpLayer && (s.Do != OpCgroup || a.InPlace) {
			continue
		}
		fd, err := a.openTree(s)
		if err == nil && s.Do == OpLayer && s.FD == "" {
			a.uppers[i], err = openResolved(s.Names[0], FileID{}, cloneMount)
		}
		if err == nil {
			err = setAttrs(fd, mountAttrs(s.Flags))
		}
		if err == nil && slices.Contains(s.Flags, FlagBelowRO) {
			err = BelowReadOnly(fd)
		}
		switch {
		case err == nil:
			a.trees[i] = fd
		case s.Optional:
			a.treeless[i] = err
			if fd >= 0 {
				_ = unix.Close(fd)
			}
		default:
			return stepError("setup", s, err)
		}
	}
	return nil
}

// openTree opens the source of one step.
func (a *Applier) openTree(s *Step) (int, error) {
	switch {
	case s.FD != "":
		fd, ok := a.Files[s.FD]
		if !ok {
			return -1, fmt.Errorf("the descriptor %q was not handed over", s.FD)
		}
		return fd, nil
	case s.Do == OpLayer && len(s.Names) != 1:
		return -1, errors.New("the step names no layer")
	case s.Do == OpLayer: // alone: the kernel refuses it if something is mounted below that others have mounted
		return openResolved(s.Source, s.ID, cloneMount)
	case slices.Contains(s.Flags, FlagResolved):
		return OpenResolved(s.Source, s.ID)
	case s.Do == OpCgroup: // its own mount, from which ".." does not lead out
		return unix.OpenTree(unix.AT_FDCWD, s.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	}
	return unix.OpenTree(unix.AT_FDCWD, s.Source, cloneTree)
}

// cloneTree makes a detached mount of a path and everything mounted below it, cloneMount
// without that.
const (
	cloneTree  = cloneMount | unix.AT_RECURSIVE
	cloneMount = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC
)

// OpenResolved opens a path of the host, with everything mounted below it, as a
// detached mount. The path was resolved when the plan was made, and led to the
// file with this id, unless the id is zero. If the path now has a symbolic
// link, the error is ELOOP; if it leads to another file, ESTALE.
func OpenResolved(path string, id FileID) (int, error) { return openResolved(path, id, cloneTree) }

func openResolved(path string, id FileID, how uint) (int, error) {
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
	return unix.OpenTree(fd, "", how|unix.AT_EMPTY_PATH)
}

// sameFile returns ESTALE if the open file is not the one with this id. A zero id
// allows any file.
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

// BelowReadOnly makes the mounts below the root of a detached tree read-only,
// and leaves the root as it is.
func BelowReadOnly(tree int) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(tree, &st); err != nil {
		return err
	}
	if st.Flags&unix.ST_RDONLY != 0 { // so is the root
		return setAttrs(tree, unix.MOUNT_ATTR_RDONLY)
	}
	if err := setAttrs(tree, unix.MOUNT_ATTR_RDONLY); err != nil {
		return err
	}
	return unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
}

// setAttrs sets attributes on a whole detached tree, and makes it private.
func setAttrs(tree int, attr uint64) error {
	return unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{
		Attr_set:    attr,
		Propagation: unix.MS_PRIVATE,
	})
}

// bind attaches a tree. A target that exists may be in a tree that others
// control, so it is resolved without following symbolic links. All other
// targets are in the new root, where this process makes everything.
func (a *Applier) bind(i int, s *Step) error {
	tree := a.trees[i]
	defer unix.Close(tree)
	delete(a.trees, i)
	if slices.Contains(s.Flags, FlagExisting) {
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

// openCgroup keeps a handle of the sandbox's control group. Into another root
// only a handle of a detached mount may go: from any other, ".." would lead to
// the host's files.
func (a *Applier) openCgroup(i int, s *Step) (err error) {
	if a.InPlace {
		a.Cgroup, err = unix.Open(s.Source, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	}
	tree := a.trees[i]
	delete(a.trees, i)
	defer unix.Close(tree)
	// The tree is an O_PATH handle; groups need one that can be read.
	a.Cgroup, err = unix.Openat(tree, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return err
}

// copy fills a directory of the new root from a tree, which is never attached.
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

// attach moves a detached mount to a path that exists.
func attach(tree int, target string) error {
	at, err := openInside(target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return moveOnto(tree, at)
}

// moveOnto mounts a detached tree at an open directory, over what is mounted there.
func moveOnto(tree, at int) error {
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// openInside opens a path of the new root. It does not use O_NOFOLLOW: with
// that flag the kernel opens a link at the very end instead of refusing it
// (openat2(2), RESOLVE_NO_SYMLINKS).
func openInside(target string) (int, error) { return openBeneath(target, unix.O_PATH) }

// openBeneath opens a path of the new root, without following symbolic links.
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

// bindSelf turns a path inside into a mount point, so that directories above it
// cannot be renamed, and Flags apply only to it.
func bindSelf(s *Step) error {
	at, err := openInside(s.Target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	from := at
	if s.Source != "" {
		if from, err = openInside(s.Source); err != nil {
			return err
		}
		defer unix.Close(from)
	}
	tree, err := unix.OpenTree(from, "", cloneTree|unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := setAttrs(tree, mountAttrs(s.Flags)); err != nil {
		return err
	}
	return moveOnto(tree, at)
}

// mountTmpfs mounts an empty file system. Target "/" is the new root itself,
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
	if !slices.Contains(s.Flags, FlagExisting) {
		if err := a.mountPoint(s.Target, true); err != nil {
			return err
		}
	}
	return attach(fd, s.Target)
}

// newTmpfs makes an empty file system that is not attached yet. It has one inode
// for each 4 KiB of its size.
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

// mountDevpts mounts a new instance of devpts, with separate terminals.
func (a *Applier) mountDevpts(s *Step) error {
	if err := a.mountPoint(s.Target, true); err != nil {
		return err
	}
	return unix.Mount("devpts", relative(s.Target), "devpts", uintptr(mountAttrs(s.Flags)), "newinstance,ptmxmode=0666,mode=0620")
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

// DetachedTmpfs makes an empty file system of at most size bytes that is
// mounted nowhere: only the returned directory handle reaches it.
func DetachedTmpfs(size int64) (int, error) {
	return newTmpfs(&Step{Mode: 0o700, Size: size, Flags: []string{FlagNoSuid, FlagNoDev, FlagNoExec}})
}

// DetachedProc makes a fresh proc of the caller's pid namespace that is mounted
// nowhere: only the returned directory handle reaches it.
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

// parents makes the directories above a path of the new root. Like the methods
// below, it uses plain system calls on paths relative to the working directory,
// since no other process can reach the new root yet.
func (a *Applier) parents(target string) error {
	dir := path.Dir(path.Clean(target)[1:])
	if a.made[dir] {
		return nil
	}
	if err := a.parents("/" + dir); err != nil {
		return err
	}
	return a.mkdir(dir)
}

// mkdir makes a directory unless it exists, and remembers it.
func (a *Applier) mkdir(dir string) error {
	err := unix.Mkdir(dir, 0o755)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	a.made[dir] = true
	return nil
}

// mountPoint makes the directory or the empty file that a mount will cover.
func (a *Applier) mountPoint(target string, isDir bool) error {
	if err := a.parents(target); err != nil {
		return err
	}
	name := path.Clean(target)[1:]
	if isDir {
		return a.mkdir(name)
	}
	err := unix.Mknod(name, unix.S_IFREG|0o444, 0)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// makeDir makes a directory with the step's mode.
func (a *Applier) makeDir(s *Step) error {
	if err := a.mountPoint(s.Target, true); err != nil {
		return err
	}
	return unix.Chmod(relative(s.Target), s.Mode&0o777)
}

// makeFile makes a file with the step's data. It must not exist.
func (a *Applier) makeFile(s *Step) error {
	if err := a.parents(s.Target); err != nil {
		return err
	}
	fd, err := unix.Open(relative(s.Target), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, s.Mode&0o777)
	if err != nil {
		return err
	}
	for data := s.Data; len(data) > 0 && err == nil; {
		var n int
		n, err = unix.Write(fd, data)
		data = data[max(n, 0):]
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	return err
}

// listen makes a Unix socket that listens, for the host side.
func (a *Applier) listen(s *Step) error {
	if err := a.parents(s.Target); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: relative(s.Target)}); err == nil {
		err = unix.Listen(fd, 128)
	}
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	a.Gateway = append(a.Gateway, fd)
	return nil
}

// makeSymlink makes a symbolic link.
func (a *Applier) makeSymlink(s *Step) error {
	if err := a.parents(s.Target); err != nil {
		return err
	}
	return unix.Symlink(s.Source, relative(s.Target))
}
