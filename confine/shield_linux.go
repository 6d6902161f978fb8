package confine

import "golang.org/x/sys/unix"

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
	prog := []instruction{
		{bpfLoad, 0, 0, offArch},
		{bpfJEQ, 1, 0, auditArch},
		{bpfRet, 0, 0, retErrno | uint32(enosys)},
		{bpfLoad, 0, 0, offNr},
	}
	for _, victim := range []uint32{pid, tid} {
		for _, nr := range []uint32{unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_TGKILL, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PIDFD_OPEN} {
			prog = append(prog, block(nr, []cond{{0, equal, victim}}, eperm)...)
		}
		for _, nr := range []uint32{unix.SYS_TGKILL, unix.SYS_RT_TGSIGQUEUEINFO} {
			prog = append(prog, block(nr, []cond{{1, equal, victim}}, eperm)...)
		}
		prog = append(prog, block(unix.SYS_FCNTL, []cond{{1, equal, unix.F_SETOWN}, {2, equal, victim}}, eperm)...)
	}
	// Here the owner is behind a pointer.
	prog = append(prog, block(unix.SYS_FCNTL, []cond{{1, equal, unix.F_SETOWN_EX}}, eperm)...)
	for _, request := range []uint32{fioSetOwn, unix.SIOCSPGRP} {
		prog = append(prog, block(unix.SYS_IOCTL, []cond{{1, equal, request}}, eperm)...)
	}
	prog = append(prog, block(unix.SYS_PIDFD_OPEN, []cond{{1, anyBit, unix.O_EXCL}}, eperm)...)
	return encode(append(prog, instruction{bpfRet, 0, 0, retAllow}))
}
