package namespace

import (
	"errors"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// keeps reports whether a new namespace is kept in a file.
func (u *Unshare) keeps(namespace uint64) bool {
	return slices.ContainsFunc(u.Files, func(f File) bool { return f.Namespace == namespace })
}

// keepFiles mounts the child's namespaces on their files: its pid namespace, which exists
// once the child has forked, or all others.
func (u *Unshare) keepFiles(pid int, forked bool) error {
	for _, f := range u.Files {
		if (f.Namespace == unix.CLONE_NEWPID) != forked {
			continue
		}
		k := kindOf(f.Namespace)
		name := k.file
		if k.flag == unix.CLONE_NEWPID || k.flag == unix.CLONE_NEWTIME {
			name += "_for_children"
		}
		err := unix.Mount("/proc/"+strconv.Itoa(pid)+"/ns/"+name, string(f.Path), "", unix.MS_BIND, "")
		if err == nil {
			continue
		}
		e := &Error{Op: "keep", Object: "the new " + k.long + " namespace at " + string(f.Path), Err: err}
		switch {
		case errors.Is(err, os.ErrPermission):
			e.Hint = "only root can mount it there"
		case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENOTDIR):
			e.Hint = "make an empty file there first"
		case errors.Is(err, unix.EINVAL) && k.flag == unix.CLONE_NEWNS:
			e.Hint = "the file must be in a mount that is propagated nowhere: mount --bind DIR DIR, mount --make-private DIR"
		}
		return e
	}
	return nil
}

// writeOffsets writes the offsets of the child's new time namespace.
func (u *Unshare) writeOffsets(pid int) error {
	for _, o := range []struct {
		clock   string
		seconds *int64
	}{{"monotonic", u.Monotonic}, {"boottime", u.Boottime}} {
		if o.seconds == nil {
			continue
		}
		err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/timens_offsets", []byte(o.clock+" "+strconv.FormatInt(*o.seconds, 10)+" 0\n"), 0)
		if err == nil {
			continue
		}
		e := &Error{Op: "set", Object: "the offset of the " + o.clock + " clock", Err: withoutPath(err)}
		switch {
		case errors.Is(err, os.ErrNotExist):
			e.Hint = "this kernel has no time namespaces"
		case errors.Is(err, unix.ERANGE):
			e.Hint = "with the offset the clock must be from 0 seconds to 146 years"
		}
		return e
	}
	return nil
}

// enterFile is a namespace that is entered by a descriptor of its own.
type enterFile struct {
	fd        int
	namespace uint64
	what      string // in errors
}

// openFile opens the file of a namespace that is entered. It adds nothing if the caller is
// in that namespace already.
func (e *Enter) openFile(h *helper, f File) error {
	k := kindOf(f.Namespace)
	what := "the " + k.long + " namespace at " + string(f.Path)
	fd, err := unix.Open(string(f.Path), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return &Error{Op: "open", Object: what, Err: err, Hint: enterHint(err)}
	}
	if kind, err := unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE); err != nil || uint64(kind) != k.flag {
		return &Error{Op: "open", Object: what, Err: errors.New("not a namespace file of this kind"), Hint: "it must be a file like /proc/PID/ns/" + k.file + ", or one on which that is mounted"}
	}
	return h.addFile(fd, k, what)
}

// openParent opens the user namespace that the first of the target's namespaces belongs to,
// or the parent of its user namespace if that is entered, as nsenter(1) does.
func (e *Enter) openParent(h *helper) error {
	of := e.Namespaces &^ unix.CLONE_NEWUSER
	for _, f := range e.Files {
		of |= f.Namespace &^ unix.CLONE_NEWUSER
	}
	if e.enters(unix.CLONE_NEWUSER) {
		of = unix.CLONE_NEWUSER
	}
	k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return of&k.flag != 0 })]
	path := "/proc/" + strconv.Itoa(e.PID) + "/ns/" + k.file
	if i := slices.IndexFunc(e.Files, func(f File) bool { return f.Namespace == k.flag }); i >= 0 {
		path = string(e.Files[i].Path)
	}
	what := "the parent user namespace of process " + strconv.Itoa(e.PID)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return &Error{Op: "open", Object: what, Err: err, Hint: enterHint(err)}
	}
	defer unix.Close(fd)
	parent, err := unix.IoctlRetInt(fd, unix.NS_GET_USERNS)
	if err != nil {
		return &Error{Op: "open", Object: what, Err: err, Hint: "it must be the caller's own user namespace, or below it"}
	}
	return h.addFile(parent, kindOf(unix.CLONE_NEWUSER), what)
}

// addFile adds a namespace to those that are entered, unless the caller is in it.
func (h *helper) addFile(fd int, k kind, what string) error {
	var theirs, ours unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &theirs), unix.Stat("/proc/self/ns/"+k.file, &ours)); err != nil {
		return &Error{Op: "read", Object: what, Err: err}
	}
	if theirs.Ino == ours.Ino && theirs.Dev == ours.Dev {
		return unix.Close(fd)
	}
	h.files = append(h.files, enterFile{fd, k.flag, what})
	return nil
}

// enters reports whether a namespace is entered, by the target or by a file.
func (e *Enter) enters(namespace uint64) bool {
	return e.Namespaces&namespace != 0 || slices.ContainsFunc(e.Files, func(f File) bool { return f.Namespace == namespace })
}

// kindOf returns the kind of a namespace.
func kindOf(flag uint64) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.flag == flag })]
}
