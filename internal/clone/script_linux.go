package clone

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Script is a list of system calls that a child makes before it executes a program. It
// is for operations that are only allowed to a process with one thread and its own
// memory: entering or making user and time namespaces, and forking into pid namespaces.
// Such a child has a copy of its parent's memory, so the parent should be small.
//
// The first call that fails ends the child. The child writes a [Report] of each
// event to the descriptor that [NewScript] was given.
type Script struct {
	steps  []step
	names  []string
	keep   []any // memory that the calls point to
	out    uintptr
	report Report
	worst  syscall.Errno // of the programs that were tried
	action sigaction
	status int32
	err    error
}

// step is one system call, or an action that takes several.
type step struct {
	kind stepKind
	nr   uintptr
	args [6]uintptr
	want uintptr
}

type stepKind uint8

const (
	stepCall     stepKind = iota // must not fail
	stepWant                     // must return a certain result
	stepTry                      // may fail
	stepReach                    // report that the child got here
	stepFork                     // go on in a child, and wait for all children
	stepExec                     // execute a program, if it exists
	stepNotFound                 // no program could be executed
)

// Report is an event in a child's life, as the child writes it.
type Report struct {
	Kind  ReportKind
	Step  int32 // which one, for [Script.Name]
	Value int32
}

// ReportKind is the kind of an event.
type ReportKind int32

// The kinds of events.
const (
	Failed  ReportKind = iota + 1 // a step has failed; Value is the errno
	Reached                       // the child is at a step of [Script.Reach]
	Ended                         // the child of a step of [Script.Fork] has ended; Value is its wait status
)

// ReportSize is how many bytes a report takes.
const ReportSize = int(unsafe.Sizeof(Report{}))

// Bytes returns the memory of the report, to read into.
func (r *Report) Bytes() *[ReportSize]byte { return (*[ReportSize]byte)(unsafe.Pointer(r)) }

// NewScript returns a script whose child reports to a descriptor, which its
// program does not get if it is close-on-exec.
func NewScript(report int) *Script { return &Script{out: uintptr(report)} }

// Name returns the name of a step, "" if no such step exists.
func (s *Script) Name(number int32) string {
	if number < 0 || int(number) >= len(s.names) {
		return ""
	}
	return s.names[number]
}

// Call adds a system call. An argument is an int, a uintptr, a string, bytes or nil.
func (s *Script) Call(name string, nr int, args ...any) { s.add(stepCall, name, nr, 0, args) }

// Want adds a system call that must return a certain result.
func (s *Script) Want(name string, want int, nr int, args ...any) {
	s.add(stepWant, name, nr, uintptr(want), args)
}

// Try adds a system call that may fail.
func (s *Script) Try(nr int, args ...any) { s.add(stepTry, "", nr, 0, args) }

// Reach makes the child report that it got here, and wait until it can read a byte
// from the descriptor gate.
func (s *Script) Reach(name string, gate int) {
	s.add(stepReach, name, 0, 0, nil)
	byteRead := new([1]byte)
	s.keep = append(s.keep, byteRead)
	s.Want("wait", 1, unix.SYS_READ, gate, uintptr(unsafe.Pointer(byteRead)), 1)
}

// Fork makes the child create another, with CLONE_* flags, that goes on with the
// script. The first one waits for it and for every orphan that it inherits, and ends
// when it has no children left. With report, it reports how its child ended.
func (s *Script) Fork(flags uintptr, report bool) {
	want := 0
	if report {
		want = 1
	}
	s.add(stepFork, "fork", unix.SYS_CLONE, uintptr(want), []any{flags | uintptr(syscall.SIGCHLD)})
}

// Exec ends the script with a program: the first of the paths that exists.
func (s *Script) Exec(paths, argv, env []string) {
	argvp, err1 := syscall.SlicePtrFromStrings(argv)
	envp, err2 := syscall.SlicePtrFromStrings(env)
	if s.err = errors.Join(s.err, err1, err2); s.err != nil {
		return
	}
	s.keep = append(s.keep, argvp, envp)
	for _, path := range paths {
		s.add(stepExec, "execute", unix.SYS_EXECVE, 0,
			[]any{path, uintptr(unsafe.Pointer(&argvp[0])), uintptr(unsafe.Pointer(&envp[0]))})
	}
	s.add(stepNotFound, "execute", 0, 0, nil)
}

