package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
)

// seen is what the kernel says of the agent in a container.
type seen struct {
	uid, gid   string
	namespaces []string // that are not this process's own
}

// lookAtProcess reads from the kernel how the agent is confined. It returns
// nil where the process is not visible from here: the engine is on another
// machine, or in a virtual one.
func (b *build) lookAtProcess(pid int) (*seen, error) {
	status, err := state.ReadStatus(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || pid <= 1 || !b.isAgent(pid, status) {
		return nil, nil //nolint:nilnil,nilerr // nothing is known of it, which is no error
	}
	fail := func(cause string) error {
		return &backend.StartError{Stage: "verify", Op: "look at", Object: b.name(), Cause: cause, Hint: "the engine says otherwise: its runtime may be at fault"}
	}
	switch {
	case status["NoNewPrivs"] != "1" && !b.loosened("security-opt"):
		return nil, fail("no_new_privs is not set")
	case status["Seccomp"] != "2" && !b.loosened("security-opt"):
		return nil, fail("there is no seccomp filter")
	case !zero(status["CapBnd"]) && !b.loosened("cap-add", "cap-drop"), !zero(status["CapPrm"]) && !b.loosened("cap-add", "cap-drop"):
		return nil, fail("it has capabilities: " + status["CapPrm"] + ", at most " + status["CapBnd"])
	}
	if err := b.readOnlyMounts(pid); err != nil {
		return nil, fail(err.Error())
	}
	if err := b.sameFiles(pid); err != nil {
		return nil, fail(err.Error())
	}
	ns := namespaces(pid)
	for _, must := range []string{"mount", "pid", "ipc"} {
		if len(ns) > 0 && !slices.Contains(ns, must) && !b.loosened(must) {
			return nil, fail("its " + must + " namespace is the host's")
		}
	}
	return &seen{uid: first(status["Uid"]), gid: first(status["Gid"]), namespaces: ns}, nil
}

// isAgent reports whether a process is the agent of this container: a pid may be
// another machine's.
func (b *build) isAgent(pid int, status map[string]string) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	name, _, _ := strings.Cut(string(cmdline), "\x00")
	inside := strings.Fields(status["NSpid"])
	return err == nil && name == b.agent && len(inside) > 1 && inside[len(inside)-1] == "1"
}

// namespaces are those that a process does not share with this one.
func namespaces(pid int) []string {
	var own []string
	for _, ns := range [][2]string{{"user", "user"}, {"mount", "mnt"}, {"pid", "pid"}, {"ipc", "ipc"}, {"uts", "uts"}, {"net", "net"}, {"cgroup", "cgroup"}} {
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns[1]))
		ours, err2 := os.Readlink("/proc/self/ns/" + ns[1])
		if err == nil && err2 == nil && theirs != ours {
			own = append(own, ns[0])
		}
	}
	return own
}

// readOnlyMounts checks that nothing writable is mounted at or below a place
// that is to be read-only, unless that was asked for.
func (b *build) readOnlyMounts(pid int) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil || b.loosened("mount", "volume", "v") {
		return nil // the engine's own word stays
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 6 {
			continue
		}
		at, writable := hostpath.Unescape(f[4]), !slices.Contains(strings.Split(f[5], ","), "ro")
		if m := b.deepest(at); writable && m != nil && m.readOnly {
			return fmt.Errorf("%s is writable, in %s", at, m.target)
		}
	}
	return nil
}

// sameFiles checks that what is mounted is what was looked at: between that
// look and the engine's, others may have put something else under its name.
func (b *build) sameFiles(pid int) error {
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil || b.loosened("mount", "volume", "v") {
		return nil // it takes root to look
	}
	defer unix.Close(root)
	for _, m := range b.mounts {
		if m.kind != mountBind || m.file == (fileID{}) {
			continue
		}
		fd, err := unix.Openat2(root, m.target, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
		if err != nil {
			return fmt.Errorf("%s cannot be looked at: %w", m.target, err)
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		_ = unix.Close(fd)
		if err != nil || m.file != (fileID{uint64(st.Dev), st.Ino}) { //nolint:unconvert // its type differs between platforms
			return fmt.Errorf("%s is not what was at %s before", m.target, m.source)
		}
	}
	return nil
}

// deepest returns the mount of the plan in which a path lies.
func (b *build) deepest(at string) *mount {
	var found *mount
	for i, m := range b.mounts {
		if _, ok := hostpath.Within(at, filepath.Clean(m.target)); ok && (found == nil || len(m.target) > len(found.target)) {
			found = &b.mounts[i]
		}
	}
	for _, t := range b.tmpfs {
		if _, ok := hostpath.Within(at, t.target); ok && found != nil && len(t.target) > len(found.target) {
			return nil
		}
	}
	return found
}

func zero(hex string) bool { return hex != "" && strings.Trim(hex, "0") == "" }

func first(fields string) string {
	f, _, _ := strings.Cut(fields, "\t")
	return f
}
