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
	"github.com/paddock-dev/paddock/confine"
)

// seen is what the kernel says about the agent in a container.
type seen struct {
	uid        string
	groups     []string // beside its own, as this host counts them
	namespaces []string // that it does not share with this process
}

// readProcess reads from the kernel how the agent is confined. It returns nil if the
// process is not visible from here, because the engine is on another machine or in a
// virtual one. A pid of that machine may be another process here.
func (b *build) readProcess(pid int) (*seen, error) {
	status, err := state.ReadStatus(fmt.Sprintf("/proc/%d/status", pid))
	cmdline, cerr := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	name, _, _ := strings.Cut(string(cmdline), "\x00")
	inside := strings.Fields(status["NSpid"])
	if err != nil || cerr != nil || pid <= 1 || name != b.agent || len(inside) < 2 || inside[len(inside)-1] != "1" {
		return nil, nil //nolint:nilnil,nilerr // not seeing it is not an error
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
	ns, _ := state.OwnNamespaces(pid) // it takes root to read them
	for _, must := range []string{"mount", "pid", "ipc"} {
		if len(ns) > 0 && !slices.Contains(ns, must) && !b.loosened(must) {
			return nil, fail("its " + must + " namespace is the host's")
		}
	}
	uid, _, _ := strings.Cut(status["Uid"], "\t")
	gids := strings.Fields(status["Gid"])
	groups := slices.DeleteFunc(strings.Fields(status["Groups"]), func(g string) bool { return slices.Contains(gids, g) })
	return &seen{uid: uid, groups: groups, namespaces: ns}, nil
}

// readOnlyMounts checks that nothing writable is mounted at or below a mount that must
// be read-only, unless the user asked for it.
func (b *build) readOnlyMounts(pid int) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil || b.loosened("mount", "volume", "v") {
		return nil // then only the engine's word counts
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

// sameFiles checks that the mounted files are those that were checked. In between,
// others may have put something else at their paths.
func (b *build) sameFiles(pid int) error {
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil || b.loosened("mount", "volume", "v") {
		return nil // it takes root to read them
	}
	defer unix.Close(root)
	for _, m := range b.mounts {
		if m.kind != mountBind || m.file == (confine.FileID{}) {
			continue
		}
		fd, err := unix.Openat2(root, m.target, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
		if err != nil {
			return fmt.Errorf("cannot look at %s: %w", m.target, err)
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		_ = unix.Close(fd)
		if err != nil || m.file != (confine.FileID{Dev: uint64(st.Dev), Ino: st.Ino}) { //nolint:unconvert // its type differs between platforms
			return fmt.Errorf("%s is not what was at %s before", m.target, m.source)
		}
	}
	return nil
}

// deepest returns the innermost mount of the container in which a path lies.
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
