//go:build linux

package linux

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/wire"
)

// bootTimeout is how long a new agent may take to build its walls.
const bootTimeout = 20 * time.Second

// Start builds the wall and starts an agent behind it.
func (b *Backend) Start(ctx context.Context, req backend.Request) (backend.Sandbox, error) {
	dir, err := newStateDir(req.StateDir)
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, req, dir)
	if err != nil {
		dir.remove()
		return nil, err
	}
	return s, nil
}

func start(ctx context.Context, req backend.Request, dir *stateDir) (*sandbox, error) {
	l := &launch{dir: dir}
	defer l.close()
	if err := l.prepare(req); err != nil {
		return nil, err
	}
	s, err := l.clone()
	if err != nil {
		return nil, err
	}
	if err := l.boot(ctx, s); err != nil {
		s.kill()
		return nil, s.explain(err)
	}
	return s, nil
}

// launch is everything that is handed to a new agent.
type launch struct {
	dir     *stateDir
	plan    *builder
	exe     *os.File
	control [2]*os.File // ours, theirs
	listen  *os.File
	log     *os.File
	null    *os.File
	files   []*os.File
}

func (l *launch) close() {
	for _, f := range append([]*os.File{l.exe, l.control[1], l.listen, l.log, l.null}, l.files...) {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (l *launch) prepare(req backend.Request) error {
	id, err := chooseIdentity()
	if err != nil {
		return err
	}
	if id.kind == idmap {
		if id.uid, err = l.dir.lendUID(); err != nil {
			return err
		}
		id.gid = id.uid
	}
	self, _ := os.Executable()
	g := guarded{stateDir: req.StateDir, executables: []string{self, req.Agent}}
	if l.plan, err = newPlan(req.Spec, id, g); err != nil {
		return err
	}
	if id.kind == idmap {
		if err := l.idmap(req, id, g); err != nil {
			return err
		}
	}
	if l.exe, err = openAgent(req.Agent); err != nil {
		return err
	}
	return l.sockets()
}

// idmap opens the id-mapped mounts; where the file system refuses, the next
// step of the ladder is taken: the workspace's owner, if that is not root.
func (l *launch) idmap(req backend.Request, id identity, g guarded) error {
	for _, m := range l.plan.mounts {
		f, err := idmapMount(m, id)
		if err == nil {
			l.files = append(l.files, f)
			continue
		}
		id, oerr := asOwner(l.plan.mounts)
		if oerr != nil {
			return fail("identity", "map the owner of", m.source, fmt.Errorf("%v: %w", oerr, err),
				"use a workspace on ext4, xfs, btrfs or tmpfs, or one that an ordinary user owns, or run paddock as that user")
		}
		for _, f := range l.files {
			_ = f.Close()
		}
		l.files = nil
		l.plan, err = newPlan(req.Spec, id, g)
		return err
	}
	return nil
}

// openAgent opens the agent's program, so that it can be executed by an
// identity that could not reach its path.
func openAgent(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fail("agent", "open", path, err, "set PADDOCK_AGENT to the path of paddock-agent")
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, fail("agent", "stat", path, err, "")
	}
	if info.Mode().Perm()&0o001 == 0 && os.Geteuid() == 0 {
		_ = f.Close()
		return nil, fail("agent", "execute", path, errors.New("its mode lets only its owner execute it, and sandboxes run under another id"), "chmod 755 "+path)
	}
	return f, nil
}

// sockets makes the control socket pair, the listening socket and the log.
func (l *launch) sockets() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fail("state", "socketpair", "", err, "")
	}
	l.control[1] = os.NewFile(uintptr(pair[1]), "control")
	if err := unix.SetNonblock(pair[0], true); err != nil { // so that deadlines work
		_ = unix.Close(pair[0])
		return fail("state", "fcntl", "control", err, "")
	}
	l.control[0] = os.NewFile(uintptr(pair[0]), "control")
	if l.listen, err = listen(l.dir.path); err != nil {
		return fail("state", "listen", socketName, err, "")
	}
	if l.log, err = os.OpenFile(filepath.Join(l.dir.path, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return fail("state", "create", logName, err, "")
	}
	if l.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return fail("state", "open", os.DevNull, err, "")
	}
	return nil
}

const (
	socketName = "agent.sock"
	logName    = "agent.log"
)

