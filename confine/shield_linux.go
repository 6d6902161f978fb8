package confine

import (
	"runtime"

	"golang.org/x/sys/unix"
)

const fioSetOwn = 0x8901 // FIOSETOWN

// shieldFilter keeps commands from signalling one process. Landlock's scope
// keeps them from the processes outside of their domain, but the thread that
// they are cloned from is inside of it, and SIGKILL to a thread ends its whole
// process.
//
// By pidfd the thread is reached with a descriptor of the thread itself alone
// (PIDFD_THREAD, the value of O_EXCL), which nobody gets. The owner of a file
// gets a signal of the opener's choice when there is something to read
// (F_SETSIG), so nobody makes the thread an owner either.
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
			{when: []cond{is(1, "command", value{unix.F_SETOWN_EX, "F_SETOWN_EX"})}, errno: uint16(unix.EPERM)}, // its owner is behind a pointer
		}},
		{unix.SYS_IOCTL, []clause{{when: []cond{is(1, "request", value{fioSetOwn, "FIOSETOWN"}, value{unix.SIOCSPGRP, "SIOCSPGRP"})}, errno: uint16(unix.EPERM)}}},
	} {
		b := compileCall(c.clauses)
		prog = append(append(prog, instruction{bpfJEQ, 0, uint8(len(b)), c.nr}), b...)
	}
	return encode(append(prog, instruction{bpfRet, 0, 0, retAllow}))
}
