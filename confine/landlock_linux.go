package confine

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Scopes of struct landlock_ruleset_attr, from ABI 6 on (landlock(7)).
const (
	scopeAbstractUnixSocket = 1 << 0
	scopeSignal             = 1 << 1
)

// rulesetAttr is struct landlock_ruleset_attr as of ABI 6.
type rulesetAttr struct {
	handledFS, handledNet, scoped uint64
}

// LandlockABI is the version of Landlock that the kernel offers, 0 where it
// has none or it is switched off.
func LandlockABI() int {
	const version = 1 // LANDLOCK_CREATE_RULESET_VERSION
	abi, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// restrictScopes puts the calling thread into a Landlock domain that cannot
// reach the named kinds of object outside of it. It handles no file access,
// so mounts stay possible.
func restrictScopes(flags []string) error {
	var attr rulesetAttr
	for _, f := range flags {
		switch f {
		case FlagAbstract:
			attr.scoped |= scopeAbstractUnixSocket
		case FlagSignal:
			attr.scoped |= scopeSignal
		default:
			return fmt.Errorf("unknown scope %q", f)
		}
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(fd))
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
