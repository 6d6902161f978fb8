package spawn

import (
	"os"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/wire"
)

// watcher gets a notification from the kernel for each call that the commands' filter
// refuses (seccomp_unotify(2)). It answers with the errno of the rule, and records the
// refusal for the tree of the caller. It never allows a call.
type watcher struct {
	file    *os.File
	options confine.FilterOptions
	trees   *Trees
	reaper  *Reaper
	left    int // refusals that are still recorded
}

// maxRefusals bounds the time and memory that the agent spends on refusals. After this
// many it records no more, and the kernel itself refuses with ENOSYS.
const maxRefusals = 1 << 16

// maxDenials bounds the different refusals in a result.
const maxDenials = 32

// notification and response are struct seccomp_notif and seccomp_notif_resp.
type (
	notification struct {
		id         uint64
		pid, flags uint32
		nr         int32
		arch       uint32
		ip         uint64
		args       [6]uint64
	}
	response struct {
		id           uint64
		value        int64
		errno, flags int32
	}
)

func (w *watcher) run() {
	defer w.file.Close()
	raw, err := w.file.SyscallConn()
	if err != nil {
		return
	}
	for ; w.left > 0; w.left-- {
		var n notification
		var errno unix.Errno
		err := raw.Read(func(fd uintptr) bool {
			if ready, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); ready <= 0 {
				return false // the call below would wait, and hold a thread
			}
			n = notification{} // the kernel demands it
			_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n)))
			return errno != unix.EINTR
		})
		switch {
		case err != nil:
			return
		case errno != 0: // the caller has ended meanwhile
			continue
		}
		answer := response{id: n.id, errno: -int32(unix.EPERM)}
		if r, ok := w.options.Explain(int(n.nr), n.args); ok {
			answer.errno = -int32(r.Errno)
			if p := w.trees.whose(int(n.pid), w.reaper); p != nil {
				p.Denied.add(wire.Denial{Layer: "seccomp", Rule: r.Group, Object: r.Call, Hint: denialHint(r)})
			}
		}
		_ = raw.Control(func(fd uintptr) {
			_, _, _ = unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&answer)))
		})
	}
}

// denialHint returns what to do about a refusal or, if nothing can be done, the
// reason for it.
func denialHint(r confine.Refusal) string {
	switch r.Group {
	case "other processes":
		return "debuggers work with `seccomp` debug"
	case "namespaces", "mounts":
		return "a sandbox inside of this one needs no namespaces: paddock run --level landlock"
	case "sockets":
		return r.Why + "; with `network` host, programs have TCP, UDP and Unix sockets"
	}
	return r.Why
}

// whose returns the command that a process descends from, nil if that is not known.
func (t *Trees) whose(pid int, r *Reaper) *Process {
	if t.index != nil {
		return t.index.whose(pid)
	}
	ino, err := namespaceOf(t.proc, strconv.Itoa(pid))
	if err != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.procs {
		if p.Mark.Number == ino {
			return p
		}
	}
	return nil
}

// whose goes from a process up to the agent's own child above it, a command or an
// orphan, and returns its command.
func (x *treeIndex) whose(pid int) *Process {
	x.reaper.mu.Lock()
	defer x.reaper.mu.Unlock()
	const deepest = 64
	for range deepest {
		if p := x.reaper.procs[pid]; p != nil {
			return p
		}
		s, err := readStat(x.proc, pid)
		if err != nil {
			return nil
		}
		if s.ppid != os.Getpid() {
			pid = s.ppid
			continue
		}
		owner, _ := x.attribute(s)
		for _, p := range x.reaper.procs {
			if owner != nil && p.Mark.tree == owner {
				return p
			}
		}
		return nil
	}
	return nil
}

// denials are the refusals to the processes of one tree.
type denials struct {
	mu   sync.Mutex
	list []wire.Denial
}

func (d *denials) add(denial wire.Denial) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.list {
		if have := &d.list[i]; have.Rule == denial.Rule && have.Object == denial.Object && have.Layer == denial.Layer {
			have.Count = max(have.Count, 1) + 1
			return
		}
	}
	if len(d.list) < maxDenials {
		d.list = append(d.list, denial)
	}
}

// Take returns the refusals since the last call.
func (d *denials) Take() []wire.Denial {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.list
	d.list = nil
	return list
}
