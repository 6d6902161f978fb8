//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/clone"
)

// The abilities that the probe reports on.
const (
	canFull     = "level full"
	canLandlock = "level landlock"
	canNetwork  = "network host"
	canMemory   = "limit memory"
	canCPUs     = "limit cpus"
	canPids     = "limit processes, as a whole"
)

// Probe tries each feature and reports what works here.
func (b *Backend) Probe(context.Context) backend.Report {
	groups, userns := lookForHierarchy(), probeUserns()
	if errors.Is(groups.why, cgroup.ErrNoDelegate) {
		groups = lookForScope(groups)
	}
	r := backend.Report{Backend: b.Name(), Features: []backend.Feature{
		probeKernel(), userns,
		// A host may forbid one of these two and allow the other.
		inside(userns, func() backend.Feature {
			return probeNamespace("pid namespaces", unix.CLONE_NEWPID, "user/max_pid_namespaces", canFull, canNetwork)
		}),
		inside(userns, func() backend.Feature {
			return probeNamespace("network namespaces", unix.CLONE_NEWNET, "user/max_net_namespaces", canFull)
		}),
		inside(userns, probeProc),
		// For people who know other tools and look for this.
		{Name: "subordinate ids", OK: true, Detail: "not needed: one id is enough (/etc/subuid is not read)"},
		probeIdmap(), probeGroups(),
		probeSeccomp(), probeLandlock("landlock files", confine.LandlockFilesABI, canLandlock),
		probeLandlock("landlock scopes", confine.LandlockScopesABI, canLandlock, canNetwork),
		probeHierarchy(groups), probeController(groups, "memory", canMemory), probeController(groups, "cpu", canCPUs),
		probeController(groups, "pids", canPids), probeController(groups, "io"),
	}}
	r.Judge(canFull, canLandlock, canNetwork, canMemory, canCPUs, canPids)
	return r
}

func probeKernel() backend.Feature {
	f := backend.Feature{Name: "kernel", NeededBy: []string{canFull, canLandlock}, Remedy: "use Linux 5.12 or later"}
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

// verdict completes a feature. It drops the remedy of one that works.
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

// try mounts a file system in new namespaces and returns the kernel's answer. The child
// has no program to execute: if it gets that far, the attempt has succeeded.
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
	var errno syscall.Errno
	_ = errors.As(err, &errno)
	return errno
}

// probeUserns mounts inside a new user namespace, because some hosts let the clone
// succeed and then deny the capabilities.
func probeUserns() backend.Feature {
	f := backend.Feature{Name: "user namespaces", NeededBy: []string{canFull, canNetwork}}
	errno := try(unix.CLONE_NEWUSER|unix.CLONE_NEWNS, clone.Mount{Type: "tmpfs", Target: "/tmp"})
	if errno == 0 {
		return verdict(f, true, "made one and mounted inside")
	}
	f.Remedy = cloneHint(errno)
	if errno == syscall.EACCES {
		f.Remedy = apparmorHint()
	}
	return verdict(f, false, errno.Error())
}

func probeProc() backend.Feature {
	f := backend.Feature{Name: "fresh /proc", NeededBy: []string{canFull, canNetwork}, Remedy: procHint}
	errno := try(unix.CLONE_NEWUSER|unix.CLONE_NEWNS|unix.CLONE_NEWPID, clone.Mount{Type: "proc", Target: "/proc"})
	if errno == 0 {
		return verdict(f, true, "mounted one in a new pid namespace")
	}
	return verdict(f, false, errno.Error())
}

func probeSeccomp() backend.Feature {
	f := backend.Feature{Name: "seccomp filters", NeededBy: []string{canFull, canLandlock, canNetwork}, Remedy: "use a kernel with CONFIG_SECCOMP_FILTER"}
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
	m := hostpath.Mount{Source: dir}
	if err := m.Locate(dir); err != nil {
		return verdict(f, false, err.Error())
	}
	var helpers sync.WaitGroup
	defer helpers.Wait()
	mount, err := idmapMount(m, identity{uid: state.LentFirst, gid: state.LentFirst}, &helpers)
	if err != nil {
		f.Remedy = "use a workspace on ext4, xfs, btrfs or tmpfs, or one that an ordinary user owns"
		return verdict(f, false, dir+": "+err.Error())
	}
	_ = mount.Close()
	return verdict(f, true, "mapped "+dir)
}

// inside runs a probe that needs a user namespace. If there can be none, the probe's
// own remedy would not help and is dropped.
func inside(userns backend.Feature, probe func() backend.Feature) backend.Feature {
	f := probe()
	if !userns.OK {
		f.Remedy = ""
	}
	return f
}

func probeNamespace(name string, flag uintptr, setting string, needed ...string) backend.Feature {
	f := backend.Feature{Name: name, NeededBy: needed}
	errno := try(unix.CLONE_NEWUSER|unix.CLONE_NEWNS|flag, clone.Mount{Type: "tmpfs", Target: "/tmp"})
	if errno == 0 {
		return verdict(f, true, "made one")
	}
	if sysctl(setting) == "0" {
		f.Remedy = "sysctl -w " + strings.ReplaceAll(setting, "/", ".") + "=15000"
	}
	return verdict(f, false, errno.Error())
}

func probeLandlock(name string, least int, needed ...string) backend.Feature {
	abi := confine.LandlockABI()
	f := backend.Feature{Name: name, NeededBy: needed, Detail: fmt.Sprintf("ABI %d, of which %d is needed", abi, least)}
	switch {
	case abi == 0:
		f.Remedy = "add landlock to the kernel's list of security modules (lsm=landlock,… on its command line; see /sys/kernel/security/lsm)"
	case least == confine.LandlockScopesABI:
		f.Remedy = "use Linux 6.12 or later"
	default:
		f.Remedy = "use Linux 5.19 or later"
	}
	return verdict(f, abi >= least, "")
}

// probeHierarchy reports where control groups can be made.
func probeHierarchy(h hierarchy) backend.Feature {
	f := backend.Feature{Name: "control groups", NeededBy: []string{canMemory, canCPUs, canPids}}
	if h.why != nil {
		f.Remedy = cgroupHint(h.why)
		return verdict(f, false, h.why.Error())
	}
	return verdict(f, true, h.place.Dir)
}

func probeController(h hierarchy, controller string, needed ...string) backend.Feature {
	f := backend.Feature{Name: "controller " + controller, NeededBy: needed}
	for _, m := range h.place.Missing {
		if m.Controller == controller {
			if m.Remedy != cgroupHint(h.why) { // probeHierarchy shows that one
				f.Remedy = m.Remedy
			}
			return verdict(f, false, m.Why)
		}
	}
	return verdict(f, h.has(controller), "delegated by "+h.place.Dir)
}

// probeGroups reports the supplementary groups that an unprivileged user namespace
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
