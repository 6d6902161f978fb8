package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Filters of a plan. Each is complete. The kernel only allows adding filters,
// and the strictest verdict counts.
const (
	FilterAgent    = "agent"    // for every thread of the agent, the same under every profile
	FilterEgress   = "egress"   // for every thread of the egress process
	FilterCommands = "commands" // added for the thread from which commands are cloned
)

// Profiles of the commands' filter.
const (
	ProfileDefault = "default" // what usual work needs: builds, tests, interpreters, servers
	ProfileStrict  = "strict"  // less of the kernel: no netlink, no System V shared memory, no programs without a file
	ProfileDebug   = "debug"   // default, and inspecting one's own processes: gdb, strace, delve
)

// Profiles returns the names of the profiles, the default first.
func Profiles() []string { return []string{ProfileDefault, ProfileStrict, ProfileDebug} }

// FilterOptions shape the commands' filter. The zero value is the default profile.
type FilterOptions struct {
	Profile string // "" is ProfileDefault
	// NoNamespaces is for commands that share the host's namespaces: calls that
	// reach the host's processes, queues and services by name are denied.
	// Landlock's scope handles signals.
	NoNamespaces bool
	// NoNetwork is for commands without a network that share the host's network
	// namespace: they can make only Unix sockets.
	NoNetwork bool
	// Notify notifies a supervisor of calls denied with EPERM or EACCES, which
	// programs do not make routinely (seccomp_unotify(2)).
	Notify bool
	// Grouped is for commands that begin in control groups: the thread from which
	// they are cloned needs clone3(2), so NoClone3 must deny it to each command.
	Grouped bool
	// Listed is for commands that may execute only listed programs. It denies
	// files without a name, which would be programs that Landlock does not see.
	Listed bool
}