// listen makes the socket that the sandbox never sees. Its address goes
// through a directory handle, because an address has room for 107 bytes only.
func listen(dir string) (*os.File, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), socketName)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: socketAddr(d)}); err == nil {
		err = unix.Listen(fd, 128)
		if err == nil {
			return f, nil
		}
	}
	_ = f.Close()
	return nil, fmt.Errorf("cannot bind %s", filepath.Join(dir, socketName))
}

func socketAddr(dir *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketName)
}

// clone starts the agent in its namespaces, on a thread that lives as long as
// the agent: the agent's parent-death signal is tied to it.
func (l *launch) clone() (*sandbox, error) {
	s := &sandbox{dir: l.dir, control: l.control[0], done: make(chan struct{}), plan: l.plan}
	command, flags, err := l.command()
	if err != nil {
		_ = s.control.Close()
		return nil, fail("clone", "prepare descriptors", "", err, "")
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		var err error
		s.pid, s.pidfd, err = clone.Start(command, flags, l.admit)
		for _, fd := range command.Files {
			_ = unix.Close(fd)
		}
		started <- err
		if err == nil {
			s.reap()
		}
	}()
	if err := <-started; err != nil {
		_ = s.control.Close()
		return nil, cloneError(err)
	}
	return s, nil
}

// admit gives the new user namespace its ids. An ordinary user may do so only
// after giving up setgroups(2) in it.
func (l *launch) admit(pid int) error {
	p := l.plan.plan
	if p.Holds.Identity == mapped {
		if err := writeProc(pid, "setgroups", []byte("deny")); err != nil {
			return err
		}
	}
	return writeMaps(pid, p.UIDs, p.GIDs)
}

func cloneError(err error) error {
	errno, _ := errnoOf(err)
	op := "start the agent"
	var failed *clone.Error
	if errors.As(err, &failed) {
		op = failed.Stage.String()
	}
	return fail("clone", op, "", err, cloneHint(syscall.Errno(errno)))
}

// command is the agent as a child: its program comes from a descriptor that
// stays in the host's hands, its environment is empty.
func (l *launch) command() (*clone.Command, uintptr, error) {
	p := l.plan.plan
	var flags uintptr
	for _, ns := range p.Namespaces {
		flags |= cloneFlags[ns]
	}
	files := append([]*os.File{l.null, l.null, l.log, l.control[1], l.listen}, l.files...)
	c := &clone.Command{
		Path: fmt.Sprintf("/proc/self/fd/%d", l.exe.Fd()),
		Argv: []string{"paddock-agent", "boot"},
		Dir:  "/",
	}
	for _, name := range setupCaps {
		n, _ := confine.CapNumber(name)
		c.Ambient = append(c.Ambient, uintptr(n))
	}
	if p.Holds.Identity != mapped {
		c.ID = insideID
	}
	const first = 64 // above every number that the agent's descriptors take
	for _, f := range files {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, first+len(l.files))
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

// boot hands the plan over, waits for the walls to stand, and looks at them.
func (l *launch) boot(ctx context.Context, s *sandbox) error {
	_ = l.control[1].Close() // or the lifeline would never break
	stop := context.AfterFunc(ctx, func() { _ = s.control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = s.control.SetDeadline(time.Now().Add(bootTimeout))
	boot := confine.Boot{Protocol: wire.Version, Build: wire.Build, Plan: l.plan.plan}
	if err := wire.WriteLine(s.control, boot); err != nil {
		return fail("boot", "send the plan", "", err, "")
	}
	line, err := wire.ReadLine(bufio.NewReader(s.control), confine.MaxBoot)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fail("boot", "await the agent", "", err, "")
	}
	var booted confine.Booted
	if err := json.Unmarshal(line, &booted); err != nil {
		return fail("boot", "read the agent's answer", "", err, "is it a paddock-agent?")
	}
	if f := booted.Failed; f != nil {
		return &backend.StartError{Stage: f.Stage, Op: f.Op, Object: f.Object, Errno: f.Errno, Cause: f.Cause, Hint: setupHint(f)}
	}
	_ = s.control.SetDeadline(time.Time{})
	s.isolation = l.plan.plan.Isolation(booted.Skipped)
	if err := verify(s.pid, l.plan.plan); err != nil {
		return err
	}
	s.isolation.Verified = true
	start, err := startTime(s.pid)
	if err == nil {
		err = l.dir.save(s.pid, start)
	}
	if err != nil {
		return fail("state", "save", l.dir.path, err, "")
	}
	return nil
}

// dial connects to a sandbox's socket.
func dial(ctx context.Context, dir string) (net.Conn, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", socketAddr(d))
}
