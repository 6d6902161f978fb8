//go:build linux

// Package order has the words between a process that creates a sandbox which outlives it, and
// the keeper of that sandbox: messages over a socket that keeps them apart, with descriptors.
// The keeper is small because it imports nothing but this package and package clone.
//
// The creator asks the keeper to clone its processes ([Clone], [Release], [Await]), so that
// they are the keeper's children from the first moment on, and then to keep them ([Keep]). A
// keeper whose creator ends before that ends too.
package order

import (
	"encoding/binary"
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// The first byte of each message.
const (
	Clone   = 'c' // a Process, with descriptors; the answer has the pid and a pidfd
	Release = 'r' // a number of a process: it is to continue; the answer comes when its program runs
	Await   = 'w' // a number of a process that has ended: the answer has its status
	Keep    = 'k' // a Kept, with descriptors; the answer says that the creator may end
)

// SocketFD is the keeper's end of the creator's socket.
const SocketFD = 3

// End is the byte that a process sends to a running keeper, over the socket in the sandbox's
// directory, to end the sandbox. The answer comes from the program that ends it.
const End = 'e'

// Why a keeper begins the end.
const (
	AskedFor = "asked"
	Died     = "died" // its agent has ended by itself
	TooOld   = "lifetime"
	TooIdle  = "idle"
)

// FirstKept is the number that the first descriptor of a [Kept] has for the program that ends
// the sandbox. After the last of them come the connections that wait for its answer.
const FirstKept = 3

// Busy is what an agent writes to its owner when something begins to be done in the sandbox
// (confine.SaysBusy, without that package). Any other byte means that nothing is.
const Busy = 'b'

// MaxMessage bounds a message in bytes, and MaxFiles its descriptors.
const (
	MaxMessage = 64 << 10
	MaxFiles   = 128
)

// Process is a program to clone. Its executable is the first descriptor of the message; after
// it come Command's Cgroup and Landlock, if they are not 0, and its Files.
type Process struct {
	clone.Command
	Flags uintptr
}

// Kept is what a keeper needs to know about a sandbox. Its descriptors are the program that
// ends it, the socket in its directory, the agent's control socket, what else that program gets,
// and at last the lock of the sandbox's record, which the keeper frees once the record counts:
// whoever acts on the sandbox next sees that, even if its creator is killed meanwhile.
type Kept struct {
	Process int           // whose end is the sandbox's
	Idle    time.Duration // it ends after this time without any use; 0: never
	Life    time.Duration // it ends after this time; 0: never
	Argv    []string      // of the program; the reason and two numbers are added: of descriptors and of connections
	Env     []string
	// From is renamed to To once the keeper has everything: from then on the sandbox exists.
	From, To string
}

// Bits of a process that are set or not.
const (
	withCgroup = 1 << iota
	withLandlock
	dieWithThread
	gently
	noCaps
	noNewPrivs
)

// ErrMalformed is the error of a message that this package has not written.
var ErrMalformed = errors.New("a message is malformed")

// Encode returns the message and its descriptors; exe is the executable.
func (p *Process) Encode(exe int) ([]byte, []int) {
	bits, fds := 0, []int{exe}
	for _, b := range []struct {
		set bool
		bit int
	}{{p.Cgroup != 0, withCgroup}, {p.Landlock != 0, withLandlock}, {p.DieWithThread, dieWithThread},
		{p.Gently, gently}, {p.NoCaps, noCaps}, {p.NoNewPrivs, noNewPrivs}} {
		if b.set {
			bits |= b.bit
		}
	}
	if p.Cgroup != 0 {
		fds = append(fds, p.Cgroup)
	}
	if p.Landlock != 0 {
		fds = append(fds, p.Landlock)
	}
	fds = append(fds, p.Files...)
	w := writer{Clone}
	w.number(uint64(bits), uint64(p.Flags), uint64(p.UID), uint64(p.GID), uint64(p.Umask))
	w.text(p.Dir)
	w.list(p.Argv)
	w.list(p.Env)
	w.number(uint64(len(p.Ambient)))
	for _, c := range p.Ambient {
		w.number(uint64(c))
	}
	w.number(uint64(len(p.Rlimits)))
	for _, l := range p.Rlimits {
		w.number(uint64(l.Resource), l.Limit.Cur, l.Limit.Max)
	}
	return w, fds
}

// DecodeProcess reads what Encode has written, after its first byte. Path is not set.
func DecodeProcess(text []byte, fds []int) (p Process, exe int, err error) {
	r := reader{text: text}
	bits := int(r.number())
	p.Flags, p.UID, p.GID, p.Umask = uintptr(r.number()), int(r.number()), int(r.number()), int(r.number())
	p.Dir, p.Argv, p.Env = r.word(), r.list(), r.list()
	for n := r.count(); n > 0; n-- {
		p.Ambient = append(p.Ambient, uintptr(r.number()))
	}
	for n := r.count(); n > 0; n-- {
		p.Rlimits = append(p.Rlimits, clone.Rlimit{Resource: int(r.number()), Limit: unix.Rlimit{Cur: r.number(), Max: r.number()}})
	}
	p.DieWithThread, p.Gently = bits&dieWithThread != 0, bits&gently != 0
	p.NoCaps, p.NoNewPrivs = bits&noCaps != 0, bits&noNewPrivs != 0
	own := 1
	for _, bit := range []int{withCgroup, withLandlock} {
		if bits&bit != 0 {
			own++
		}
	}
	if r.bad || len(fds) < own {
		return p, -1, ErrMalformed
	}
	exe, p.Files = fds[0], fds[own:]
	if bits&withCgroup != 0 {
		p.Cgroup = fds[1]
	}
	if bits&withLandlock != 0 {
		p.Landlock = fds[own-1]
	}
	return p, exe, nil
}

// Encode returns the message.
func (k *Kept) Encode() []byte {
	w := writer{Keep}
	w.number(uint64(k.Process), uint64(k.Idle), uint64(k.Life))
	w.list(k.Argv)
	w.list(k.Env)
	w.text(k.From)
	w.text(k.To)
	return w
}

// DecodeKept reads what Encode has written, after its first byte.
func DecodeKept(text []byte) (k Kept, err error) {
	r := reader{text: text}
	k.Process, k.Idle, k.Life = int(r.number()), time.Duration(r.number()), time.Duration(r.number())
	k.Argv, k.Env, k.From, k.To = r.list(), r.list(), r.word(), r.word()
	if r.bad {
		return k, ErrMalformed
	}
	return k, nil
}

// Answer is what a keeper answers.
type Answer struct {
	Stage clone.Stage   // that has failed, if Errno is not 0
	Errno syscall.Errno // 0: it was done
	Value int           // a pid, or a wait status
}

// Failed returns the answer about a system call that has failed.
func Failed(err error) Answer {
	if errno, ok := err.(syscall.Errno); ok { //nolint:errorlint // system calls return it bare
		return Answer{Errno: errno}
	}
	return Answer{Errno: syscall.EIO}
}

// Encode returns the message.
func (a Answer) Encode() []byte {
	var w writer
	w.number(uint64(a.Stage), uint64(a.Errno), uint64(a.Value))
	return w
}

// DecodeAnswer reads what Encode has written.
func DecodeAnswer(text []byte) (Answer, error) {
	r := reader{text: text}
	a := Answer{clone.Stage(r.number()), syscall.Errno(r.number()), int(r.number())}
	if r.bad {
		return a, ErrMalformed
	}
	return a, nil
}

// Number returns a message of one byte and a number.
func Number(kind byte, n int) []byte {
	w := writer{kind}
	w.number(uint64(n))
	return w
}

// DecodeNumber reads the number of such a message, after its first byte.
func DecodeNumber(text []byte) (int, error) {
	r := reader{text: text}
	n := int(r.number())
	if r.bad {
		return 0, ErrMalformed
	}
	return n, nil
}

type writer []byte

func (w *writer) number(list ...uint64) {
	for _, n := range list {
		*w = binary.LittleEndian.AppendUint64(*w, n)
	}
}

func (w *writer) text(s string) {
	w.number(uint64(len(s)))
	*w = append(*w, s...)
}

func (w *writer) list(all []string) {
	w.number(uint64(len(all)))
	for _, s := range all {
		w.text(s)
	}
}

// reader reads what a writer has written. Once something is missing, bad is set and all that
// follows is empty.
type reader struct {
	text []byte
	bad  bool
}

func (r *reader) number() uint64 {
	if len(r.text) < 8 {
		r.bad, r.text = true, nil
		return 0
	}
	n := binary.LittleEndian.Uint64(r.text)
	r.text = r.text[8:]
	return n
}

// count reads how many things follow, each of at least 8 bytes.
func (r *reader) count() int {
	n := r.number()
	if n > uint64(len(r.text)/8) {
		r.bad, r.text = true, nil
		return 0
	}
	return int(n)
}

func (r *reader) word() string {
	n := r.number()
	if n > uint64(len(r.text)) {
		r.bad, r.text = true, nil
		return ""
	}
	s := string(r.text[:n])
	r.text = r.text[n:]
	return s
}

func (r *reader) list() []string {
	all := make([]string, 0, 8)
	for n := r.count(); n > 0; n-- {
		all = append(all, r.word())
	}
	return all
}

// Send sends a message.
func Send(socket int, text []byte, fds ...int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for {
		if err := unix.Sendmsg(socket, text, rights, nil, unix.MSG_NOSIGNAL); err != unix.EINTR {
			return err
		}
	}
}

// ErrEnded is the error of a socket whose other end is closed.
var ErrEnded = errors.New("the other side has ended")

// Receive receives a message into text, and its descriptors, which are close-on-exec.
func Receive(socket int, text []byte) (n int, fds []int, err error) {
	rights := make([]byte, unix.CmsgSpace(4*MaxFiles))
	for {
		var m, flags int
		n, m, flags, _, err = unix.Recvmsg(socket, text, rights, unix.MSG_CMSG_CLOEXEC)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, nil, err
		}
		if m > 0 {
			list, perr := unix.ParseSocketControlMessage(rights[:m])
			for i := range list {
				if got, rerr := unix.ParseUnixRights(&list[i]); rerr == nil {
					fds = append(fds, got...)
				}
			}
			err = perr
		}
		if n == 0 && err == nil {
			err = ErrEnded
		}
		if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			err = ErrMalformed
		}
		return n, fds, err
	}
}
