package confine

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rulesetAttr is struct landlock_ruleset_attr as of ABI 6 (landlock(7)). An
// older kernel accepts only the first fields.
type rulesetAttr struct {
	handledFS, handledNet, scoped uint64
}

// The rights that a domain can handle, by ABI.
const (
	landlockABI1 = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	landlockABI2 = landlockABI1 | unix.LANDLOCK_ACCESS_FS_REFER
	landlockABI3 = landlockABI2 | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	landlockABI5 = landlockABI3 | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	// landlockFiles are the rights that apply to files, not only to directories.
	landlockFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
)

// landlockAccess maps the access of a rule to rights. None allows making devices.
var landlockAccess = map[Access]uint64{
	AccessRead:    unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR,
	AccessExec:    unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_EXECUTE,
	AccessChange:  landlockABI5 &^ (unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK),
	AccessAll:     landlockABI5 &^ (unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK),
	AccessConnect: unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX,
	AccessUse: unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV,
}

// LandlockABI returns the version of Landlock that the kernel offers, or 0 if it
// has none or Landlock is disabled.
func LandlockABI() int {
	abi, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// restrict puts the calling thread into a Landlock domain. If there are rules,
// it may access only the files that they grant. The flags name what else is
// denied.
func restrict(s *Step) error {
	abi := LandlockABI()
	var attr rulesetAttr
	sockets := false
	for _, f := range s.Flags {
		switch f {
		case FlagSockets:
			sockets = true
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
		if abi < LandlockFilesABI {
			// Before ABI 2 a domain could not let files move between directories,
			// which breaks programs.
			return fmt.Errorf("the kernel's Landlock ABI is %d, and %d is needed", abi, LandlockFilesABI)
		}
		attr.handledFS = handledFiles(abi)
	}
	if sockets {
		attr.handledFS |= unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
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

// handledFiles returns all rights to files that a domain can handle with this ABI.
func handledFiles(abi int) uint64 {
	switch {
	case abi < 3:
		return landlockABI2
	case abi < 5:
		return landlockABI3
	}
	return landlockABI5
}

// Ruleset makes a Landlock ruleset for a process of the host side: it can access the files
// that the rules grant, as far as they exist, and reach no abstract socket and signal no process
// outside of its domain, if the kernel can keep that. It needs [LandlockFilesABI].
func Ruleset(rules []PathRule) (*os.File, error) {
	abi := LandlockABI()
	attr := rulesetAttr{handledFS: handledFiles(abi)}
	if abi >= LandlockScopesABI {
		attr.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	var there []PathRule
	for _, r := range rules {
		if _, err := os.Stat(r.Path); err == nil {
			there = append(there, r)
		}
	}
	fd, err := newRuleset(attr, there)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "ruleset"), nil
}

// newRuleset makes a ruleset. It passes only the fields that are used, for
// kernels that do not know the others.
func newRuleset(attr rulesetAttr, rules []PathRule) (int, error) {
	size := unsafe.Offsetof(attr.handledNet)
	switch {
	case attr.scoped != 0:
		size = unsafe.Sizeof(attr)
	case attr.handledNet != 0:
		size = unsafe.Offsetof(attr.scoped)
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
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

// apartRuleset makes a ruleset that forbids nothing. It exists for the domain
// that a command gets by applying it: the kernel lets a process inspect only
// processes in the same domain or in one below it. The ruleset handles one
// right, which every domain denies otherwise, and grants it for all files. It
// has no scope, so it does not affect signals and sockets.
func apartRuleset() (int, error) {
	fd, err := newRuleset(rulesetAttr{handledFS: unix.LANDLOCK_ACCESS_FS_REFER}, []PathRule{{Path: "/", Access: AccessChange}})
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, apartFD) // above the descriptors of commands
}

// apartFD is the lowest descriptor for that ruleset. It is less than 64, for which a process has
// room from the start: the table of descriptors, which threads share, grows only after an RCU grace
// period, which would take longer than the rest of a start.
const apartFD = 48

// openPath opens a path as a handle only.
func openPath(path string) (int, error) {
	return unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
}

// openWithoutLinks opens an absolute path one name at a time, and returns ELOOP
// if one of them is a symbolic link. It does not use openat2(2), because the
// filter of an outer sandbox denies that call.
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

// addRule grants the access of a rule to its path and everything below it.
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
	var attr [12]byte // struct landlock_path_beneath_attr, which is packed
	*(*uint64)(unsafe.Pointer(&attr[0])) = access & handled
	*(*int32)(unsafe.Pointer(&attr[8])) = int32(fd)
	const ruleType = unix.LANDLOCK_RULE_PATH_BENEATH
	if _, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), ruleType, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
