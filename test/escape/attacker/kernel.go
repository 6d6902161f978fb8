//go:build linux

package main

import (
	"errors"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Attacks on what the kernel does not keep apart, or does for its owner alone.
var _ = register(map[string]attack{
	"io_uring":      raw(unix.SYS_IO_URING_SETUP, 1, address(&zeroes[0])),
	"bpf":           raw(unix.SYS_BPF, unix.BPF_PROG_GET_NEXT_ID, address(&zeroes[0]), 16),
	"perf":          perf,
	"userfaultfd":   raw(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1), // user mode only
	"syslog":        raw(unix.SYS_SYSLOG, 10, 0, 0),              // the size of the buffer
	"clock_settime": only(setClock),
	"sysrq":         only(systemRequest),
	"settimeofday":  raw(unix.SYS_SETTIMEOFDAY, 0, 0),
	"adjtimex":      raw(unix.SYS_ADJTIMEX, address(&zeroes[0])),
	"reboot":        raw(unix.SYS_REBOOT, unix.LINUX_REBOOT_MAGIC1, unix.LINUX_REBOOT_MAGIC2, unix.LINUX_REBOOT_CMD_CAD_OFF, 0),
	"swapon":        raw(unix.SYS_SWAPON, address(&zeroes[0]), 0),
	"swapoff":       raw(unix.SYS_SWAPOFF, address(&zeroes[0])),
	"acct":          raw(unix.SYS_ACCT, address(&zeroes[0])),
	"init_module":   raw(unix.SYS_INIT_MODULE, address(&zeroes[0]), 0, address(&zeroes[0])),
	"kexec":         raw(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0),
	"quotactl":      raw(unix.SYS_QUOTACTL, 0x80000100, 0, 0, 0), // Q_SYNC of everything
	"fanotify":      raw(unix.SYS_FANOTIFY_INIT, unix.FAN_CLOEXEC|unix.FAN_REPORT_FID, 0),
	"vhangup":       raw(unix.SYS_VHANGUP),
	"delete_module": raw(unix.SYS_DELETE_MODULE, address(&zeroes[0]), unix.O_NONBLOCK),
	"finit_module":  raw(unix.SYS_FINIT_MODULE, ^uintptr(0), address(&zeroes[0]), 0),
	"key-search":    keySearch,
	"key-list":      keyList,
	"key-add":       keyAdd,
	"key-request":   keyRequest,
	"shm":           shm,
	"sem":           sem,
	"mq":            mq,
})

// zeroes is an empty name, an empty structure, whatever a call wants.
var zeroes [4096]byte

func address(p *byte) uintptr { return uintptr(unsafe.Pointer(p)) }

func perf([]string) (string, error) {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK,
		Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return "", err
	}
	return "", unix.Close(fd)
}

// setClock sets the time that it is.
func setClock([]string) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return err
	}
	return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
}

// systemRequest asks the kernel for help, which it prints on its console.
func systemRequest([]string) error {
	return os.WriteFile("/proc/sysrq-trigger", []byte("h"), 0)
}

// keySearch looks for the host's key in the user's and the session's keyring.
func keySearch(args []string) (string, error) {
	var last error
	for _, ring := range []int{unix.KEY_SPEC_USER_KEYRING, unix.KEY_SPEC_SESSION_KEYRING, unix.KEY_SPEC_USER_SESSION_KEYRING} {
		if _, last = unix.KeyctlSearch(ring, "user", args[0], 0); last == nil {
			return "found", nil
		}
	}
	return "", last
}

func keyList(args []string) (string, error) {
	text, err := os.ReadFile("/proc/keys")
	if err != nil {
		return "", err
	}
	if !strings.Contains(string(text), args[0]) {
		return "", errors.New("not listed")
	}
	return "listed", nil
}

func keyAdd([]string) (string, error) {
	_, err := unix.AddKey("user", "attacker", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
	return "", err
}

// keyRequest asks for a key by name, which searches every keyring of the caller.
func keyRequest(args []string) (string, error) {
	_, err := unix.RequestKey("user", args[0], "", 0)
	return "found", err
}

// sem finds semaphores by key.
func sem(args []string) (string, error) {
	_, err := call(unix.SYS_SEMGET, uintptr(number(args[0])), 1, 0)
	return "found", err
}

func shm(args []string) (string, error) {
	id, err := unix.SysvShmGet(number(args[0]), 0, 0)
	if err != nil {
		return "", err
	}
	mem, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return "", err
	}
	return "attached", unix.SysvShmDetach(mem)
}

func mq(args []string) (string, error) {
	fd, err := call(unix.SYS_MQ_OPEN, cstring(args[0]), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0)
	if err != nil {
		return "", err
	}
	return "opened", unix.Close(int(fd))
}
