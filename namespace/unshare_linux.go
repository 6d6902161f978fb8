package namespace

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/internal/osstring"
)

// Unshare describes new namespaces, and the steps in them before the command starts. The
// zero value makes none.
type Unshare struct {
	Namespaces uint64 // CLONE_NEW*
	// Fork makes the command a child of the process that makes the namespaces, and
	// so the first process of a new pid namespace. Without it, only the children
	// of the command are in that namespace.
	Fork bool
	// Files are where new namespaces are kept by mounts, so that they stay when no process
	// is left in them.
	Files []File
	// UIDs and GIDs are the maps of a new user namespace. The kernel may allow an
	// ordinary user only a map of their own id.
	UIDs, GIDs []Map
	// MapAuto maps the caller's subordinate ids, too, to the ids from 0 that UIDs and GIDs
	// leave free.
	MapAuto bool
	// KeepCaps keeps the capabilities in a new user namespace for a program that an
	// ordinary user of it executes.
	KeepCaps bool
	// Monotonic and Boottime are offsets, in seconds, of clocks in a new time namespace.
	Monotonic, Boottime *int64
	// Setgroups is "allow" or "deny". If it is empty and an ordinary user maps
	// groups, it is denied, because the kernel demands that.
	Setgroups string
	// Propagation of mounts: "private", "shared", "slave" or "unchanged"; empty
	// is private.
	Propagation string
	// MountProc is where a new /proc is mounted; empty for none.
	MountProc osstring.String
	Root      osstring.String // becomes "/"
	Dir       osstring.String // the working directory; "/" if Root is set
	// KillSignal is sent to the command when its parent has ended; 0 is SIGKILL.
	KillSignal     int
	SetUID, SetGID *uint32
}

var unshareFlags = unshareList()

// unshareList returns the flags, in the order of help texts.
func unshareList() []flag[Unshare] {
	var list []flag[Unshare]
	for _, k := range kinds {
		list = append(list, flag[Unshare]{k.long, k.short, optionalValue, func(u *Unshare, v string) string {
			u.Namespaces |= k.flag
			return parseFile(v, k.flag, &u.Files)
		}})
	}
	return append(list,
		flag[Unshare]{"fork", 'f', noValue, func(u *Unshare, _ string) string { u.Fork = true; return "" }},
		flag[Unshare]{"map-root-user", 'r', noValue, func(u *Unshare, _ string) string {
			return cmp.Or(u.mapUser(0), u.mapGroup(0))
		}},
		flag[Unshare]{"map-current-user", 'c', noValue, func(u *Unshare, _ string) string {
			return cmp.Or(u.mapUser(uint32(os.Geteuid())), u.mapGroup(uint32(os.Getegid())))
		}},
		flag[Unshare]{"map-user", 0, needsValue, func(u *Unshare, v string) string {
			id, wrong := userIDs.parse(v)
			return cmp.Or(wrong, u.mapUser(id))
		}},
		flag[Unshare]{"map-group", 0, needsValue, func(u *Unshare, v string) string {
			id, wrong := groupIDs.parse(v)
			return cmp.Or(wrong, u.mapGroup(id))
		}},
		flag[Unshare]{"map-auto", 0, noValue, func(u *Unshare, _ string) string {
			u.Namespaces |= unix.CLONE_NEWUSER
			u.MapAuto = true
			return ""
		}},
		flag[Unshare]{"map-users", 0, needsValue, func(u *Unshare, v string) string { return u.addMap(v, &u.UIDs) }},
		flag[Unshare]{"map-groups", 0, needsValue, func(u *Unshare, v string) string { return u.addMap(v, &u.GIDs) }},
		flag[Unshare]{"mount-proc", 0, optionalValue, func(u *Unshare, v string) string {
			u.Namespaces |= unix.CLONE_NEWNS
			if v == "" {
				v = "/proc"
			}
			return parsePath(v, &u.MountProc)
		}},
		flag[Unshare]{"kill-child", 0, optionalValue, func(u *Unshare, v string) string {
			u.Fork = true
			if v == "" {
				v = "KILL"
			}
			return parseSignal(v, &u.KillSignal)
		}},
		flag[Unshare]{"propagation", 0, needsValue, func(u *Unshare, v string) string {
			return oneOf(v, &u.Propagation, "private", "shared", "slave", "unchanged")
		}},
		flag[Unshare]{"root", 'R', needsValue, func(u *Unshare, v string) string { return parsePath(v, &u.Root) }},
		flag[Unshare]{"wd", 'w', needsValue, func(u *Unshare, v string) string { return parsePath(v, &u.Dir) }},
		flag[Unshare]{"setuid", 'S', needsValue, func(u *Unshare, v string) string { return parseID(v, &u.SetUID) }},
		flag[Unshare]{"setgid", 'G', needsValue, func(u *Unshare, v string) string { return parseID(v, &u.SetGID) }},
		flag[Unshare]{"setgroups", 0, needsValue, func(u *Unshare, v string) string { return oneOf(v, &u.Setgroups, "allow", "deny") }},
		flag[Unshare]{"keep-caps", 0, noValue, func(u *Unshare, _ string) string { u.KeepCaps = true; return "" }},
		flag[Unshare]{"monotonic", 0, needsValue, func(u *Unshare, v string) string { return parseOffset(v, &u.Monotonic) }},
		flag[Unshare]{"boottime", 0, needsValue, func(u *Unshare, v string) string { return parseOffset(v, &u.Boottime) }},
	)
}

