package namespace

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/internal/osstring"
)

// Enter describes which namespaces of another process to enter, and the steps in them
// before the command starts. Namespaces that the caller is in are not entered again.
type Enter struct {
	PID        int
	Namespaces uint64 // CLONE_NEW*
	// Files are namespaces that are entered in place of the process's own.
	Files []File
	// UserParent enters, in place of the user namespace, its parent, or else the user namespace
	// that the process's other namespaces belong to.
	UserParent bool
	// Root and Dir make the process's root and working directory the command's.
	Root, Dir bool
	// RootPath and DirPath are directories for that in place of the process's, opened before
	// a namespace is entered.
	RootPath, DirPath osstring.String
	// InsideDir is the working directory, a path in the namespaces that were entered.
	InsideDir osstring.String
	// Env gives the command the process's environment.
	Env bool
	// JoinCgroup moves the command to the process's control group.
	JoinCgroup bool
	// FollowContext gives the command the process's SELinux context, if SELinux is in use.
	FollowContext bool
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
			if own := "/proc/" + strconv.Itoa(e.PID) + "/ns/" + k.file; v == "" || v == own { // by the handle of the process
				e.Namespaces |= k.flag
				return ""
			}
			return parseFile(v, k.flag, &e.Files)
		}})
	}
	on := func(field func(*Enter) *bool) func(*Enter, string) string {
		return func(e *Enter, _ string) string { *field(e) = true; return "" }
	}
	return append(list,
		flag[Enter]{"user-parent", 0, noValue, on(func(e *Enter) *bool { return &e.UserParent })},
		flag[Enter]{"root", 'r', optionalValue, func(e *Enter, v string) string { e.Root = true; return parseOwnPath(v, &e.RootPath) }},
		flag[Enter]{"wd", 'w', optionalValue, func(e *Enter, v string) string { e.Dir = true; return parseOwnPath(v, &e.DirPath) }},
		flag[Enter]{"wdns", 'W', needsValue, func(e *Enter, v string) string { return parsePath(v, &e.InsideDir) }},
		flag[Enter]{"env", 'e', noValue, on(func(e *Enter) *bool { return &e.Env })},
		flag[Enter]{"join-cgroup", 'c', noValue, on(func(e *Enter) *bool { return &e.JoinCgroup })},
		flag[Enter]{"follow-context", 'Z', noValue, on(func(e *Enter) *bool { return &e.FollowContext })},
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
	switch {
	case e.Dir && e.InsideDir != "":
		return nil, &FlagError{Flag: "--wdns", Reason: "there is another working directory already (--wd)"}
	case e.UserParent && e.Namespaces == 0 && e.Files == nil:
		return nil, &FlagError{Flag: "--user-parent", Reason: "it needs a namespace whose parent it enters, such as --user or --net"}
	}
	return e, nil
}

// parseOwnPath reads an absolute path, if there is one.
func parseOwnPath(value string, into *osstring.String) (wrong string) {
	if value == "" {
		return ""
	}
	return parsePath(value, into)
}

// forks reports whether the child must fork to enter another pid namespace.
func (e *Enter) forks(h *helper) bool { return h.enters(unix.CLONE_NEWPID) && !e.NoFork }

// enters reports whether the child enters another namespace than the caller's.
func (h *helper) enters(namespace uint64) bool {
	return h.join&namespace != 0 || slices.ContainsFunc(h.files, func(f enterFile) bool { return f.namespace == namespace })
}

