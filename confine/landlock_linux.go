package confine

import (
	"cmp"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rulesetAttr is struct landlock_ruleset_attr as of ABI 6 (landlock(7)). An
// older kernel takes its beginning.
type rulesetAttr struct {
	handledFS, handledNet, scoped uint64
}

// pathBeneath is struct landlock_path_beneath_attr, which is packed.
type pathBeneath [12]byte

func newPathBeneath(access uint64, fd int) (p pathBeneath) {
	*(*uint64)(unsafe.Pointer(&p[0])) = access
	*(*int32)(unsafe.Pointer(&p[8])) = int32(fd)
	return p
}

// What the ABIs added to what a domain can handle.
const (
	landlockABI1 = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	landlockABI2 = landlockABI1 | unix.LANDLOCK_ACCESS_FS_REFER
	landlockABI3 = landlockABI2 | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	landlockABI5 = landlockABI3 | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	// landlockFiles are the rights that a file can have, as opposed to a directory.
	landlockFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlockAccess is what the words of a rule mean. Nobody may make devices.
var landlockAccess = map[Access]uint64{
	AccessRead:   unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR,
	AccessExec:   unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_EXECUTE,
	AccessChange: landlockABI5 &^ (unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK),
	AccessAll:    landlockABI5 &^ (unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK),
	AccessUse: unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV,
}

// landlockHandled is what an ABI can handle of files. Before ABI 2 a domain
// could not let files move between directories, which no program could work with.
func landlockHandled(abi int) uint64 {
	switch {
	case abi < LandlockFilesABI:
		return 0
	case abi < 3:
		return landlockABI2
	case abi < 5:
		return landlockABI3
	default:
		return landlockABI5
	}
}

// LandlockABI is the version of Landlock that the kernel offers, 0 where it
// has none or it is switched off.
func LandlockABI() int {
	abi, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// restrict puts the calling thread into a Landlock domain: of files it may
// use what the rules say, where there are any, and the flags name what else is
// out of reach.
func restrict(s *Step) error {
	abi := LandlockABI()
	var attr rulesetAttr
	for _, f := range s.Flags {
		switch f {
		case FlagAbstract:
			attr.scoped |= unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		case FlagSignal:
			attr.scoped |= unix.LANDLOCK_SCOPE_SIGNAL
		case FlagTCP:
			attr.handledNet = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		default:
			return fmt.Errorf("unknown scope %q", f)
		}
	}
	if len(s.Rules) > 0 {
		if attr.handledFS = landlockHandled(abi); attr.handledFS == 0 {
			return fmt.Errorf("the kernel's Landlock ABI is %d, and %d is needed", abi, LandlockFilesABI)
		}
	}
	fd, err := newRuleset(attr, s.Rules)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(fd), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func newRuleset(attr rulesetAttr, rules []PathRule) (int, error) {
	fd, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&attr)), attrSize(attr), 0)
	if errno != 0 {
		return -1, errno
	}
	for _, r := range rules {
		if err := addRule(int(fd), r, attr.handledFS); err != nil {
			_ = unix.Close(int(fd))
			return -1, &Error{Op: string(OpLandlock), Object: r.Path, Cause: err.Error()}
		}
	}
	return int(fd), nil
}

// apartRuleset makes a ruleset that forbids nothing. What counts is the domain
// that a command gets by it: the kernel lets processes look into others only
// where these are in the same domain or in one below it. The one right that is
// handled, and given for all files, is the one that every domain takes away
// otherwise. There is no scope in it, so signals and sockets are left alone.
func apartRuleset() (int, error) {
	fd, err := newRuleset(rulesetAttr{handledFS: unix.LANDLOCK_ACCESS_FS_REFER}, []PathRule{{Path: "/", Access: AccessChange}})
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, apartFD) // out of the way of what commands are given
}

const apartFD = 64

// attrSize leaves out what is not used, for kernels that do not know it.
func attrSize(attr rulesetAttr) uintptr {
	switch {
	case attr.scoped != 0:
		return unsafe.Sizeof(attr)
	case attr.handledNet != 0:
		return unsafe.Offsetof(attr.scoped)
	default:
		return unsafe.Offsetof(attr.handledNet)
	}
}

func openPath(path string) (int, error) {
	return unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
}

// openWithoutLinks goes to an absolute path one name at a time; ELOOP where
// one of them is a symbolic link. In another sandbox there is no openat2(2) for it.
func openWithoutLinks(path string) (int, error) {
	at, err := openPath("/")
	if err != nil {
		return -1, err
	}
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = unix.Close(at)
		if err != nil {
			return -1, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
			_ = unix.Close(fd)
			return -1, cmp.Or(err, error(unix.ELOOP))
		}
		at = fd
	}
	return at, nil
}

// addRule grants what a rule says of a path and all below it.
func addRule(ruleset int, r PathRule, handled uint64) error {
	access, ok := landlockAccess[r.Access]
	if !ok {
		return fmt.Errorf("unknown access %q", r.Access)
	}
	open := openPath
	if r.Resolved {
		open = openWithoutLinks
	}
	fd, err := open(r.Path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := sameFile(fd, r.ID); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= landlockFiles
	}
	attr := newPathBeneath(access&handled, fd)
	const ruleType = unix.LANDLOCK_RULE_PATH_BENEATH
	if _, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), ruleType, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
