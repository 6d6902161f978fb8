//go:build linux

// Package keep is the host side of keepers: the small processes that own sandboxes which
// outlive their creators. It starts a keeper, has processes cloned as its children, hands the
// sandbox over to it, and talks to it later.
package keep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/keep/order"
	"github.com/paddock-dev/paddock/internal/clone"
)

// Keeper is a keeper that has not taken a sandbox over yet. If this process ends before that,
// it ends too, with its children.
type Keeper struct {
	mu     sync.Mutex
	socket int
	pid    int
	pidfd  int
	count  int      // of the processes that it has cloned
	woken  *os.File // readable once the keeper is no longer this process's
	wake   *os.File
}

// Start starts a keeper.
func Start(program string) (*Keeper, error) {
	exe, err := OpenProgram(program, "keep paddock-keeper beside paddock-agent")
	if err != nil {
		return nil, err
	}
	defer exe.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, failed("open", os.DevNull, err)
	}
	defer null.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, failed("socketpair", "", err)
	}
	defer unix.Close(pair[1])
	c := &clone.Command{Path: fmt.Sprintf("/proc/self/fd/%d", exe.Fd()), Argv: []string{"paddock-keeper"}, Dir: "/",
		Env: []string{"GOMAXPROCS=1", "GOGC=off"}, Room: 256} // the keeper numbers its own from 96 on
	defer func() {
		for _, fd := range c.Files {
			_ = unix.Close(fd)
		}
	}()
	for _, fd := range []int{int(null.Fd()), int(null.Fd()), int(null.Fd()), pair[1]} {
		high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, FirstOwn)
		if err != nil {
			_ = unix.Close(pair[0])
			return nil, failed("prepare descriptors", "", err)
		}
		c.Files = append(c.Files, high)
	}
	k := &Keeper{socket: pair[0]}
	if k.woken, k.wake, err = os.Pipe(); err == nil {
		err = k.start(c)
	}
	if err != nil {
		_ = unix.Close(pair[0])
		return nil, failed("start the keeper", program, err)
	}
	return k, nil
}

func (k *Keeper) start(c *clone.Command) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child, err := clone.Run(c, 0, func(int) error { return nil })
	if err != nil {
		return err
	}
	k.pid, k.pidfd = child.PID, child.PIDFD
	return nil
}

// PID returns the pid of the keeper.
func (k *Keeper) PID() int { return k.pid }

func failed(op, object string, err error) error { return backend.Failed("keeper", op, object, err, "") }

// ask sends a message and returns the answer.
func (k *Keeper) ask(text []byte, fds ...int) (order.Answer, []int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.socket < 0 {
		return order.Answer{}, nil, order.ErrEnded
	}
	if err := order.Send(k.socket, text, fds...); err != nil {
		return order.Answer{}, nil, err
	}
	buf := make([]byte, 64)
	n, got, err := order.Receive(k.socket, buf)
	if err != nil {
		return order.Answer{}, nil, err
	}
	answer, err := order.DecodeAnswer(buf[:n])
	return answer, got, err
}

// Keep hands the sandbox over: after it the keeper no longer ends with this process. files
// are those of [order.Kept].
func (k *Keeper) Keep(kept order.Kept, files []*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	text := kept.Encode()
	if len(text) > order.MaxMessage || len(fds) > order.MaxFiles {
		return failed("hand over", "", errors.New("there is more than a keeper can hold"))
	}
	answer, _, err := k.ask(text, fds...)
	if err == nil && answer.Errno != 0 {
		err = answer.Errno
	}
	if err != nil {
		return failed("hand over", "", err)
	}
	k.close()
	return nil
}

func (k *Keeper) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.socket < 0 {
		return
	}
	_ = unix.Close(k.socket)
	k.socket = -1
	_ = k.wake.Close()
	go func(pid, pidfd int) { // reaps it, in case this process goes on
		for {
			if _, err := syscall.Wait4(pid, nil, 0, nil); !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		_ = unix.Close(pidfd)
	}(k.pid, k.pidfd)
}

