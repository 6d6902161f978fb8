package namespace

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// Unshare are new namespaces, and what is done in them before the command. The
// zero value makes none.
type Unshare struct {
	Namespaces uint64 // CLONE_NEW*
	// Fork has the command be a child of the process that made the namespaces, and
	// so the first process of a new pid namespace. Without it, only the children of the command are in that.
	Fork bool
	// UIDs and GIDs are the maps of a new user namespace, which the kernel may
	// refuse to an ordinary user, but for one of its own id.
	UIDs, GIDs []Map
	// Setgroups is "allow" or "deny"; empty is deny where an ordinary user
	// maps groups, which the kernel asks for.
	Setgroups string
	// Propagation of mounts: "private", "shared", "slave" or "unchanged"; empty
	// is private.
	Propagation string
	// MountProc is where /proc is mounted anew, empty for nowhere.
	MountProc string
	Root      string // becomes "/"
	Dir       string // the working directory; "/" where Root is set
	// KillSignal is sent to the command when whoever watches it is gone; 0 is SIGKILL.
	KillSignal     int
	SetUID, SetGID *uint32
}

var unshareFlags = unshareList()

// unshareList is the list of flags, in the order in which help texts have it.
func unshareList() []flag[Unshare] {
	var list []flag[Unshare]
	for _, k := range kinds {
		list = append(list, flag[Unshare]{k.long, k.short, noValue, func(u *Unshare, _ string) string {
			u.Namespaces |= k.flag
			return ""
		}})
	}
	own := func(inside uint32, u *Unshare, _ string) string {
		if u.UIDs != nil || u.GIDs != nil {
			return "there is another map already"
		}
		u.Namespaces |= unix.CLONE_NEWUSER
		u.UIDs, u.GIDs = []Map{{inside, uint32(os.Geteuid()), 1}}, []Map{{inside, uint32(os.Getegid()), 1}}
		return ""
	}
	return append(list,
		flag[Unshare]{"fork", 'f', noValue, func(u *Unshare, _ string) string { u.Fork = true; return "" }},
		flag[Unshare]{"map-root-user", 'r', noValue, func(u *Unshare, v string) string { return own(0, u, v) }},
		flag[Unshare]{"map-current-user", 'c', noValue, func(u *Unshare, v string) string {
			wrong := own(uint32(os.Geteuid()), u, v)
			if wrong == "" {
				u.GIDs[0].Inside = uint32(os.Getegid())
			}
			return wrong
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
	)
}

func (u *Unshare) addMap(value string, into *[]Map) string {
	u.Namespaces |= unix.CLONE_NEWUSER
	return parseMap(value, into)
}

// ParseUnshare reads flags as unshare(1) has them: "--mount", "-m", or without
// dashes. Only those of a fixed list are taken, with a value, where they have one, in the
// same element ("--root=/srv"). The error is a *FlagError.
func ParseUnshare(flags []string) (*Unshare, error) {
	u := &Unshare{}
	if err := parse(unshareFlags, flags, u); err != nil {
		return nil, err
	}
	switch {
	case u.Setgroups != "" && u.Namespaces&unix.CLONE_NEWUSER == 0:
		return nil, &FlagError{"--setgroups", "it is for a new user namespace", listed(unshareFlags)}
	case u.Setgroups == "allow" && os.Geteuid() != 0 && u.GIDs != nil:
		return nil, &FlagError{"--setgroups", "the kernel lets an ordinary user map groups only with setgroups denied", listed(unshareFlags)}
	}
	return u, nil
}

var propagations = map[string]int{"": unix.MS_PRIVATE, "private": unix.MS_PRIVATE, "shared": unix.MS_SHARED, "slave": unix.MS_SLAVE}

// script adds what a child does that makes the namespaces and goes into them.
func (u *Unshare) script(s *clone.Script, h *helper) {
	if u.Namespaces != 0 {
		s.Call("unshare", unix.SYS_UNSHARE, uintptr(u.Namespaces))
	}
	s.Reach("map", h.gate)
	if u.Fork {
		s.Fork(0, true)
	}
	dieWithParent(s, u.KillSignal)
	h.session(s)
	if flag, ok := propagations[u.Propagation]; ok && u.Namespaces&unix.CLONE_NEWNS != 0 {
		s.Call("propagate", unix.SYS_MOUNT, nil, "/", nil, unix.MS_REC|flag)
	}
	if u.Root != "" {
		s.Call("root", unix.SYS_CHROOT, u.Root)
		s.Call("root", unix.SYS_CHDIR, "/")
	}
	if u.Dir != "" {
		s.Call("dir", unix.SYS_CHDIR, u.Dir)
	}
	if u.MountProc != "" {
		s.Try(unix.SYS_MOUNT, nil, u.MountProc, nil, unix.MS_REC|unix.MS_PRIVATE) // where it is a mount
		s.Call("proc", unix.SYS_MOUNT, "proc", u.MountProc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC)
	}
	if u.SetGID != nil && (u.Setgroups == "deny" || u.denies()) {
		s.Call("setgid", unix.SYS_SETRESGID, uintptr(*u.SetGID), uintptr(*u.SetGID), uintptr(*u.SetGID))
	} else {
		setGroup(s, u.SetGID)
	}
	setUser(s, u.SetUID)
	dieWithParent(s, u.KillSignal) // a change of identity forgets it
}

// denies says whether setgroups must be denied for the map of groups.
func (u *Unshare) denies() bool {
	return u.Setgroups == "" && u.GIDs != nil && (os.Geteuid() != 0 || len(u.GIDs) == 1 && u.GIDs[0].Count == 1)
}

func setGroup(s *clone.Script, gid *uint32) {
	if gid != nil {
		s.Call("setgroups", unix.SYS_SETGROUPS, 0, nil)
		s.Call("setgid", unix.SYS_SETRESGID, uintptr(*gid), uintptr(*gid), uintptr(*gid))
	}
}

func setUser(s *clone.Script, uid *uint32) {
	if uid != nil {
		s.Call("setuid", unix.SYS_SETRESUID, uintptr(*uid), uintptr(*uid), uintptr(*uid))
	}
}

func dieWithParent(s *clone.Script, signal int) {
	if signal == 0 {
		signal = int(unix.SIGKILL)
	}
	s.Call("prctl", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, signal)
}
