package confine

import "golang.org/x/sys/unix"

const (
	auditArch    = unix.AUDIT_ARCH_AARCH64
	sysFchmodat2 = 452
)

var archPrologue []instruction

var archDenyList = []rule{
	{calls: []uint32{unix.SYS_KEXEC_FILE_LOAD}, errno: eperm, everyone: true, why: "the host's business"},
}