// Abandon ends a keeper that has taken no sandbox over, with its children.
func (k *Keeper) Abandon() {
	if k == nil {
		return
	}
	pidfd, err := unix.FcntlInt(uintptr(k.pidfd), unix.F_DUPFD_CLOEXEC, 0)
	k.close()
	if err == nil {
		_ = await(pidfd, -1)
		_ = unix.Close(pidfd)
	}
}

// await waits until a process has ended, or until also, if not -1, is readable. It reports
// whether the process has ended.
func await(pidfd, also int) bool {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}, {Fd: int32(also), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
			return err == nil && fds[0].Revents != 0
		}
	}
}

// Process is a child of this process, or of its keeper.
type Process struct {
	PID, PIDFD int
	child      *clone.Child // of this process
	keeper     *Keeper
	number     int
}

// Begin clones a process that waits for Release. With a keeper it is the keeper's child; else
// it belongs to the calling thread, which must be locked and live as long as the process.
func Begin(k *Keeper, c *clone.Command, flags uintptr, exe *os.File) (*Process, error) {
	if k == nil {
		child, err := clone.Begin(c, flags, true)
		if err != nil {
			return nil, err
		}
		return &Process{PID: child.PID, PIDFD: child.PIDFD, child: child}, nil
	}
	p := order.Process{Command: *c, Flags: flags}
	text, fds := p.Encode(int(exe.Fd()))
	answer, got, err := k.ask(text, fds...)
	if err == nil && answer.Errno != 0 {
		err = &clone.Error{Stage: answer.Stage, Errno: answer.Errno}
	}
	if err == nil && len(got) != 1 {
		err = order.ErrMalformed
	}
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count++
	return &Process{PID: answer.Value, PIDFD: got[0], keeper: k, number: k.count - 1}, nil
}

// Adopt returns a child of this process that the keeper has cloned, which this process was
// before it executed its program.
func Adopt(pid, pidfd int) *Process { return &Process{PID: pid, PIDFD: pidfd} }

// Number is the process's number for its keeper.
func (p *Process) Number() int { return p.number }

// Release makes the process continue. With a keeper that happens in Wait.
func (p *Process) Release() error {
	if p.child == nil {
		return nil
	}
	return p.child.Release()
}

// Wait returns once the program has been executed, or the process has ended before. It must be
// called after Release. The error is a *clone.Error.
func (p *Process) Wait() error {
	if p.child != nil {
		return p.child.Wait()
	}
	answer, _, err := p.keeper.ask(order.Number(order.Release, p.number))
	if err == nil && answer.Errno != 0 {
		return &clone.Error{Stage: answer.Stage, Errno: answer.Errno}
	}
	return nil // also if the keeper has ended, and so the process too
}

// Reap waits for the process's end, and returns its status. It returns early, with ok false, if
// the process is handed over meanwhile.
func (p *Process) Reap() (status syscall.WaitStatus, ok bool) {
	if p.keeper != nil {
		if !await(p.PIDFD, int(p.keeper.woken.Fd())) {
			return 0, false
		}
		answer, _, err := p.keeper.ask(order.Number(order.Await, p.number))
		if err == order.ErrEnded { //nolint:errorlint // it is returned bare
			return 0, false
		}
		return syscall.WaitStatus(answer.Value), err == nil && answer.Errno == 0
	}
	for {
		if _, err := syscall.Wait4(p.PID, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			return status, err == nil
		}
	}
}

// End kills the process, which has not been released, and waits for its end.
func (p *Process) End() {
	if p.child != nil {
		p.child.End()
		return
	}
	_ = unix.PidfdSendSignal(p.PIDFD, unix.SIGKILL, nil, 0)
	_, _ = p.Reap()
	_ = unix.Close(p.PIDFD)
}

// AskForEnd asks the keeper to end the sandbox, and returns the answer of the program that has
// ended it: at most 1 MiB. If another process has asked before, the answer can be empty.
func AskForEnd(ctx context.Context, conn net.Conn) ([]byte, error) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := conn.Write([]byte{order.End}); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(conn, 1<<20))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if errors.Is(err, unix.ECONNRESET) {
		err = nil
	}
	return text, err
}
