package namespace

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// Enter describes which namespaces of another process to enter, and the steps in them
// before the command starts. Namespaces that the caller is in are not entered again.
type Enter struct {
	PID        int
	Namespaces uint64 // CLONE_NEW*
	// Root and Dir make the process's root and working directory the command's.
	Root, Dir bool
	// NoFork keeps the command itself out of the process's pid namespace: only its
	// children are in it.
	NoFork bool
	// PreserveCredentials keeps the user and groups when a user namespace is
	// entered. Otherwise they become root's, without supplementary groups.
	PreserveCredentials bool
	SetUID, SetGID      *uint32
}

var enterFlags = enterList()

// enterList returns the flags, in the order of help texts.
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
				return "its value must be the target's own file, " + own
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

// ParseEnter reads flags as nsenter(1) has them, like [ParseUnshare]. The target
// is pid; no flag can change it.
func ParseEnter(pid int, flags []string) (*Enter, error) {
	e := &Enter{PID: pid}
	if err := parse(enterFlags, flags, e); err != nil {
		return nil, err
	}
	return e, nil
}

// forks reports whether the child must fork to enter another pid namespace.
func (e *Enter) forks(join uint64) bool { return join&unix.CLONE_NEWPID != 0 && !e.NoFork }

// script adds the steps of the child, which enters the namespaces.
func (e *Enter) script(s *clone.Script, h *helper) {
	s.Reach("map", h.gate)
	if h.join != 0 {
		s.Call("enter", unix.SYS_SETNS, h.target, uintptr(h.join))
	}
	if e.forks(h.join) {
		dieWithParent(s, 0)
		s.Fork(0, false)
		// Otherwise the init of that pid namespace would become the parent of the
		// processes that the command leaves behind.
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
		s.Try(unix.SYS_SETGROUPS, 0, nil) // may be denied permanently in the namespace
		s.Call("setgid", unix.SYS_SETRESGID, uintptr(*gid), uintptr(*gid), uintptr(*gid))
	}
	setUser(s, uid)
	dieWithParent(s, 0)
}

// inspectTarget opens the directories of the target that the command needs, and finds the
// namespaces that differ from the caller's. At the end it checks that the target
// still lives: then nothing belonged to a later process with the same pid.
func (e *Enter) inspectTarget(h *helper) error {
	proc := "/proc/" + strconv.Itoa(e.PID)
	for _, k := range kinds {
		if e.Namespaces&k.flag == 0 {
			continue
		}
		theirs, err := os.Readlink(proc + "/ns/" + k.file)
		if err != nil {
			return e.gone(h, &Error{Op: "read", Object: "the " + k.long + " namespace of process " + strconv.Itoa(e.PID), Err: withoutPath(err), Hint: enterHint(err)})
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

// gone returns an error if the target has ended, or else err.
func (e *Enter) gone(h *helper, err error) error {
	poll := []unix.PollFd{{Fd: int32(h.target), Events: unix.POLLIN}} // a pidfd is readable once its process has ended
	if n, perr := unix.Poll(poll, 0); perr != nil || n > 0 {
		return &Error{Op: "enter", Object: "process " + strconv.Itoa(e.PID), Err: ErrGone}
	}
	return err
}

// withoutPath returns the cause of an error about a path.
func withoutPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// enterHint returns what to do about a refusal.
func enterHint(err error) string {
	if errors.Is(err, os.ErrPermission) {
		return "an ordinary user can enter only namespaces of their own processes and user namespaces"
	}
	return ""
}