// scope returns the scope of a filter's rules.
func (o FilterOptions) scope(name string) (scope, error) {
	switch name {
	case FilterAgent:
		return forAgent, nil
	case FilterEgress:
		return forStrict | forNoNamespaces | forEgress, nil
	case FilterCommands:
	default:
		return 0, fmt.Errorf("unknown filter %q", name)
	}
	s, ok := map[string]scope{"": forDefault, ProfileDefault: forDefault, ProfileStrict: forStrict, ProfileDebug: forDebug}[o.Profile]
	if !ok {
		return 0, fmt.Errorf("unknown seccomp profile %q; want one of: %s", o.Profile, strings.Join(Profiles(), ", "))
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

// Filter compiles one of the named filters for this architecture. Only
// FilterCommands uses the options.
func Filter(name string, o FilterOptions) ([]byte, error) {
	s, err := o.scope(name)
	if err != nil {
		return nil, err
	}
	a, ok := archs[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("cannot filter system calls on %s", runtime.GOARCH)
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

// compile returns the program of all rules that apply to a scope.
func (a arch) compile(who scope) []instruction {
	prog := []instruction{
		{bpfLoad, 0, 0, offArch},
		{bpfJEQ, 1, 0, a.audit},
		{bpfRet, 0, 0, retErrno | uint32(unix.ENOSYS)}, // another architecture's numbers mean other calls
		{bpfLoad, 0, 0, offNr},
	}
	return append(prog, search(a.spans(who))...)
}

// spans returns the body for every call number. The calls of x32, which have
// the value of amd64 and an extra bit in their numbers, are in the last span.
func (a arch) spans(who scope) []span {
	clauses := map[string][]clause{}
	for _, r := range rules() {
		if !r.binds(who) {
			continue
		}
		// The supervisor is notified of refusals, but not of errors that programs
		// know how to handle. For a rule that binds the agent, too, the agent's own
		// filter decides first.
		notify := who&forNotified != 0 && r.who&forAgent == 0 && (r.errno == unix.EPERM || r.errno == unix.EACCES)
		for _, name := range r.calls {
			clauses[name] = append(clauses[name], clause{r.when, uint16(r.errno), notify})
		}
	}
	unknown, allowed := compileCall([]clause{{errno: uint16(unix.ENOSYS)}}), compileCall(nil)
	bodies := make([][]instruction, highest+2) // the last is for all higher numbers
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

// loadFilter installs a filter on the calling thread, or on all threads of the
// process at once (SECCOMP_FILTER_FLAG_TSYNC), which gives them no_new_privs,
// too.
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

// LoadFilter installs one of the named filters on every thread of the process, which must have
// no_new_privs.
func LoadFilter(name string) error {
	program, err := Filter(name, FilterOptions{})
	if err != nil {
		return err
	}
	return loadFilter(program, true)
}

// loadWatched installs a filter on the calling thread and returns the
// descriptor on which a supervisor is notified of denied calls. The kernel
// allows one supervisor: if one exists already, for a filter outside of this
// process, no supervisor is notified and the descriptor is 0.
func loadWatched(data []byte) (int, error) {
	fd, err := seccomp(data, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	if !errors.Is(err, unix.EBUSY) {
		return fd, err
	}
	// Without a supervisor, calls that it would be notified of fail at once.
	plain := slices.Clone(data)
	for at := 0; at < len(plain); at += instructionSize {
		verdict := plain[at+4 : at+instructionSize]
		if v := binary.NativeEndian.Uint32(verdict); binary.NativeEndian.Uint16(plain[at:]) == bpfRet && v&retActions == retNotify {
			binary.NativeEndian.PutUint32(verdict, retErrno|v&^retActions)
		}
	}
	_, err = seccomp(plain, 0)
	return 0, err
}

// seccomp installs a filter with seccomp(2) and returns its result.
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

// NoClone3 returns a filter that denies clone3(2). It is for commands cloned
// from a thread that needs clone3 to put them into their control groups.
func NoClone3() []unix.SockFilter {
	return []unix.SockFilter{
		{Code: bpfLoad, K: offNr},
		{Code: bpfJEQ, Jf: 1, K: unix.SYS_CLONE3},
		{Code: bpfRet, K: retErrno | uint32(unix.ENOSYS)},
		{Code: bpfRet, K: retAllow},
	}
}

const fioSetOwn = 0x8901 // FIOSETOWN

// shieldFilter returns a filter that keeps commands from signalling the agent.
// Landlock's scope keeps them from signalling processes outside of their
// domain, but the thread from which they are cloned is inside of it, and
// SIGKILL to a thread ends its whole process.
//
// A pidfd reaches the thread only if it was opened for the thread itself
// (PIDFD_THREAD, the value of O_EXCL), which is denied. The owner of a file gets
// a signal of the opener's choice when there is something to read (F_SETSIG),
// so making the thread an owner is denied, too.
func shieldFilter(pid, tid uint32) []byte {
	victims := []value{{pid, "the agent"}, {tid, "its spawner"}}
	first, second := clause{when: []cond{is(0, "pid", victims...)}, errno: uint16(unix.EPERM)}, clause{when: []cond{is(1, "tid", victims...)}, errno: uint16(unix.EPERM)}
	prog := []instruction{
		{bpfLoad, 0, 0, offArch},
		{bpfJEQ, 1, 0, archs[runtime.GOARCH].audit},
		{bpfRet, 0, 0, retErrno | uint32(unix.ENOSYS)},
		{bpfLoad, 0, 0, offNr},
	}
	for _, c := range []struct {
		nr      uint32
		clauses []clause
	}{
		{unix.SYS_KILL, []clause{first}},
		{unix.SYS_TKILL, []clause{first}},
		{unix.SYS_RT_SIGQUEUEINFO, []clause{first}},
		{unix.SYS_TGKILL, []clause{first, second}},
		{unix.SYS_RT_TGSIGQUEUEINFO, []clause{first, second}},
		{unix.SYS_PIDFD_OPEN, []clause{first, {when: []cond{has(1, "flags", value{unix.O_EXCL, "PIDFD_THREAD"})}, errno: uint16(unix.EPERM)}}},
		{unix.SYS_FCNTL, []clause{
			{when: []cond{is(1, "command", value{unix.F_SETOWN, "F_SETOWN"}), is(2, "owner", victims...)}, errno: uint16(unix.EPERM)},
			{when: []cond{is(1, "command", value{unix.F_SETOWN_EX, "F_SETOWN_EX"})}, errno: uint16(unix.EPERM)}, // the owner is behind a pointer
		}},
		{unix.SYS_IOCTL, []clause{{when: []cond{is(1, "request", value{fioSetOwn, "FIOSETOWN"}, value{unix.SIOCSPGRP, "SIOCSPGRP"})}, errno: uint16(unix.EPERM)}}},
	} {
		b := compileCall(c.clauses)
		prog = append(append(prog, instruction{bpfJEQ, 0, uint8(len(b)), c.nr}), b...)
	}
	return encode(append(prog, instruction{bpfRet, 0, 0, retAllow}))
}

// FilterOptions returns the options of this plan's filter for commands.
func (p *Plan) FilterOptions() FilterOptions {
	bare := len(p.Namespaces) == 0
	return FilterOptions{
		Profile:      p.Holds.Seccomp,
		NoNamespaces: bare,
		NoNetwork:    bare && p.Holds.Network == "none",
		Grouped:      p.Holds.Cgroup != "none",
		Notify:       true,
		Listed:       slices.Contains(strings.Fields(p.Holds.Landlock), "execute"),
	}
}

// Refusal says why a filter denies a call.
type Refusal struct {
	Call  string // its name
	Group string // of the rule
	Why   string
	Errno unix.Errno
}

// Explain returns why the commands' filter denies a call, if it does.
func (o FilterOptions) Explain(nr int, args [6]uint64) (r Refusal, ok bool) {
	who, err := o.scope(FilterCommands)
	if err != nil {
		return r, false
	}
	a := archs[runtime.GOARCH]
	i := slices.IndexFunc(calls[:], func(c call) bool { return a.number(c) == nr })
	if i < 0 {
		return r, false
	}
	for _, rule := range rules() {
		if !rule.binds(who) || !slices.Contains(rule.calls, calls[i].name) {
			continue
		}
		if !slices.ContainsFunc(rule.when, func(c cond) bool { return !c.holds(args) }) {
			return Refusal{calls[i].name, rule.group, rule.why, rule.errno}, true
		}
	}
	return r, false
}

// holds reports whether the condition holds for a call's arguments.
func (c cond) holds(args [6]uint64) bool {
	wide, low := args[c.arg], uint32(args[c.arg])
	if c.mask != 0 {
		low &= c.mask
	}
	listed := slices.ContainsFunc(c.values, func(v value) bool { return v.n == low })
	switch c.test {
	case anyBit:
		return low&c.bits() != 0
	case otherBit:
		return wide&^uint64(c.bits()) != 0
	case oneOf:
		return listed
	case noneOf:
		return !listed
	default:
		return wide != 0
	}
}

// Rule is one line of a filter, for people: the calls fail with the errno if
// the condition holds. The first rule that holds decides. Calls without a rule
// are allowed; unknown call numbers fail with ENOSYS.
type Rule struct {
	Group string   `json:"group"`
	Calls []string `json:"calls"`
	When  string   `json:"when,omitempty"` // "" for always
	Errno string   `json:"errno"`
	Agent bool     `json:"agent,omitempty"` // it also binds the agent's own threads
	Why   string   `json:"why"`
}

// Rules lists what a filter denies. It includes calls that this architecture
// does not have.
func Rules(name string, o FilterOptions) ([]Rule, error) {
	s, err := o.scope(name)
	if err != nil {
		return nil, err
	}
	var all []Rule
	for _, r := range rules() {
		if !r.binds(s) {
			continue
		}
		var when []string
		for _, c := range r.when {
			when = append(when, c.String())
		}
		all = append(all, Rule{Group: r.group, Calls: r.calls, When: strings.Join(when, ", and "),
			Errno: unix.ErrnoName(r.errno), Agent: r.who&forAgent != 0, Why: r.why})
	}
	return all, nil
}

// String returns the rule on one line.
func (r Rule) String() string {
	s := r.Group + ": " + strings.Join(r.Calls, " ")
	if r.When != "" {
		s += " where " + r.When
	}
	return s + ": " + r.Errno + " (" + r.Why + ")"
}