// mapUser maps the caller's user to one in a new user namespace.
func (u *Unshare) mapUser(inside uint32) (wrong string) {
	return u.mapOwn(inside, os.Geteuid(), &u.UIDs)
}

// mapGroup maps the caller's group to one in a new user namespace.
func (u *Unshare) mapGroup(inside uint32) (wrong string) {
	return u.mapOwn(inside, os.Getegid(), &u.GIDs)
}

func (u *Unshare) mapOwn(inside uint32, outside int, into *[]Map) (wrong string) {
	if *into != nil {
		return "there is another map already"
	}
	u.Namespaces |= unix.CLONE_NEWUSER
	*into = []Map{{inside, uint32(outside), 1}}
	return ""
}

// addMap reads a map and appends it.
func (u *Unshare) addMap(value string, into *[]Map) string {
	u.Namespaces |= unix.CLONE_NEWUSER
	return parseMap(value, into)
}

// ParseUnshare parses flags of unshare(1): "--mount", "-m", or without dashes. It accepts
// only the flags of a fixed list. A value must be in the same element ("--root=/srv"). The
// error is a *FlagError.
func ParseUnshare(flags []string) (*Unshare, error) {
	u := &Unshare{}
	if err := parse(unshareFlags, flags, u); err != nil {
		return nil, err
	}
	switch {
	case u.Setgroups != "" && u.Namespaces&unix.CLONE_NEWUSER == 0:
		return nil, &FlagError{Flag: "--setgroups", Reason: "it needs a new user namespace (--user)"}
	case u.Monotonic != nil && u.Namespaces&unix.CLONE_NEWTIME == 0:
		return nil, &FlagError{Flag: "--monotonic", Reason: "it needs a new time namespace (--time)"}
	case u.Boottime != nil && u.Namespaces&unix.CLONE_NEWTIME == 0:
		return nil, &FlagError{Flag: "--boottime", Reason: "it needs a new time namespace (--time)"}
	case u.keeps(unix.CLONE_NEWPID) && !u.Fork:
		return nil, &FlagError{Flag: "--pid", Reason: "a pid namespace is kept in a file only with its first process (--fork)"}
	case u.Setgroups == "allow" && os.Geteuid() != 0 && u.GIDs != nil && !u.MapAuto:
		return nil, &FlagError{Flag: "--setgroups", Reason: "the kernel lets an ordinary user map groups only with setgroups denied"}
	}
	return u, nil
}

