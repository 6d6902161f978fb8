//go:build linux

package linux

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/policy"
)

// A workspace of mode "overlay" is mounted over its source in one of two ways. Root mounts it
// itself, over id-mapped mounts, and hands it over: the kernel's marks are then in trusted.*,
// which no command can write, directories of the source can be renamed, and new files belong to
// the source's owner whatever id the sandbox was lent. For an ordinary user the agent mounts it,
// in the sandbox's own user namespace.

// addLayer adds the step that mounts the workspace.
func (b *builder) addLayer(m hostpath.Mount, fd string) {
	s := confine.Step{Do: confine.OpLayer, Source: m.Source, Target: m.Target, FD: fd, ID: m.ID.FileID, Flags: b.filled(),
		Why: "the workspace, which stays as it is; what commands change goes to a layer above it"}
	s.Names = []string{"LAYER"} // a plan makes none
	if b.layer != nil {
		s.Names = []string{b.layer.Dir}
	}
	if fd != "" {
		s.Why += ", mounted by root over id-mapped mounts"
	}
	b.add(s)
}

// layerMarksOf returns the marks that the layer of a request will have, or "".
func layerMarksOf(req backend.Request) string {
	if req.Spec.Workspace.Mode != policy.ModeOverlay {
		return ""
	}
	if req.Layer != nil {
		return req.Layer.Marks()
	}
	initial, err := inInitialUserns()
	return (&backend.Layer{Root: os.Geteuid() == 0 && err == nil && initial}).Marks()
}

// checkLayer refuses a layer that this user cannot mount as it was made: what commands left in
// one can come alive in the other.
func checkLayer(req backend.Request, id identity) error {
	if req.Spec.Workspace.Mode != policy.ModeOverlay {
		return nil
	}
	if req.Layer == nil {
		return backend.Failed("plan", "find", "the layer", errors.New("the workspace is an overlay, and no layer was made for it"), "")
	}
	for _, name := range []string{"upper", "work"} {
		at := filepath.Join(req.Layer.Dir, name)
		if info, err := os.Lstat(at); err != nil || !info.IsDir() {
			return backend.Failed("plan", "use", at, cmp.Or(err, errors.New("it is not a directory")), "the layer of the workspace was changed by hand: make a new sandbox")
		}
	}
	if req.Layer.Root == (id.kind == idmap) {
		return nil
	}
	who := "an ordinary user's"
	if req.Layer.Root {
		who = "root's"
	}
	return backend.Failed("plan", "use", req.Layer.Dir, fmt.Errorf("the layer is %s, and this user is another", who), "start it as the user who made it")
}

// mountLayer mounts the overlay of a workspace as root. source is the id-mapped mount of the
// source, which it closes. The layer gets such a mount, too.
func mountLayer(source *os.File, layer *backend.Layer, m hostpath.Mount, userns *os.File, id identity, flags []string) (*os.File, error) {
	defer source.Close()
	fail := func(op, object string, err error, hint string) (*os.File, error) {
		return nil, backend.Failed("setup", op, object, err, hint)
	}
	const place = "keep layers on ext4, xfs, btrfs or tmpfs: `workspace.layers` DIR"
	space, err := confine.OpenResolved(layer.Dir, confine.FileID{})
	if err != nil {
		return fail("open", layer.Dir, err, "it holds the layer of the workspace, and nothing may take its place")
	}
	defer unix.Close(space)
	err = unix.MountSetattr(space, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Userns_fd: uint64(userns.Fd())})
	if err != nil {
		return fail("id-map", layer.Dir, err, place)
	}
	var attrs uint64 = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	if slices.Contains(flags, confine.FlagNoExec) {
		attrs |= unix.MOUNT_ATTR_NOEXEC
	}
	fd := -1
	done := make(chan error, 1)
	clone.BesideLeader(func() {
		var err error
		fd, err = overlayAs(id, int(source.Fd()), space, attrs)
		done <- err
	})
	if err := <-done; err != nil {
		return fail("mount an overlay of", m.Source+" and "+layer.Dir, err, place)
	}
	if err := confine.Changeable(fd); err != nil {
		_ = unix.Close(fd)
		return fail("mount an overlay of", m.Source+" and "+layer.Dir, err, place)
	}
	return os.NewFile(uintptr(fd), m.Source), nil
}

