package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Filters of a plan. Each is complete; kernels let filters only be added, and
// the strictest answer counts.
const (
	FilterAgent    = "agent"    // for every thread of the agent, the same under every profile
	FilterCommands = "commands" // on top, for the thread that commands come from
)

// Profiles of the commands' filter.
const (
	ProfileDefault = "default" // what work needs: builds, tests, interpreters, servers
	ProfileStrict  = "strict"  // less of the kernel: no netlink, shared memory of System V, programs without a file
	ProfileDebug   = "debug"   // default, and looking into one's own processes: gdb, strace, delve
)

// Profiles names the profiles, the usual one first.
func Profiles() []string { return []string{ProfileDefault, ProfileStrict, ProfileDebug} }

// FilterOptions shape the commands' filter. The zero value is the default profile.
type FilterOptions struct {
	Profile string // "" is ProfileDefault
	// NoNamespaces is for commands that share the host's namespaces: what
	// reaches the host's processes, queues and services by name is denied.
	// Signals are left to Landlock's scope.
	NoNamespaces bool
	// NoNetwork is for commands that are to have no network, and whose network
	// namespace is the host's: only unix sockets can be made.
	NoNetwork bool
	// Notify has a supervisor told of what is denied with EPERM or EACCES, which
	// programs do not ask for in passing (seccomp_unotify(2)).
	Notify bool
	// Grouped is for commands that begin in control groups: the thread that they
	// are cloned from needs clone3(2), so each must be denied it by NoClone3.
	Grouped bool
	// Listed is for commands that may execute listed programs alone: a file
	// without a name, which Landlock does not see, would be one more.
	Listed bool
}

// scope is whom the rules of a filter bind.
func (o FilterOptions) scope(name string) (scope, error) {
	switch name {
	case FilterAgent:
		return forAgent, nil
	case FilterCommands:
	default:
		return 0, fmt.Errorf("there is no filter %q", name)
	}
	s, ok := map[string]scope{"": forDefault, ProfileDefault: forDefault, ProfileStrict: forStrict, ProfileDebug: forDebug}[o.Profile]
	if !ok {
		return 0, fmt.Errorf("there is no seccomp profile %q", o.Profile)
	}
	if o.NoNamespaces {
		s |= forNoNamespaces
	}
	if o.NoNetwork {
		s |= forNoNetwork
	}
	if o.Grouped {
		s |= forGrouped
	}
	if o.Listed {
		s |= forListed
	}
	if o.Notify {
		s |= forNotified
	}
	return s, nil
}

// Filter compiles one of the named filters for this architecture. The options
// matter to FilterCommands alone.
func Filter(name string, o FilterOptions) ([]byte, error) {
	s, err := o.scope(name)
	if err != nil {
		return nil, err
	}
	a, ok := archs[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("there is no seccomp filter for %s", runtime.GOARCH)
	}
	return encode(a.compile(s)), nil
}

// arch is an architecture that filters can be compiled for.
type arch struct {
	audit  uint32 // its value in seccomp_data
	number func(call) int
}

var archs = map[string]arch{
	"amd64": {unix.AUDIT_ARCH_X86_64, func(c call) int { return c.amd64 }},
	"arm64": {unix.AUDIT_ARCH_AARCH64, func(c call) int { return c.arm64 }},
}

// compile makes the program of the rules that bind somebody in who.
func (a arch) compile(who scope) []instruction {
	prog := []instruction{
		{bpfLoad, 0, 0, offArch},
		{bpfJEQ, 1, 0, a.audit},
		{bpfRet, 0, 0, retErrno | uint32(unix.ENOSYS)}, // another architecture's numbers mean other calls
		{bpfLoad, 0, 0, offNr},
	}
	return append(prog, search(a.spans(who))...)
}

// spans gives every number its answer. x32, whose numbers have a bit of their
// own and share this architecture's value, lies in the last one.
func (a arch) spans(who scope) []span {
	clauses := map[string][]clause{}
	for _, r := range rules() {
		if !r.binds(who) {
			continue
		}
		for _, name := range r.calls {
			clauses[name] = append(clauses[name], clause{r.when, uint16(r.errno), who&forNotified != 0 && r.tells()})
		}
	}
	unknown, allowed := compileCall([]clause{{errno: uint16(unix.ENOSYS)}}), compileCall(nil)
	bodies := make([][]instruction, highest+2) // the last for whatever comes after
	for _, c := range calls {
		if nr := a.number(c); nr == none {
			continue
		} else if denied := clauses[c.name]; denied != nil {
			bodies[nr] = compileCall(denied)
		} else {
			bodies[nr] = allowed
		}
	}
	var all []span
	for nr, b := range bodies {
		if b == nil {
			b = unknown
		}
		if nr == 0 || !slices.Equal(all[len(all)-1].compileCall, b) {
			all = append(all, span{uint32(nr), b})
		}
	}
	return all
}

// loadFilter installs a filter on the calling thread, or on all threads of
// the process at once (SECCOMP_FILTER_FLAG_TSYNC), which gives them
// no_new_privs too.
func loadFilter(data []byte, allThreads bool) error {
	var flags uintptr
	if allThreads {
		flags = unix.SECCOMP_FILTER_FLAG_TSYNC
	}
	tid, err := seccomp(data, flags)
	if err == nil && tid != 0 { // TSYNC names a thread that could not be synchronised
		err = errors.New("a thread could not be put behind the filter")
	}
	return err
}

// loadWatched installs a filter on the calling thread and returns the
// descriptor on which a supervisor is told of what it denies. There can be one
// supervisor: where another is there already, above this process, nobody is
// told, and the descriptor is 0.
func loadWatched(data []byte) (int, error) {
	fd, err := seccomp(data, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	if !errors.Is(err, unix.EBUSY) {
		return fd, err
	}
	_, err = seccomp(unwatched(data), 0)
	return 0, err
}

func seccomp(data []byte, flags uintptr) (int, error) {
	if len(data) == 0 || len(data)%instructionSize != 0 {
		return 0, errors.New("not a filter program")
	}
	filters := make([]unix.SockFilter, len(data)/instructionSize)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&filters[0])), len(data)), data)
	prog := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	n, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filters)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// unwatched is the same program without a supervisor: what it would tell of
// fails at once.
func unwatched(data []byte) []byte {
	plain := slices.Clone(data)
	for at := 0; at < len(plain); at += instructionSize {
		verdict := plain[at+4 : at+instructionSize]
		if v := binary.NativeEndian.Uint32(verdict); binary.NativeEndian.Uint16(plain[at:]) == bpfRet && v&retActions == retNotify {
			binary.NativeEndian.PutUint32(verdict, retErrno|v&^retActions)
		}
	}
	return plain
}

// NoClone3 is the filter of commands that are cloned from a thread which needs
// clone3(2) itself, to put them into their control groups.
func NoClone3() []unix.SockFilter {
	return []unix.SockFilter{
		{Code: bpfLoad, K: offNr},
		{Code: bpfJEQ, Jf: 1, K: unix.SYS_CLONE3},
		{Code: bpfRet, K: retErrno | uint32(unix.ENOSYS)},
		{Code: bpfRet, K: retAllow},
	}
}
