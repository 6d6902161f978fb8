package namespace

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// Enter are the namespaces of another process, and what is done in them before
// the command. Those that the caller is in already are left alone.
type Enter struct {
	PID        int
	Namespaces uint64 // CLONE_NEW*
	// Root and Dir make the process's root and working directory the command's.
	Root, Dir bool
	// NoFork has the command not be in the process's pid namespace, but its
	// children.
	NoFork bool
	// PreserveCredentials leaves the user and groups as they are when a user
	// namespace is entered; else they become root's, without other groups.
	PreserveCredentials bool
	SetUID, SetGID      *uint32
}

var enterFlags = enterList()

func enterList() []flag[Enter] {
	list := []flag[Enter]{{"all", 'a', noValue, func(e *Enter, _ string) string {
		for _, k := range kinds {
			e.Namespaces |= k.flag
		}
		return ""
	}}}
	for _, k := range kinds {
		list = append(list, flag[Enter]{k.long, k.short, optionalValue, func(e *Enter, v string) string {
			e.Namespaces |= k.flag
			if own := "/proc/" + strconv.Itoa(e.PID) + "/ns/" + k.file; v != "" && v != own {
				return "it takes no file but the target's own, " + own
			}
			return ""
		}})
	}
	on := func(field func(*Enter) *bool) func(*Enter, string) string {
		return func(e *Enter, _ string) string { *field(e) = true; return "" }
	}
	return append(list,
		flag[Enter]{"root", 'r', noValue, on(func(e *Enter) *bool { return &e.Root })},
		flag[Enter]{"wd", 'w', noValue, on(func(e *Enter) *bool { return &e.Dir })},
		flag[Enter]{"setuid", 'S', needsValue, func(e *Enter, v string) string { return parseID(v, &e.SetUID) }},
		flag[Enter]{"setgid", 'G', needsValue, func(e *Enter, v string) string { return parseID(v, &e.SetGID) }},
		flag[Enter]{"no-fork", 'F', noValue, on(func(e *Enter) *bool { return &e.NoFork })},
		flag[Enter]{"preserve-credentials", 0, noValue, on(func(e *Enter) *bool { return &e.PreserveCredentials })},
	)
}

// ParseEnter reads flags as nsenter(1) has them, like [ParseUnshare]. The
// target is pid, and no flag changes that.
func ParseEnter(pid int, flags []string) (*Enter, error) {
	e := &Enter{PID: pid}
	if err := parse(enterFlags, flags, e); err != nil {
		return nil, err
	}
	return e, nil
}

// forks says whether the command will be in another pid namespace.
func (e *Enter) forks(join uint64) bool { return join&unix.CLONE_NEWPID != 0 && !e.NoFork }

// script adds what a child does to go into the namespaces.
func (e *Enter) script(s *clone.Script, h *helper) {
	s.Reach("map", h.gate)
	if h.join != 0 {
		s.Call("enter", unix.SYS_SETNS, h.target, uintptr(h.join))
	}
	if e.forks(h.join) {
		dieWithParent(s, 0)
		s.Fork(0, false)
		// In that pid namespace, whatever the command leaves behind would go to
		// a stranger, its init.
		s.Call("prctl", unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1)
		dieWithParent(s, 0)
		s.Fork(0, true)
	}
	h.session(s)
	if e.Root {
		s.Call("root", unix.SYS_FCHDIR, h.root)
		s.Call("root", unix.SYS_CHROOT, ".")
	}
	if e.Dir {
		s.Call("dir", unix.SYS_FCHDIR, h.dir)
	}
	uid, gid := e.SetUID, e.SetGID
	if root := uint32(0); h.join&unix.CLONE_NEWUSER != 0 && !e.PreserveCredentials {
		if uid == nil {
			uid = &root
		}
		if gid == nil {
			gid = &root
		}
	}
	if gid != nil {
		s.Try(unix.SYS_SETGROUPS, 0, nil) // which may be denied in there for good
		s.Call("setgid", unix.SYS_SETRESGID, uintptr(*gid), uintptr(*gid), uintptr(*gid))
	}
	setUser(s, uid)
	dieWithParent(s, 0)
}

// look opens what the command needs of its target, and finds out which
// namespaces are others than the caller's. That the target lives afterwards
// says that all of it was the target's, and nobody's who came after it.
func (e *Enter) look(h *helper) error {
	proc := "/proc/" + strconv.Itoa(e.PID)
	for _, k := range kinds {
		if e.Namespaces&k.flag == 0 {
			continue
		}
		theirs, err := os.Readlink(proc + "/ns/" + k.file)
		if err != nil {
			return e.gone(h, &Error{Op: "read", Object: "the " + k.long + " namespace of process " + strconv.Itoa(e.PID), Err: bare(err), Hint: enterHint(err)})
		}
		if ours, err := os.Readlink("/proc/self/ns/" + k.file); err != nil || ours != theirs {
			h.join |= k.flag
		}
	}
	for _, d := range []struct {
		want bool
		name string
		fd   *int
	}{{e.Root, "root", &h.root}, {e.Dir, "cwd", &h.dir}} {
		if !d.want {
			continue
		}
		var err error
		if *d.fd, err = unix.Open(proc+"/"+d.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			return e.gone(h, &Error{Op: "open", Object: "the " + d.name + " directory of process " + strconv.Itoa(e.PID), Err: err, Hint: enterHint(err)})
		}
	}
	return e.gone(h, nil)
}

// gone is the error that the target has ended, or else err.
func (e *Enter) gone(h *helper, err error) error {
	poll := []unix.PollFd{{Fd: int32(h.target), Events: unix.POLLIN}} // which its end is
	if n, perr := unix.Poll(poll, 0); perr != nil || n > 0 {
		return &Error{Op: "enter", Object: "process " + strconv.Itoa(e.PID), Err: ErrGone}
	}
	return err
}

// bare is an error without the path.
func bare(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func enterHint(err error) string {
	if errors.Is(err, os.ErrPermission) {
		return "an ordinary user can enter namespaces only of its own processes, and of its own user namespaces"
	}
	return ""
}
