package confine

import (
	"testing"

	"golang.org/x/sys/unix"
)

var archCallNumbers = map[string]uint32{
	"chmod": unix.SYS_CHMOD, "creat": unix.SYS_CREAT, "mkdir": unix.SYS_MKDIR, "mknod": unix.SYS_MKNOD, "open": unix.SYS_OPEN,
	"iopl": unix.SYS_IOPL, "ioperm": unix.SYS_IOPERM,
}

// The numbers of x32 share the architecture's value in seccomp_data.
func TestX32(t *testing.T) {
	for _, name := range []string{FilterAgent, FilterCommands} {
		prog := decode(t, Filter(name))
		for _, nr := range []uint32{x32Bit, x32Bit | unix.SYS_GETPID, x32Bit | 547, ^uint32(0)} {
			if got, err := interpret(prog, auditArch, nr, [6]uint64{}); err != nil || got != retErrno|uint32(unix.ENOSYS) {
				t.Errorf("%s: call %#x: %#x, %v", name, nr, got, err)
			}
		}
	}
}

func TestOldCalls(t *testing.T) {
	prog := decode(t, Filter(FilterCommands))
	const perm = retErrno | uint32(unix.EPERM)
	for _, v := range []struct {
		name string
		nr   uint32
		args [6]uint64
		want uint32
	}{
		{"chmod 0755", unix.SYS_CHMOD, [6]uint64{0, 0o755}, retAllow},
		{"chmod set-uid", unix.SYS_CHMOD, [6]uint64{0, 0o4755}, perm},
		{"creat 0644", unix.SYS_CREAT, [6]uint64{0, 0o644}, retAllow},
		{"creat set-gid", unix.SYS_CREAT, [6]uint64{0, 0o2644}, perm},
		{"mkdir", unix.SYS_MKDIR, [6]uint64{0, 0o755}, retAllow},
		{"mkdir set-gid", unix.SYS_MKDIR, [6]uint64{0, 0o2755}, perm},
		{"open, creating", unix.SYS_OPEN, [6]uint64{0, unix.O_CREAT, 0o644}, retAllow},
		{"open, creating set-uid", unix.SYS_OPEN, [6]uint64{0, unix.O_CREAT, 0o4644}, perm},
		{"open, reading, any mode", unix.SYS_OPEN, [6]uint64{0, unix.O_RDONLY, 0o7777}, retAllow},
	} {
		if got, err := interpret(prog, auditArch, v.nr, v.args); err != nil || got != v.want {
			t.Errorf("%s: %#x, %v, want %#x", v.name, got, err, v.want)
		}
	}
}
