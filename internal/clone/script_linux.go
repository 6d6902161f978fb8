package clone

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Script is a child's life as a list of system calls, with a program at its
// end. It is for what only a process of one thread with memory of its own may
// do: enter or make user and time namespaces, and fork into pid namespaces.
// Such a child has a copy of its parent's memory, so the parent should be small.
//
// The first call that fails ends the child. What becomes of it can be read
// from the descriptor of [NewScript], as a [Report] each.
type Script struct {
	steps  []step
	names  []string
	keep   []any // what the calls point to
	report uintptr
	record Report
	worst  syscall.Errno // of the programs that were tried
	action sigaction
	status int32
	err    error
}

// step is one system call, or something that takes several.
type step struct {
	kind stepKind
	nr   uintptr
	args [6]uintptr
	want uintptr
}

type stepKind uint8

const (
	stepCall  stepKind = iota // must not fail
	stepWant                  // must give a certain result
	stepTry                   // may fail
	stepReach                 // tell that the child has come here
	stepFork                  // go on in a child, and wait for all that there is
	stepExec                  // execute a program, if it is there
	stepNone                  // there was none
)

// Report is what a child tells.
type Report struct {
	Kind  ReportKind
	Step  int32 // which one, for [Script.Name]
	Value int32
}

// ReportKind is what a Report tells.
type ReportKind int32

// What a child tells.
const (
	Failed  ReportKind = iota + 1 // a step has failed; Value is the errno
	Reached                       // the child is at a step of [Script.Reach]
	Ended                         // the child of a step of [Script.Fork] has ended; Value is its wait status
)

// ReportSize is how many bytes a report takes.
const ReportSize = int(unsafe.Sizeof(Report{}))

// Bytes is the report as it is read.
func (r *Report) Bytes() *[ReportSize]byte { return (*[ReportSize]byte)(unsafe.Pointer(r)) }

// NewScript begins a script whose child reports to a descriptor, which its
// program does not get if it is close-on-exec.
func NewScript(report int) *Script { return &Script{report: uintptr(report)} }

// Name is what a step was called.
func (s *Script) Name(number int32) string {
	if number < 0 || int(number) >= len(s.names) {
		return ""
	}
	return s.names[number]
}

// Call adds a system call. An argument is an int, a uintptr, a string or nil.
func (s *Script) Call(name string, nr int, args ...any) { s.add(stepCall, name, nr, 0, args) }

// Want adds one that must give a certain result.
func (s *Script) Want(name string, want int, nr int, args ...any) {
	s.add(stepWant, name, nr, uintptr(want), args)
}

// Try adds one that may fail.
func (s *Script) Try(nr int, args ...any) { s.add(stepTry, "", nr, 0, args) }

// Reach has the child tell that it has come here, and wait until a byte can be
// read from a descriptor.
func (s *Script) Reach(name string, gate int) {
	s.add(stepReach, name, 0, 0, nil)
	byteRead := new([1]byte)
	s.keep = append(s.keep, byteRead)
	s.Want("wait", 1, unix.SYS_READ, gate, uintptr(unsafe.Pointer(byteRead)), 1)
}

// Fork has the child make another, with CLONE_* flags, that goes on with the
// script. The first one waits for it and for whatever it is left with, tells, where it
// should, how its child ended, and ends when it has no more.
func (s *Script) Fork(flags uintptr, tell bool) {
	want := 0
	if tell {
		want = 1
	}
	s.add(stepFork, "fork", unix.SYS_CLONE, uintptr(want), []any{flags | uintptr(syscall.SIGCHLD)})
}

// Exec ends the script with a program: the first of the paths that there is.
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
	s.add(stepNone, "execute", 0, 0, nil)
}

// ExecStep says whether a step is that of the program.
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
		default:
			s.err = errors.Join(s.err, syscall.EINVAL)
		}
	}
	s.steps, s.names = append(s.steps, c), append(s.names, name)
}

// Start clones the child, with CLONE_* flags, from the calling thread. The caller
// waits for it.
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
