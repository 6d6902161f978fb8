//go:build linux

package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/clone"
)

// Probe tries each feature and says what works here.
func (b *Backend) Probe(context.Context) backend.Report {
	r := backend.Report{Backend: b.Name(), Usable: true, Features: []backend.Feature{
		probeKernel(), probeUserns(), probeProc(), probeSeccomp(), probeIdmap(), probeLandlock(), probeCgroup(), probeGroups(),
	}}
	for _, f := range r.Features {
		r.Usable = r.Usable && (f.OK || !f.Required)
	}
	return r
}

func probeKernel() backend.Feature {
	f := backend.Feature{Name: "kernel", Required: true, Remedy: "use Linux 5.12 or later"}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		f.Detail = err.Error()
		return f
	}
	f.Detail = unix.ByteSliceToString(u.Release[:])
	// mount_setattr(2) is the newest call that every sandbox needs.
	err := unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{})
	return verdict(f, err != unix.ENOSYS, "")
}

// verdict completes a feature: a remedy is shown where it is needed only.
func verdict(f backend.Feature, ok bool, detail string) backend.Feature {
	f.OK = ok
	if ok {
		f.Remedy = ""
	}
	if detail != "" {
		f.Detail = detail
	}
	return f
}

// try mounts a file system in new namespaces, and gives the kernel's answer.
// The child is given nothing to execute: getting as far as that is success.
func try(flags uintptr, mount clone.Mount) syscall.Errno {
	own := func(id int) []confine.IDMap { return []confine.IDMap{{Inside: insideID, Host: uint32(id), Count: 1}} }
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, err := clone.Run(&clone.Command{Path: "/", Argv: []string{"probe"}, Mount: &mount}, flags, func(pid int) error {
		if err := writeProc(pid, "setgroups", []byte("deny")); err != nil {
			return err
		}
		return writeMaps(pid, own(os.Geteuid()), own(os.Getegid()))
	})
	var failed *clone.Error
	if errors.As(err, &failed) && failed.Stage == clone.StageExec {
		return 0
	}
	errno, _ := errnoOf(err)
	return syscall.Errno(errno)
}

// probeUserns mounts inside a new user namespace: some hosts let the clone
// succeed and then deny the capabilities.
func probeUserns() backend.Feature {
	f := backend.Feature{Name: "user namespaces", Required: true}
	errno := try(unix.CLONE_NEWUSER|unix.CLONE_NEWNS, clone.Mount{Type: "tmpfs", Target: "/tmp"})
	if errno == 0 {
		return verdict(f, true, "made one and mounted inside")
	}
	f.Remedy = cloneHint(errno)
	if errno == syscall.EACCES {
		f.Remedy = apparmorHint
	}
	return verdict(f, false, errno.Error())
}

func probeProc() backend.Feature {
	f := backend.Feature{Name: "fresh /proc", Required: true, Remedy: procHint}
	errno := try(unix.CLONE_NEWUSER|unix.CLONE_NEWNS|unix.CLONE_NEWPID, clone.Mount{Type: "proc", Target: "/proc"})
	if errno == 0 {
		return verdict(f, true, "mounted one in a new pid namespace")
	}
	return verdict(f, false, errno.Error())
}

func probeSeccomp() backend.Feature {
	f := backend.Feature{Name: "seccomp filters", Required: true, Remedy: "use a kernel with CONFIG_SECCOMP_FILTER"}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		return verdict(f, false, errno.Error())
	}
	return verdict(f, true, "filter actions available")
}

func probeIdmap() backend.Feature {
	f := backend.Feature{Name: "id-mapped mounts"}
	if initial, err := inInitialUserns(); os.Geteuid() != 0 || err != nil || !initial {
		return verdict(f, true, "not needed: the caller's own id is used")
	}
	dir, err := os.Getwd()
	if err != nil {
		return verdict(f, false, err.Error())
	}
	m := userMount{source: dir}
	if err := m.locate(dir); err != nil {
		return verdict(f, false, err.Error())
	}
	mount, err := idmapMount(m, identity{uid: lentFirst, gid: lentFirst})
	if err != nil {
		f.Remedy = "use a workspace on ext4, xfs, btrfs or tmpfs, or one that an ordinary user owns"
		return verdict(f, false, dir+": "+err.Error())
	}
	_ = mount.Close()
	return verdict(f, true, "mapped "+dir)
}

func probeLandlock() backend.Feature {
	abi := confine.LandlockABI()
	f := backend.Feature{Name: "landlock", Remedy: "needed for --network host: Linux 6.12 or later, with landlock in the lsm= list"}
	return verdict(f, abi >= confine.LandlockScopesABI, "ABI "+strconv.Itoa(abi))
}

// probeCgroup looks for the cgroup2 mount wherever it is, and for what can be
// limited there.
func probeCgroup() backend.Feature {
	f := backend.Feature{Name: "cgroup2", Remedy: "mount cgroup2, with the memory, cpu and pids controllers not bound to cgroup v1; this version does not use it yet"}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return verdict(f, false, err.Error())
	}
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !strings.HasPrefix(after, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		at := unescape(fields[4])
		controllers, err := os.ReadFile(at + "/cgroup.controllers")
		if err != nil {
			return verdict(f, false, err.Error())
		}
		names := string(bytes.TrimSpace(controllers))
		if names == "" {
			return verdict(f, false, at+", without controllers")
		}
		return verdict(f, true, fmt.Sprintf("%s (%s)", at, names))
	}
	return verdict(f, false, "not mounted")
}

// probeGroups tells an ordinary user what an unprivileged user namespace
// cannot drop.
func probeGroups() backend.Feature {
	f := backend.Feature{Name: "supplementary groups", Remedy: "files that these groups may use stay usable where the sandbox can see them; run paddock without them, or as root"}
	id, err := chooseIdentity()
	if err != nil {
		return verdict(f, false, err.Error())
	}
	if len(id.groups) == 0 {
		return verdict(f, true, "no supplementary group reaches the sandbox")
	}
	return verdict(f, false, fmt.Sprintf("groups %v cannot be dropped", id.groups))
}