// script adds the steps of the child, which enters the namespaces.
func (e *Enter) script(s *clone.Script, h *helper) {
	s.Reach(reachedMap, h.gate)
	e.enterAll(s, h)
	if e.forks(h) {
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
	if e.InsideDir != "" {
		s.Call("dir", unix.SYS_CHDIR, string(e.InsideDir))
	}
	uid, gid := e.SetUID, e.SetGID
	if root := uint32(0); h.enters(unix.CLONE_NEWUSER) && !e.PreserveCredentials {
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

// enterAll adds the steps that enter the namespaces. Root keeps its rights over all of them until
// it enters a user namespace; an ordinary user has them there only.
func (e *Enter) enterAll(s *clone.Script, h *helper) {
	users := func(of bool) {
		for _, f := range h.files {
			if (f.namespace == unix.CLONE_NEWUSER) == of {
				s.Call("enter "+f.what, unix.SYS_SETNS, f.fd, uintptr(f.namespace))
			}
		}
	}
	ordinary := os.Geteuid() != 0
	if ordinary {
		users(true)
	}
	if h.join != 0 {
		s.Call("enter", unix.SYS_SETNS, h.target, uintptr(h.join))
	}
	users(false)
	if !ordinary {
		users(true)
	}
}

// inspectTarget opens the directories of the target that the command needs, and finds the
// namespaces that differ from the caller's. At the end it checks that the target
// still lives: then nothing belonged to a later process with the same pid.
func (e *Enter) inspectTarget(h *helper) error {
	proc := "/proc/" + strconv.Itoa(e.PID)
	for _, k := range kinds {
		byFile := slices.ContainsFunc(e.Files, func(f File) bool { return f.Namespace == k.flag }) || e.UserParent && k.flag == unix.CLONE_NEWUSER
		if e.Namespaces&k.flag == 0 || byFile {
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
		want       bool
		name, path string
		fd         *int
	}{{e.Root, "root", string(e.RootPath), &h.root}, {e.Dir, "cwd", string(e.DirPath), &h.dir}} {
		if !d.want {
			continue
		}
		path, what := proc+"/"+d.name, "the "+d.name+" directory of process "+strconv.Itoa(e.PID)
		if d.path != "" {
			path, what = d.path, "the directory "+d.path
		}
		var err error
		if *d.fd, err = unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			return e.gone(h, &Error{Op: "open", Object: what, Err: err, Hint: enterHint(err)})
		}
	}
	for _, f := range e.Files {
		if f.Namespace == unix.CLONE_NEWUSER && e.UserParent {
			continue
		}
		if err := e.openFile(h, f); err != nil {
			return err
		}
	}
	if e.UserParent {
		if err := e.openParent(h); err != nil {
			return e.gone(h, err)
		}
	}
	return e.gone(h, e.inherit(h))
}

// inherit takes over the environment, control group and SELinux context of the target, as the flags ask.
func (e *Enter) inherit(h *helper) error {
	id := strconv.Itoa(e.PID)
	if e.Env {
		text, err := os.ReadFile("/proc/" + id + "/environ")
		if err != nil {
			return &Error{Op: "read", Object: "the environment of process " + id, Err: withoutPath(err), Hint: enterHint(err)}
		}
		h.order.Env = nil
		for v := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte{0}), []byte{0}) {
			if len(v) > 0 {
				h.order.Env = append(h.order.Env, v)
			}
		}
		h.order.Paths = rawTexts(candidates(string(h.order.Argv[0]), texts(h.order.Env)))
	}
	if e.JoinCgroup {
		if err := e.openGroup(h); err != nil {
			return &Error{Op: "join", Object: "the control group of process " + id, Err: withoutPath(err), Hint: enterHint(err)}
		}
	}
	if e.FollowContext {
		if err := e.followContext(); err != nil {
			return &Error{Op: "take over", Object: "the SELinux context of process " + id, Err: withoutPath(err), Hint: enterHint(err)}
		}
	}
	return nil
}

// openGroup opens the file through which the child joins the target's control group.
func (e *Enter) openGroup(h *helper) error {
	m, err := cgroup.Find()
	if err != nil {
		return err
	}
	group, err := cgroup.Of(e.PID)
	if err != nil {
		return err
	}
	dir, err := m.Dir(group)
	if err != nil {
		return err
	}
	h.joined, err = unix.Open(dir+"/cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	return err
}

// followContext has the calling thread, and so the child that it clones, execute programs in the
// target's SELinux context. It does nothing where SELinux is not in use.
func (e *Enter) followContext() error {
	var fs unix.Statfs_t
	_ = unix.Statfs("/sys/fs/selinux", &fs) // where it is not there, it is not in use
	if fs.Type != unix.SELINUX_MAGIC {
		return nil
	}
	context, err := os.ReadFile("/proc/" + strconv.Itoa(e.PID) + "/attr/current")
	if err != nil {
		return err
	}
	return os.WriteFile("/proc/thread-self/attr/exec", context, 0)
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