var propagations = map[string]int{"": unix.MS_PRIVATE, "private": unix.MS_PRIVATE, "shared": unix.MS_SHARED, "slave": unix.MS_SLAVE}

// script adds the steps of the child, which makes the namespaces and enters them.
func (u *Unshare) script(s *clone.Script, h *helper) {
	if u.Namespaces != 0 {
		s.Call("unshare", unix.SYS_UNSHARE, uintptr(u.Namespaces))
	}
	s.Reach(reachedMap, h.gate)
	if u.Fork {
		s.Fork(0, true)
	}
	dieWithParent(s, u.KillSignal)
	if u.keeps(unix.CLONE_NEWPID) { // which has a file once it has a process
		s.Reach(reachedFork, h.gate)
	}
	h.session(s)
	if flag, ok := propagations[u.Propagation]; ok && u.Namespaces&unix.CLONE_NEWNS != 0 {
		s.Call("propagate", unix.SYS_MOUNT, nil, "/", nil, unix.MS_REC|flag)
	}
	if u.Root != "" {
		s.Call("root", unix.SYS_CHROOT, string(u.Root))
		s.Call("root", unix.SYS_CHDIR, "/")
	}
	if u.Dir != "" {
		s.Call("dir", unix.SYS_CHDIR, string(u.Dir))
	}
	if u.MountProc != "" {
		s.Try(unix.SYS_MOUNT, nil, string(u.MountProc), nil, unix.MS_REC|unix.MS_PRIVATE) // succeeds only on a mount
		s.Call("proc", unix.SYS_MOUNT, "proc", string(u.MountProc), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC)
	}
	if u.SetGID != nil {
		if u.Setgroups != "deny" && !u.denies() {
			s.Call("setgroups", unix.SYS_SETGROUPS, 0, nil)
		}
		s.Call("setgid", unix.SYS_SETRESGID, uintptr(*u.SetGID), uintptr(*u.SetGID), uintptr(*u.SetGID))
	}
	keep := u.KeepCaps && u.Namespaces&unix.CLONE_NEWUSER != 0
	if keep {
		s.Call("keep", unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1)
	}
	setUser(s, u.SetUID)
	if keep {
		keepCaps(s)
	}
	dieWithParent(s, u.KillSignal) // a change of identity resets it
}

// keepCaps adds steps that make all capabilities ambient. In a new user namespace a process
// has all that exist.
func keepCaps(s *clone.Script) {
	header := binary.NativeEndian.AppendUint32(nil, unix.LINUX_CAPABILITY_VERSION_3)
	header = binary.NativeEndian.AppendUint32(header, 0) // the child itself
	s.Call("keep", unix.SYS_CAPSET, header, bytes.Repeat([]byte{0xff}, 2*3*4))
	for c := range unix.CAP_LAST_CAP + 1 {
		s.Try(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c) // an older kernel has fewer
	}
}

// denies reports whether setgroups must be denied for the map of groups.
func (u *Unshare) denies() bool {
	return u.Setgroups == "" && u.GIDs != nil && !u.MapAuto && (os.Geteuid() != 0 || len(u.GIDs) == 1 && u.GIDs[0].Count == 1)
}

// setUser adds a step that changes the user.
func setUser(s *clone.Script, uid *uint32) {
	if uid != nil {
		s.Call("setuid", unix.SYS_SETRESUID, uintptr(*uid), uintptr(*uid), uintptr(*uid))
	}
}

// dieWithParent adds a step that makes the kernel send the child a signal when its
// parent ends.
func dieWithParent(s *clone.Script, signal int) {
	if signal == 0 {
		signal = int(unix.SIGKILL)
	}
	s.Call("prctl", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, signal)
}
