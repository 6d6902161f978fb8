package hostpath

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
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
	switch {
	case st.Uid != 0 && int(st.Uid) != os.Geteuid() && (st.Uid != nobody || !nobodyUnmapped()):
		return fmt.Errorf("%s belongs to uid %d, who can make files there", dir, st.Uid)
	case mode&0o002 != 0:
		return fmt.Errorf("every user of this host can make files in %s (mode %04o)", dir, mode)
	case mode&0o020 != 0 && namesMore(dir):
		return fmt.Errorf("those whom its access control list names can make files in %s (getfacl)", dir)
	case mode&0o020 != 0 && st.Gid != 0 && (int(st.Gid) != os.Getegid() || !ownGroup()):
		return fmt.Errorf("the group %d can make files in %s (mode %04o)", st.Gid, dir, mode)
	}
	return nil
}

// ownGroup reports whether the caller's group has the caller's name, as those have that have no other
// member.
var ownGroup = sync.OnceValue(func() bool {
	me, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return false
	}
	group, err := user.LookupGroupId(strconv.Itoa(os.Getegid()))
	return err == nil && group.Name == me.Username
})
