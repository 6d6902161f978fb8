package confine

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// childEnv makes the test's program filter itself and try the calls of trials.
const childEnv = "PADDOCK_CONFINE_TRIALS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(trials(dir))
	}
	os.Exit(m.Run())
}

// trial is one call and the answer that it must get behind the filter.
type trial struct {
	name string
	want unix.Errno
	do   func(dir string) error
}

func raw(nr uintptr, a ...uintptr) error {
	var args [6]uintptr
	copy(args[:], a)
	if _, _, errno := unix.RawSyscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5]); errno != 0 {
		return errno
	}
	return nil
}

func rawCall(nr uintptr, a ...uintptr) func(string) error {
	return func(string) error { return raw(nr, a...) }
}

func socket(family int) func(string) error {
	return func(string) error {
		fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
}

func inDir(do func(path string) error) func(string) error {
	return func(dir string) error {
		f, err := os.CreateTemp(dir, "")
		if err != nil {
			return err
		}
		return errors.Join(do(f.Name()), f.Close())
	}
}

var kernelTrials = []trial{
	{"open, creating 0644", 0, func(dir string) error { return os.WriteFile(filepath.Join(dir, "new"), nil, 0o644) }},
	{"open, creating set-uid", unix.EPERM, func(dir string) error {
		_, err := unix.Open(filepath.Join(dir, "bad"), unix.O_CREAT|unix.O_WRONLY, 0o4755)
		return err
	}},
	{"chmod 0755", 0, inDir(func(p string) error { return unix.Chmod(p, 0o755) })},
	{"chmod set-uid", unix.EPERM, inDir(func(p string) error { return unix.Chmod(p, 0o4755) })},
	{"chmod set-gid", unix.EPERM, inDir(func(p string) error { return unix.Chmod(p, 0o2755) })},
	{"mkdir", 0, func(dir string) error { return unix.Mkdir(filepath.Join(dir, "d"), 0o755) }},
	{"mkdir set-gid", unix.EPERM, func(dir string) error { return unix.Mkdir(filepath.Join(dir, "e"), 0o2755) }},
	{"mkfifo", 0, func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "f"), 0o644) }},
	{"run a program", 0, func(string) error { return exec.Command("/bin/true").Run() }},
	{"openat2", unix.ENOSYS, func(string) error {
		_, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH})
		return err
	}},
	{"clone3", unix.ENOSYS, rawCall(unix.SYS_CLONE3, 0, 0)},
	{"clone of a user namespace", unix.EPERM, rawCall(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD))},
	{"unshare of files", 0, rawCall(unix.SYS_UNSHARE, unix.CLONE_FILES)},
	{"unshare of a user namespace", unix.EPERM, rawCall(unix.SYS_UNSHARE, unix.CLONE_NEWUSER)},
	{"mount", unix.EPERM, rawCall(unix.SYS_MOUNT, 0, 0, 0, 0, 0)},
	{"umount2", unix.EPERM, rawCall(unix.SYS_UMOUNT2, 0, 0)},
	{"setns", unix.EPERM, rawCall(unix.SYS_SETNS, ^uintptr(0), 0)},
	{"chroot", unix.EPERM, rawCall(unix.SYS_CHROOT, 0)},
	{"socket AF_UNIX", 0, socket(unix.AF_UNIX)},
	{"socket AF_INET", 0, socket(unix.AF_INET)},
	{"socket AF_NETLINK", 0, socket(unix.AF_NETLINK)},
	{"socket AF_VSOCK", unix.EPERM, socket(unix.AF_VSOCK)},
	{"socket AF_PACKET", unix.EPERM, socket(unix.AF_PACKET)},
	{"socket AF_XDP", unix.EPERM, socket(unix.AF_XDP)},
	{"socket AF_ALG", unix.EAFNOSUPPORT, socket(unix.AF_ALG)},
	{"socket AF_BLUETOOTH", unix.EAFNOSUPPORT, socket(unix.AF_BLUETOOTH)},
	{"ioctl TCGETS of no terminal", unix.ENOTTY, inDir(func(p string) error {
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		return err
	})},
	{"ioctl TIOCSTI", unix.EPERM, rawCall(unix.SYS_IOCTL, 0, unix.TIOCSTI, 0)},
	{"prlimit of oneself", 0, func(string) error {
		var l unix.Rlimit
		return errors.Join(unix.Prlimit(0, unix.RLIMIT_CORE, nil, &l), unix.Prlimit(0, unix.RLIMIT_CORE, &l, nil))
	}},
	{"prlimit, looking at another", 0, func(string) error {
		var l unix.Rlimit
		return unix.Prlimit(os.Getppid(), unix.RLIMIT_CORE, nil, &l)
	}},
	{"prlimit of another", unix.EPERM, func(string) error {
		var l unix.Rlimit
		return unix.Prlimit(os.Getppid(), unix.RLIMIT_CORE, &l, nil)
	}},
	{"getrlimit", 0, func(string) error { var l unix.Rlimit; return unix.Getrlimit(unix.RLIMIT_NOFILE, &l) }},
	{"keyctl", unix.EPERM, rawCall(unix.SYS_KEYCTL, 0, 0)},
	{"bpf", unix.EPERM, rawCall(unix.SYS_BPF, 0, 0, 0)},
	{"perf_event_open", unix.EPERM, rawCall(unix.SYS_PERF_EVENT_OPEN, 0)},
	{"userfaultfd", unix.EPERM, rawCall(unix.SYS_USERFAULTFD, 0)},
	{"io_uring_setup", unix.ENOSYS, rawCall(unix.SYS_IO_URING_SETUP, 0, 0)},
	{"open_by_handle_at", unix.EPERM, rawCall(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0)},
	{"syslog", unix.EPERM, rawCall(unix.SYS_SYSLOG, 10, 0, 0)},
	{"memfd_create", 0, func(string) error {
		fd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}},
}

// trials filters the process and prints the errno of every trial.
func trials(dir string) int {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 2
	}
	if err := loadFilter(Filter(FilterCommands), true); err != nil {
		return 3
	}
	got := make([]int, len(kernelTrials))
	for i, tr := range kernelTrials {
		var errno unix.Errno
		switch err := tr.do(dir); {
		case err == nil:
		case errors.As(err, &errno):
			got[i] = int(errno)
		default:
			got[i] = -1
		}
	}
	if json.NewEncoder(os.Stdout).Encode(got) != nil {
		return 4
	}
	return 0
}

// TestKernelVerdicts asks the real kernel, in a process behind the filter.
func TestKernelVerdicts(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+t.TempDir())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got []int
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	for i, tr := range kernelTrials {
		if unix.Errno(got[i]) != tr.want {
			t.Errorf("%s: errno %d (%v), want %d", tr.name, got[i], unix.Errno(got[i]), int(tr.want))
		}
	}
}

// A filter that is none is refused before it reaches the kernel.
func TestLoadFilterRefuses(t *testing.T) {
	for _, data := range [][]byte{nil, {}, {1, 2, 3}, make([]byte, instructionSize+1)} {
		if err := loadFilter(data, false); err == nil {
			t.Errorf("a program of %d bytes was loaded", len(data))
		}
	}
	if size := unsafe.Sizeof(unix.SockFilter{}); size != instructionSize {
		t.Errorf("an instruction has %d bytes", size)
	}
}
