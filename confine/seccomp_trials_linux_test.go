package confine

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// trial is one call and the answers that it must get behind the filters.
type trial struct {
	name string
	want answers
	do   func(dir string) error
	// What keeps the answer without a filter from telling anything:
	root   bool // the kernel refuses it to an ordinary user with the same errno
	absent bool // the kernel may not have it, or says the same
	blind  bool // it would do harm
}

// answers are those under kernelOptions.
type answers [4]unix.Errno

var (
	kernelNames   = []string{"default", "strict", "debug", "landlock"}
	kernelOptions = []FilterOptions{{}, {Profile: ProfileStrict}, {Profile: ProfileDebug}, {NoNamespaces: true, NoNetwork: true}}
)

const (
	asEver = 0xffff // the same as without a filter
	perm   = unix.EPERM
	nosys  = unix.ENOSYS
)

func all(e unix.Errno) answers { return answers{e, e, e, e} }

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

func socket(family, kind, protocol int) func(string) error {
	return func(string) error {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
}

func socketpair(family, kind int) func(string) error {
	return func(string) error {
		fds, err := unix.Socketpair(family, kind|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = errors.Join(unix.Close(fds[0]), unix.Close(fds[1]))
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

// persona changes the personality for a moment.
func persona(p uintptr) func(string) error {
	return func(string) error {
		err := raw(unix.SYS_PERSONALITY, p)
		if err == nil {
			err = raw(unix.SYS_PERSONALITY, 0)
		}
		return err
	}
}

func trials() []trial {
	return slices.Concat(fileTrials, processTrials(), socketTrials, sharedTrials(), wholeCalls())
}

// harmless are arguments for calls that might do something with -1.
var harmless = map[string][]uintptr{
	"modify_ldt": {0, 0, 0},
	"msgget":     {0x7ffffff0, 0},
	"semget":     {0x7ffffff0, 0, 0},
	"shmget":     {0x7ffffff0, 0, 0},
}

// ownChecks are calls that the kernel refuses to whom it pleases, before it
// looks at their arguments.
var ownChecks = strings.Fields(`open_by_handle_at fanotify_init mount umount2 chroot pivot_root open_tree move_mount mount_setattr fsopen fsmount fspick
	process_mrelease vhangup init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl
	quotactl_fd syslog sethostname setdomainname settimeofday clock_settime adjtimex clock_adjtime iopl ioperm bpf perf_event_open userfaultfd
	migrate_pages move_pages process_madvise setns`)

// wholeCalls are all calls that a profile denies for any arguments.
func wholeCalls() (list []trial) {
	a := archs[runtime.GOARCH]
	for _, c := range calls {
		var want answers
		for i, o := range kernelOptions {
			s, err := o.scope(FilterCommands)
			if err != nil {
				panic(err)
			}
			want[i] = asEver
			for _, r := range rules() {
				if r.who&s != 0 && len(r.when) == 0 && slices.Contains(r.calls, c.name) {
					want[i] = r.errno
					break
				}
			}
		}
		nr := a.number(c)
		if nr == none || want == all(asEver) {
			continue
		}
		args, ok := harmless[c.name]
		if !ok {
			args = slices.Repeat([]uintptr{^uintptr(0)}, 6)
		}
		list = append(list, trial{name: c.name + ", whole", want: want, do: rawCall(uintptr(nr), args...),
			root: slices.Contains(ownChecks, c.name), absent: slices.Contains(want[:], nosys)})
	}
	return list
}
