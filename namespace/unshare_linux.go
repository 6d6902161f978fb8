package namespace

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// Unshare describes new namespaces, and the steps in them before the command starts. The
// zero value makes none.
type Unshare struct {
	Namespaces uint64 // CLONE_NEW*
	// Fork makes the command a child of the process that makes the namespaces, and
	// so the first process of a new pid namespace. Without it, only the children
	// of the command are in that namespace.
	Fork bool
	// UIDs and GIDs are the maps of a new user namespace. The kernel may allow an
	// ordinary user only a map of their own id.
	UIDs, GIDs []Map
	// Setgroups is "allow" or "deny". If it is empty and an ordinary user maps
	// groups, it is denied, because the kernel demands that.
	Setgroups string
	// Propagation of mounts: "private", "shared", "slave" or "unchanged"; empty
	// is private.
	Propagation string
	// MountProc is where a new /proc is mounted; empty for none.
	MountProc string
	Root      string // becomes "/"
	Dir       string // the working directory; "/" if Root is set
	// KillSignal is sent to the command when its parent has ended; 0 is SIGKILL.
	KillSignal     int
	SetUID, SetGID *uint32
}

var unshareFlags = unshareList()

// unshareList returns the flags, in the order of help texts.
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
		return nil, &FlagError{"--setgroups", "it needs a new user namespace (--user)", listed(unshareFlags)}
	case u.Setgroups == "allow" && os.Geteuid() != 0 && u.GIDs != nil:
		return nil, &FlagError{"--setgroups", "the kernel lets an ordinary user map groups only with setgroups denied", listed(unshareFlags)}
	}
	return u, nil
}

var propagations = map[string]int{"": unix.MS_PRIVATE, "private": unix.MS_PRIVATE, "shared": unix.MS_SHARED, "slave": unix.MS_SLAVE}

// script adds the steps of the child, which makes the namespaces and enters them.
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
		s.Try(unix.SYS_MOUNT, nil, u.MountProc, nil, unix.MS_REC|unix.MS_PRIVATE) // succeeds only on a mount
		s.Call("proc", unix.SYS_MOUNT, "proc", u.MountProc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC)
	}
	if u.SetGID != nil {
		if u.Setgroups != "deny" && !u.denies() {
			s.Call("setgroups", unix.SYS_SETGROUPS, 0, nil)
		}
		s.Call("setgid", unix.SYS_SETRESGID, uintptr(*u.SetGID), uintptr(*u.SetGID), uintptr(*u.SetGID))
	}
	setUser(s, u.SetUID)
	dieWithParent(s, u.KillSignal) // a change of identity resets it
}

// denies reports whether setgroups must be denied for the map of groups.
func (u *Unshare) denies() bool {
	return u.Setgroups == "" && u.GIDs != nil && (os.Geteuid() != 0 || len(u.GIDs) == 1 && u.GIDs[0].Count == 1)
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

// writeMaps writes the maps of the user namespace that the child has made.
func (u *Unshare) writeMaps(pid int) error {
	if u.Namespaces&unix.CLONE_NEWUSER == 0 {
		return nil
	}
	setgroups := u.Setgroups
	if u.denies() {
		setgroups = "deny"
	}
	for _, file := range []struct{ name, text string }{
		{"uid_map", lines(u.UIDs)}, {"setgroups", setgroups}, {"gid_map", lines(u.GIDs)},
	} {
		if file.text == "" {
			continue
		}
		err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/"+file.name, []byte(file.text), 0)
		if err != nil {
			hint := "maps must not overlap, and only ids that the caller's own user namespace has can be mapped"
			if os.Geteuid() != 0 {
				hint = "an ordinary user can map only one id, their own (--map-root-user or --map-current-user)"
			}
			return &Error{Op: "write", Object: file.name + " of the new user namespace", Err: withoutPath(err), Hint: hint}
		}
	}
	return nil
}

// lines returns maps as the kernel reads them.
func lines(maps []Map) string {
	var b strings.Builder
	for _, m := range maps {
		fmt.Fprintf(&b, "%d %d %d\n", m.Inside, m.Outside, m.Count)
	}
	return b.String()
}
