//go:build linux

// Package program is the keeper of a sandbox that outlives its creator: a process for each
// such sandbox, so small that a thousand of them fit. It is the parent of the agent, holds what
// must not be closed, and waits: for the agent's end, for a time limit, for somebody who asks
// it to end the sandbox. Then it executes the program that its creator has named, which does
// the work of the end as the same process, with the same descriptors and children.
//
// It imports no package that allocates or starts goroutines when a program begins.
package program

import (
	"errors"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/keep/order"
	"github.com/paddock-dev/paddock/internal/clone"
)

// keeper is the state of the process.
type keeper struct {
	children []*clone.Child
	ended    []bool // whether each was waited for
	kept     order.Kept
	files    []int // of kept
	// callers are connections that have said nothing yet, and asking those of who want its end.
	callers, asking []int
	// busy says that something runs inside, as far as the agent says. quiet is when the
	// sandbox was used last.
	busy        bool
	quiet, born int64 // CLOCK_BOOTTIME, in nanoseconds
	deafUntil   int64 // until when nothing is read of the agent
}

// The keeper's own numbers of descriptors are above all that its children and the program of
// the end get.
const firstOwn = 96

// maxCallers and maxAsking bound the connections that are held. Further ones are closed.
const (
	maxCallers = 256
	maxAsking  = 32
)

// Main runs the keeper on the process's first thread, which must be locked: its children die
// with it. It returns the exit status.
func Main() int {
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(name()), 0, 0, 0)
	unix.CloseOnExec(order.SocketFD)
	k := &keeper{}
	if !k.build() {
		k.end()
		return 1
	}
	k.keep()
	k.end()
	return 1
}

// end kills the children, before the process ends, and waits for them.
func (k *keeper) end() {
	for i, c := range k.children {
		if !k.ended[i] {
			c.End()
		}
	}
}

// build does what the creator asks, until it has handed everything over. It reports false if
// the creator has ended before that.
func (k *keeper) build() bool {
	text := make([]byte, order.MaxMessage)
	for {
		n, fds, err := order.Receive(order.SocketFD, text)
		if err != nil {
			return false
		}
		fds, err = raise(fds)
		var answer order.Answer
		var with []int
		switch kind, rest := text[0], text[1:n]; {
		case err != nil:
		case kind == order.Clone:
			answer, with, err = k.clone(rest, fds)
			closeAll(fds)
		case kind == order.Release:
			answer, err = k.release(rest)
		case kind == order.Await:
			answer, err = k.await(rest)
		case kind == order.Keep:
			if answer, err = k.take(rest, fds); err == nil && answer.Errno == 0 {
				_ = order.Send(order.SocketFD, answer.Encode()) // it is the sandbox's keeper now, whoever hears it
				_ = unix.Close(order.SocketFD)
				return true
			}
			closeAll(fds)
		default:
			err = order.ErrMalformed
		}
		if err != nil || order.Send(order.SocketFD, answer.Encode(), with...) != nil {
			return false
		}
	}
}

