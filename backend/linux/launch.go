//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/keep"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/clone"
)

// launch is everything that a new agent is cloned with.
type launch struct {
	dir        *stateDir
	id         identity
	namespaces []confine.Namespace
	exe        *os.File
	keeper     *keep.Keeper // whose child the agent is; nil: this process's
	report     bool         // the agent says when the sandbox is used
	channels   *state.Channels
	null       *os.File
	groups     hierarchy
	group      *control // nil if no control groups can be used
	scope      bool     // the service manager is asked for a control group
}

// close closes this side's copies of the agent's descriptors.
func (l *launch) close() {
	if l.channels != nil {
		l.channels.CloseTheirs()
	}
	_ = l.exe.Close() // a nil file allows it
	_ = l.null.Close()
}

// open opens the agent's program, its sockets and its log.
func (l *launch) open(agent string) error {
	l.dir.Empty() // an earlier attempt may have left files
	var err error
	if l.exe, err = keep.OpenProgram(agent, "set PADDOCK_AGENT to the path of paddock-agent"); err != nil {
		return err
	}
	if l.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return backend.Failed("state", "open", os.DevNull, err, "")
	}
	l.channels, err = l.dir.Channels()
	return err
}

// clone starts the agent in its namespaces, on a thread that lives as long as
// the agent: the agent's parent-death signal is tied to it. It does not wait
// for the agent's program. If the program cannot be executed, s.failed says why
// once s.done is closed.
func (l *launch) clone(ctx context.Context) (*sandbox, error) {
	s := &sandbox{dir: l.dir, bare: len(l.namespaces) == 0, control: l.channels.Control, done: make(chan struct{})}
	command, flags, err := l.command()
	if err != nil {
		_ = s.control.Close()
		return nil, backend.Failed("clone", "prepare descriptors", "", err, "")
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		child, err := l.begin(ctx, command, flags)
		for _, fd := range command.Files {
			_ = unix.Close(fd)
		}
		if err != nil {
			started <- err
			return
		}
		s.child, s.pid, s.pidfd = child, child.PID, child.PIDFD
		started <- nil
		if err := child.Wait(); err != nil {
			s.failed = cloneError(err)
		}
		s.reap()
	}()
	if err := <-started; err != nil {
		_ = s.control.Close()
		return nil, cloneError(err)
	}
	s.group = l.group
	_ = l.channels.Theirs.Close() // or the lifeline would never break
	return s, nil
}

// begin clones the agent's process, gives its user namespace the ids, and makes it run.
func (l *launch) begin(ctx context.Context, command *clone.Command, flags uintptr) (*keep.Process, error) {
	child, err := keep.Begin(l.keeper, command, flags, l.exe)
	if err != nil {
		return nil, err
	}
	if len(l.namespaces) > 0 {
		if l.id.kind == mapped { // an ordinary user may write gid_map only after giving up setgroups(2)
			err = writeProc(child.PID, "setgroups", []byte("deny"))
		}
		if err == nil {
			uids, gids := l.id.maps()
			err = writeMaps(child.PID, uids, gids)
		}
	}
	if err == nil {
		if l.scope {
			l.enterScope(ctx, child.PID)
		}
		err = child.Release()
	}
	if err != nil {
		child.End()
		return nil, err
	}
	return child, nil
}

func cloneError(err error) error {
	var errno syscall.Errno
	_ = errors.As(err, &errno)
	op := "start the agent"
	var failed *clone.Error
	if errors.As(err, &failed) {
		op = failed.Stage.String()
	}
	return backend.Failed("clone", op, "", err, cloneHint(errno))
}

// command returns the command that starts the agent, and the flags of its
// namespaces. The program comes from a descriptor that only the host side holds.
func (l *launch) command() (*clone.Command, uintptr, error) {
	var flags uintptr
	for _, ns := range l.namespaces {
		flags |= cloneFlags[ns]
	}
	c := &clone.Command{
		Path: fmt.Sprintf("/proc/self/fd/%d", l.exe.Fd()),
		Argv: []string{"paddock-agent", "boot"},
		// One processor until there is work for more (see package agent).
		Env:  []string{"GOMAXPROCS=1"},
		Dir:  "/",
		Room: 2 * egress.Stock, // it makes the sockets of a gateway
	}
	switch {
	case len(l.namespaces) > 0:
		for _, name := range setupCaps {
			n, _ := confine.CapNumber(name)
			c.Ambient = append(c.Ambient, uintptr(n))
		}
		if l.id.kind != mapped {
			c.UID, c.GID = insideID, insideID
		}
	case l.id.kind == owner:
		c.UID, c.GID = int(l.id.uid), int(l.id.gid)
	}
	if l.group != nil {
		c.Cgroup = l.group.group.FD()
	}
	if l.report {
		c.Argv = append(c.Argv, confine.ReportUse)
	}
	for _, f := range []*os.File{l.null, l.null, l.channels.Log, l.channels.Theirs, l.channels.Listen} {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, keep.FirstOwn)
		if err != nil {
			return nil, 0, err
		}
		c.Files = append(c.Files, fd)
	}
	return c, flags, nil
}

var cloneFlags = map[confine.Namespace]uintptr{
	confine.NSUser:   unix.CLONE_NEWUSER,
	confine.NSMount:  unix.CLONE_NEWNS,
	confine.NSPID:    unix.CLONE_NEWPID,
	confine.NSIPC:    unix.CLONE_NEWIPC,
	confine.NSUTS:    unix.CLONE_NEWUTS,
	confine.NSNet:    unix.CLONE_NEWNET,
	confine.NSCgroup: unix.CLONE_NEWCGROUP,
}