// overlayAs mounts an overlay, with the calling thread, which becomes useless for anything else.
// For what it does to its layers the kernel keeps the thread's identity: with the lent id it
// opens nothing that commands may not, and can still make its work directory, which root cannot
// in an id-mapped mount.
func overlayAs(id identity, source, space int, attrs uint64) (int, error) {
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return -1, os.NewSyscallError("prctl", err)
	}
	const noFixup = 1 << 2 // SECBIT_NO_SETUID_FIXUP: the capabilities stay
	bits, err := unix.PrctlRetInt(unix.PR_GET_SECUREBITS, 0, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECUREBITS, uintptr(bits|noFixup), 0, 0, 0)
	}
	if err != nil {
		return -1, os.NewSyscallError("prctl", err)
	}
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSGID, uintptr(id.gid), 0, 0)
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uintptr(id.uid), 0, 0)
	if dumpable == 1 { // the kernel has changed it for the whole process
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
			return -1, os.NewSyscallError("prctl", err)
		}
	}
	if is, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ^uintptr(0), 0, 0); is != uintptr(id.uid) { // which changes nothing
		return -1, fmt.Errorf("the kernel did not take the id %d", id.uid)
	}
	fd, err := newLayered(attrs, func(ctx int) error { return setLayers(ctx, source, space) })
	if errors.Is(err, unix.EBADF) || errors.Is(err, unix.EOPNOTSUPP) { // before Linux 6.13, and before 6.5
		if err := attachLayers(source, space); err != nil {
			return -1, err
		}
		fd, err = newLayered(attrs, func(ctx int) error { return setLayerPaths(ctx, source, space) })
	}
	return fd, err
}

// newLayered makes an overlay, whose layers set names, as a detached mount.
func newLayered(attrs uint64, set func(ctx int) error) (int, error) {
	ctx, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(ctx)
	for _, option := range [][2]string{
		{"source", "paddock"}, {"redirect_dir", "on"}, {"xino", "auto"},
		{"index", "off"}, {"metacopy", "off"}, // see confine
	} {
		if err := unix.FsconfigSetString(ctx, option[0], option[1]); err != nil {
			return -1, confine.OverlayError(ctx, fmt.Errorf("%s: %w", option[0], err))
		}
	}
	if err := set(ctx); err != nil {
		return -1, err
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, confine.OverlayError(ctx, err)
	}
	fd, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, int(attrs))
	return fd, os.NewSyscallError("fsmount", err)
}

// setLayers names the layers of an overlay by descriptors.
func setLayers(ctx, source, space int) error {
	if err := unix.FsconfigSetFd(ctx, "lowerdir+", source); err != nil {
		return confine.OverlayError(ctx, fmt.Errorf("lowerdir+: %w", err))
	}
	for _, option := range [][2]string{{"upperdir", "upper"}, {"workdir", "work"}} {
		dir, err := unix.Openat(space, option[1], unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", option[1], err)
		}
		err = unix.FsconfigSetFd(ctx, option[0], dir)
		_ = unix.Close(dir)
		if err != nil {
			return confine.OverlayError(ctx, fmt.Errorf("%s: %w", option[0], err))
		}
	}
	return nil
}

// attachLayers attaches the two mounts in a mount namespace of the calling thread's own, which
// ends with it: older kernels take layers by their path alone, and only attached ones.
func attachLayers(source, space int) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil { // nothing shows in the host's
		return os.NewSyscallError("mount", err)
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(root)
	for _, fd := range []int{source, space} { // one on the other: they are found by descriptor
		if err := unix.MoveMount(fd, "", root, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
			return os.NewSyscallError("move_mount", err)
		}
	}
	return nil
}

// setLayerPaths names the layers of an overlay by paths, which need no quoting.
func setLayerPaths(ctx, source, space int) error {
	at := fmt.Sprintf("/proc/thread-self/fd/%d", space)
	for _, option := range [][2]string{
		{"lowerdir", fmt.Sprintf("/proc/thread-self/fd/%d", source)}, {"upperdir", at + "/upper"}, {"workdir", at + "/work"},
	} {
		if err := unix.FsconfigSetString(ctx, option[0], option[1]); err != nil {
			return confine.OverlayError(ctx, fmt.Errorf("%s: %w", option[0], err))
		}
	}
	return nil
}

// layerMarks looks at a line of mountinfo that must be of the workspace's overlay, and returns in
// which attributes its marks are. That an overlay was mounted proves nothing: without what it
// needs it is read-only, or lacks something.
func layerMarks(fields []string) (string, error) {
	kind := slices.Index(fields, "-") + 1
	if kind == 0 || len(fields) < kind+3 || fields[kind] != "overlay" {
		return "", errors.New("it is not an overlay")
	}
	options := strings.Split(fields[kind+2], ",")
	has := func(o string) bool { return slices.Contains(options, o) }
	marks := "trusted"
	switch {
	case !has("rw"):
		return "", errors.New("the overlay is read-only")
	case has("uuid=null"), slices.ContainsFunc(options, func(o string) bool { return o == "volatile" || o == "fsync=volatile" }), has("metacopy=on"), has("index=on"):
		return "", fmt.Errorf("the overlay has other options than it should: %s", strings.Join(options, ","))
	case has("userxattr"):
		marks = "userxattr"
	case !has("redirect_dir=on"):
		return "", errors.New("directories could not be renamed in the overlay")
	}
	return marks, nil
}
