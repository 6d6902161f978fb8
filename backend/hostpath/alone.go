package hostpath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/policy"
)

// Alone returns nil if only root, the caller, and a group that is the caller's alone can make files
// in a directory and in all directories above it. Otherwise the error names a directory in which
// others can: even where the sticky bit keeps what is there, they can add what programs look for.
func Alone(dir string) error {
	way, err := Follow(dir)
	if err != nil {
		return err
	}
	for _, d := range append(way.Dirs[:len(way.Dirs):len(way.Dirs)], Dir{Path: way.Path}) {
		if err := aloneIn(d.Path); err != nil {
			return err
		}
	}
	return nil
}

// aloneIn is [Alone] for a directory without those above it.
func aloneIn(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "look at", Path: dir, Err: err}
	}
	mode := st.Mode & 0o7777
	named, group := writers(dir, mode&0o020 != 0)
	switch {
	case st.Uid != 0 && int(st.Uid) != os.Geteuid() && (st.Uid != nobody || !nobodyUnmapped()):
		return fmt.Errorf("%s belongs to uid %d, who can make files there", dir, st.Uid)
	case mode&0o002 != 0:
		return fmt.Errorf("every user of this host can make files in %s (mode %04o)", dir, mode)
	case named:
		return fmt.Errorf("those whom its access control list names can make files in %s (getfacl)", dir)
	case group && st.Gid != 0 && !privateGroup(st.Gid, uint32(os.Geteuid())):
		why := ""
		if int(st.Uid) == os.Geteuid() {
			why = "; chmod g-w " + policy.ShellWord(dir) + " ends that"
		}
		return fmt.Errorf("the group %d can make files in %s (mode %04o)%s", st.Gid, dir, mode, why)
	}
	return nil
}

// privateGroup reports whether a group has the name of a user, as those have that have no other member.
// It is false where this host's lists, /etc/passwd and /etc/group, do not have both.
func privateGroup(gid, uid uint32) bool {
	who, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return false
	}
	group, err := user.LookupGroupId(strconv.FormatUint(uint64(gid), 10))
	return err == nil && group.Name == who.Username
}

// loginGroup reports whether a group is that of this process, or that of the caller's login, which
// newgrp(1) leaves.
func loginGroup(gid uint32) bool {
	if gid == uint32(os.Getegid()) {
		return true
	}
	me, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	return err == nil && me.Gid == strconv.FormatUint(uint64(gid), 10)
}

// Access control lists, see acl(5): a version, and entries of a tag, permissions and an id.
const (
	aclHead, aclEntry              = 4, 8 // bytes
	aclUser, aclGroupObj, aclGroup = 0x02, 0x04, 0x08
	aclWrite                       = 2
)

// writers reports whether the access control list of a directory lets users or groups change it whom it
// names, and whether the list, or without one the mode, lets the directory's group. byMode is the
// group's part of the mode, with a list its mask. A list that cannot be read lets both.
func writers(dir string, byMode bool) (named, group bool) {
	if !byMode {
		return false, false
	}
	list := make([]byte, 4<<10)
	n, err := unix.Lgetxattr(dir, "system.posix_acl_access", list)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return false, true
	}
	if err != nil || n < aclHead || (n-aclHead)%aclEntry != 0 {
		return true, true
	}
	for e := list[aclHead:n]; len(e) > 0; e = e[aclEntry:] {
		if binary.LittleEndian.Uint16(e[2:])&aclWrite == 0 {
			continue
		}
		switch binary.LittleEndian.Uint16(e) {
		case aclUser, aclGroup:
			named = true
		case aclGroupObj:
			group = true
		}
	}
	return named, group
}