// raise gives descriptors numbers of the keeper's own.
func raise(fds []int) ([]int, error) {
	for i, fd := range fds {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, firstOwn)
		if err != nil {
			return fds, err
		}
		_ = unix.Close(fd)
		fds[i] = own
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

func (k *keeper) clone(text []byte, fds []int) (order.Answer, []int, error) {
	p, exe, err := order.DecodeProcess(text, fds)
	if err != nil {
		return order.Answer{}, nil, err
	}
	p.Path = "/proc/self/fd/" + strconv.Itoa(exe)
	child, err := clone.Begin(&p.Command, p.Flags, true)
	if failed, ok := err.(*clone.Error); ok { //nolint:errorlint // Begin returns it bare
		return order.Answer{Stage: failed.Stage, Errno: failed.Errno}, nil, nil
	}
	if err != nil {
		return order.Answer{}, nil, err
	}
	k.children, k.ended = append(k.children, child), append(k.ended, false)
	return order.Answer{Value: child.PID}, []int{child.PIDFD}, nil
}

func (k *keeper) child(text []byte) (int, error) {
	n, err := order.DecodeNumber(text)
	if err != nil || n < 0 || n >= len(k.children) {
		return 0, order.ErrMalformed
	}
	return n, nil
}

func (k *keeper) release(text []byte) (order.Answer, error) {
	n, err := k.child(text)
	if err != nil {
		return order.Answer{}, err
	}
	if err := k.children[n].Release(); err != nil {
		return order.Failed(err), nil
	}
	if failed, ok := k.children[n].Wait().(*clone.Error); ok { //nolint:errorlint // Wait returns it bare
		return order.Answer{Stage: failed.Stage, Errno: failed.Errno}, nil
	}
	return order.Answer{}, nil
}

func (k *keeper) await(text []byte) (order.Answer, error) {
	n, err := k.child(text)
	if err != nil || k.ended[n] {
		return order.Answer{}, order.ErrMalformed
	}
	var status syscall.WaitStatus
	for {
		if _, err = syscall.Wait4(k.children[n].PID, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if k.ended[n] = err == nil; err != nil {
		return order.Failed(err), nil
	}
	return order.Answer{Value: int(status)}, nil
}

// The positions of a [order.Kept]'s first descriptors.
const (
	theProgram = iota
	theSocket
	theControl
)

// take takes the sandbox over: from the rename on it exists.
func (k *keeper) take(text []byte, fds []int) (order.Answer, error) {
	kept, err := order.DecodeKept(text)
	if err != nil || len(fds) <= theControl+1 || kept.Process < 0 || kept.Process >= len(k.children) {
		return order.Answer{}, order.ErrMalformed
	}
	// Not before: the creator writes the id maps of a child, which shares this memory.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if err = unix.SetNonblock(fds[theSocket], true); err == nil {
		err = unix.SetNonblock(fds[theControl], true)
	}
	if err == nil {
		err = unix.Rename(kept.From, kept.To)
	}
	if err != nil {
		return order.Failed(err), nil
	}
	_ = unix.Close(fds[len(fds)-1]) // the lock of the record
	k.kept, k.files = kept, fds[:len(fds)-1]
	k.born = now()
	k.quiet = k.born
	return order.Answer{}, nil
}

// now returns the time that also runs while the machine sleeps, and that nobody sets.
func now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return t.Nano()
}

// keep waits for a reason to end the sandbox, and begins the end.
func (k *keeper) keep() {
	for {
		at := now()
		why, wait := k.due(at)
		if why == "" {
			why = k.poll(at, wait)
		}
		if why != "" {
			k.finish(why)
			return
		}
	}
}

// due returns why the sandbox is to end now, or the milliseconds until that has to be asked
// again, -1 for never.
func (k *keeper) due(at int64) (string, int) {
	next := int64(-1)
	consider := func(deadline int64) bool {
		if next < 0 || deadline < next {
			next = deadline
		}
		return at >= deadline
	}
	if k.kept.Life > 0 && consider(k.born+int64(k.kept.Life)) {
		return order.TooOld, 0
	}
	if k.kept.Idle > 0 && !k.busy && consider(k.quiet+int64(k.kept.Idle)) {
		return order.TooIdle, 0
	}
	if k.deafUntil > at {
		consider(k.deafUntil)
	}
	if next < 0 {
		return "", -1
	}
	const most = int64(time.Hour)
	return "", int((min(next-at, most) + int64(time.Millisecond) - 1) / int64(time.Millisecond))
}

// poll waits until something happens, and returns why the sandbox is to end, if it is.
func (k *keeper) poll(at int64, wait int) string {
	fds := make([]unix.PollFd, 0, 3+len(k.callers))
	fds = append(fds,
		unix.PollFd{Fd: int32(k.children[k.kept.Process].PIDFD), Events: unix.POLLIN},
		unix.PollFd{Fd: int32(k.files[theSocket]), Events: unix.POLLIN},
		unix.PollFd{Fd: int32(k.files[theControl]), Events: unix.POLLIN})
	if at < k.deafUntil {
		fds[2].Fd = -1
	}
	for _, v := range k.callers {
		fds = append(fds, unix.PollFd{Fd: int32(v), Events: unix.POLLIN})
	}
	if n, err := unix.Poll(fds, wait); err != nil || n == 0 {
		return ""
	}
	if fds[0].Revents != 0 {
		return order.Died
	}
	if fds[2].Revents != 0 {
		k.listen()
	}
	why, left := "", k.callers[:0]
	for i, v := range k.callers {
		switch asked, gone := heard(v, fds[3+i].Revents); {
		case asked && len(k.asking) < maxAsking:
			k.asking, why = append(k.asking, v), order.AskedFor
		case asked, gone:
			_ = unix.Close(v)
		default:
			left = append(left, v)
		}
	}
	k.callers = left
	if fds[1].Revents != 0 {
		k.accept()
	}
	return why
}

// heard reads what a connection has sent, and reports whether it asks for the end, and whether
// it has ended.
func heard(fd int, events int16) (asked, gone bool) {
	if events == 0 {
		return false, false
	}
	var b [16]byte
	n, err := unix.Read(fd, b[:])
	if err == unix.EAGAIN || err == unix.EINTR {
		return false, false
	}
	return n > 0 && b[0] == order.End, n <= 0
}

// accept takes a connection.
func (k *keeper) accept() {
	fd, _, err := unix.Accept4(k.files[theSocket], unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if err != nil {
		return
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, firstOwn)
	_ = unix.Close(fd)
	if err != nil {
		return
	}
	if len(k.callers) >= maxCallers {
		_ = unix.Close(own)
		return
	}
	k.callers = append(k.callers, own)
}

// deafTime is how long the agent is not read after it was, in nanoseconds: nothing that it
// sends makes the keeper work all the time.
const deafTime = int64(200 * time.Millisecond)

// listen reads what the agent says about its use. What it says is not trusted: it can only make
// the sandbox end sooner, or at its other limit.
func (k *keeper) listen() {
	var b [4096]byte
	n, err := unix.Read(k.files[theControl], b[:])
	k.deafUntil = now() + deafTime
	if n <= 0 {
		if err != unix.EAGAIN {
			k.deafUntil = 1<<63 - 1 // it has closed its end; its own end follows
		}
		return
	}
	k.busy, k.quiet = b[n-1] == order.Busy, now()
}

// finish executes the program of the end. It returns only if that cannot be executed.
func (k *keeper) finish(why string) {
	at := order.FirstKept
	for _, fd := range append(k.files, k.asking...) {
		if unix.Dup3(fd, at, 0) != nil {
			return
		}
		at++
	}
	argv := append(k.kept.Argv, why, strconv.Itoa(len(k.files)), strconv.Itoa(len(k.asking)))
	_ = syscall.Exec("/proc/self/fd/"+strconv.Itoa(k.files[theProgram]), argv, k.kept.Env)
}
