package confine

import (
	"cmp"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// resetProcess resets inherited state to defaults: personality flags such as
// READ_IMPLIES_EXEC, core dumps, and passing over permissions. It keeps state
// that only restricts the caller's own children (niceness, CPU affinity, lower
// limits): a wall must not lift that. Signals, the umask and descriptors are
// reset at every clone.
//
// With tied, the kernel kills the process when the thread that made it ends: a
// stopped process would not notice that its lifeline broke.
func resetProcess(tied bool) error {
	if tied {
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return err
		}
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, 0, 0, 0); errno != 0 {
		return errno
	}
	if err := override(false); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}

// joinKeyring gives the calling thread a private anonymous session keyring
// (keyctl(2), KEYCTL_JOIN_SESSION_KEYRING without a name). It does nothing on a
// kernel without keyrings, or behind a filter that denies the call (EPERM: the
// kernel itself never returns it): there, commands cannot reach any key.
func joinKeyring() error {
	_, _, errno := unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	if errno != 0 && errno != unix.ENOSYS && errno != unix.EPERM {
		return errno
	}
	return nil
}

// writeSysctl writes a setting of the kernel, by its path below /proc/sys.
func writeSysctl(name, value string) error {
	f, err := os.OpenFile("/proc/sys/"+name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return cmp.Or(err, f.Close())
}

var capNumbers = map[string]uint{
	"dac_override": unix.CAP_DAC_OVERRIDE,
	"setpcap":      unix.CAP_SETPCAP,
	"net_admin":    unix.CAP_NET_ADMIN,
	"sys_admin":    unix.CAP_SYS_ADMIN,
	"sys_ptrace":   unix.CAP_SYS_PTRACE,
	"sys_resource": unix.CAP_SYS_RESOURCE,
}

// CapNumber returns the number of a capability that plans use, by its name
// without the prefix, in lower case.
func CapNumber(name string) (uint, bool) {
	n, ok := capNumbers[name]
	return n, ok
}

// override says whether the calling thread passes over the permissions of its files. That takes
// a capability (CAP_DAC_OVERRIDE).
func override(on bool) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var set [2]unix.CapUserData
	if err := unix.Capget(&header, &set[0]); err != nil {
		return err
	}
	const bit = 1 << unix.CAP_DAC_OVERRIDE
	if on == (set[0].Effective&bit != 0) {
		return nil
	}
	set[0].Effective ^= bit
	return unix.Capset(&header, &set[0])
}

// keepCaps empties the calling thread's bounding set, so that no program it
// starts can gain a capability, and reduces every thread of the process to the
// named capabilities. Lowering the permitted set empties the ambient one, too.
// proc is as in capset.
func keepCaps(proc int, names []string) error {
	var set [2]unix.CapUserData
	for _, name := range names {
		n, ok := CapNumber(name)
		if !ok {
			return fmt.Errorf("unknown capability %q", name)
		}
		set[n/32].Effective |= 1 << (n % 32)
	}
	set[0].Permitted, set[1].Permitted = set[0].Effective, set[1].Effective
	if err := emptyBounding(len(names) == 0); err != nil {
		return err
	}
	return capset(proc, set)
}

// emptyBounding empties the calling thread's bounding set. With unable, a
// process without the permission is not an error: no_new_privs keeps it from
// gaining capabilities.
func emptyBounding(unable bool) error {
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL || err == unix.EPERM && unable { // EINVAL: one past the last that this kernel knows
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// keepForSelf empties the calling thread's bounding and inheritable sets:
// programs that it or its children execute get none of its capabilities.
func keepForSelf() error {
	if err := emptyBounding(true); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var set [2]unix.CapUserData
	if err := unix.Capget(&header, &set[0]); err != nil {
		return err
	}
	set[0].Inheritable, set[1].Inheritable = 0, 0 // this empties the ambient set, too
	return unix.Capset(&header, &set[0])
}

// loopbackUp brings up lo, which is down in a new network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