// ExecStep reports whether a step is one of [Script.Exec].
func (s *Script) ExecStep(number int32) bool {
	return number >= 0 && int(number) < len(s.steps) && s.steps[number].kind >= stepExec
}

func (s *Script) add(kind stepKind, name string, nr int, want uintptr, args []any) {
	c := step{kind: kind, nr: uintptr(nr), want: want}
	for i, arg := range args {
		switch arg := arg.(type) {
		case nil:
		case int:
			c.args[i] = uintptr(arg)
		case uintptr:
			c.args[i] = arg
		case string:
			p, err := syscall.BytePtrFromString(arg)
			if err != nil {
				s.err = errors.Join(s.err, err)
				return
			}
			s.keep = append(s.keep, p)
			c.args[i] = uintptr(unsafe.Pointer(p))
		case []byte:
			s.keep = append(s.keep, arg)
			c.args[i] = uintptr(unsafe.Pointer(unsafe.SliceData(arg)))
		default:
			s.err = errors.Join(s.err, syscall.EINVAL)
		}
	}
	s.steps, s.names = append(s.steps, c), append(s.names, name)
}

// Start clones the child, with CLONE_* flags, from the calling thread. The caller
// must wait for it.
func (s *Script) Start(flags uintptr) (pid int, err error) {
	if s.err != nil {
		return 0, s.err
	}
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	p, errno := s.start(flags | uintptr(syscall.SIGCHLD))
	if errno != 0 {
		return 0, errno
	}
	return int(p), nil
}

// start clones. Only the parent returns.
//
//go:norace
//go:noinline
func (s *Script) start(flags uintptr) (pid uintptr, errno syscall.Errno) {
	beforeFork()
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		s.child()
	}
	afterFork()
	return pid, errno
}

// child follows the rules of package syscall for children: no allocation, no
// lock, no stack growth. It does not return.
//
//go:norace
//go:nosplit
func (s *Script) child() {
	resetSignals(&s.action)
	for i := range s.steps {
		s.run(i)
	}
	fatal()
}

// run runs one step, or ends the child.
//
//go:norace
//go:nosplit
func (s *Script) run(i int) {
	c := &s.steps[i]
	switch c.kind {
	case stepReach:
		s.write(Reached, i, 0)
		return
	case stepNotFound:
		s.fail(i, s.worst)
		return
	}
	r, _, errno := syscall.RawSyscall6(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
	switch {
	case c.kind == stepTry:
	case c.kind == stepExec: // a program that does not exist is skipped, as execvp(3) does
		switch errno {
		case unix.ENOENT, unix.ENOTDIR:
			if s.worst == 0 {
				s.worst = errno
			}
		case unix.EACCES:
			s.worst = errno
		default:
			s.fail(i, errno)
		}
	case errno != 0:
		s.fail(i, errno)
	case c.kind == stepWant && r != c.want:
		s.fail(i, unix.ECANCELED)
	case c.kind == stepFork && r != 0:
		s.waitAll(i, r, c.want != 0)
	}
}

// waitAll waits for a child and for every orphan that this process inherits, and then
// ends. With report, it reports how the child ended.
//
//go:norace
//go:nosplit
func (s *Script) waitAll(i int, child uintptr, report bool) {
	for {
		r, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&s.status)), unix.WALL, 0, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		if r == child && report {
			s.write(Ended, i, uintptr(s.status))
		}
	}
}

//go:norace
//go:nosplit
func (s *Script) fail(i int, errno syscall.Errno) {
	s.write(Failed, i, uintptr(errno))
	fatal()
}

//go:norace
//go:nosplit
func (s *Script) write(kind ReportKind, i int, value uintptr) {
	s.report.Kind, s.report.Step, s.report.Value = kind, int32(i), int32(value)
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, s.out, uintptr(unsafe.Pointer(&s.report)), uintptr(ReportSize))
}
