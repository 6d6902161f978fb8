package confine

import "golang.org/x/sys/unix"

const (
	auditArch    = unix.AUDIT_ARCH_X86_64
	sysFchmodat2 = 452
	x32Bit       = 0x40000000
)

// archPrologue refuses the x32 numbers, which share this architecture's value
// in seccomp_data.
var archPrologue = []instruction{
	{bpfJGE, 0, 1, x32Bit},
	{bpfRet, 0, 0, retErrno | uint32(enosys)},
}

// archDenyList holds the calls that newer architectures no longer have.
var archDenyList = []rule{
	{calls: []uint32{unix.SYS_CHMOD, unix.SYS_CREAT, unix.SYS_MKDIR, unix.SYS_MKNOD}, when: []cond{{1, anyBit, setID}}, errno: eperm, why: "set-id files"},
	{calls: []uint32{unix.SYS_OPEN}, when: []cond{{1, anyBit, unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY}, {2, anyBit, setID}}, errno: eperm, why: "set-id files"},
	{calls: []uint32{unix.SYS_KEXEC_FILE_LOAD, unix.SYS_IOPL, unix.SYS_IOPERM}, errno: eperm, everyone: true, why: "the host's business"},
}
