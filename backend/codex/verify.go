//go:build linux

package codex

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/piped"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/policy"
)

// verify reads from the kernel how the CLI has confined the running agent. The attempt has
// shown that the wall holds; verify checks that it is around this process.
func (w *wall) verify(_ context.Context, r piped.Running) (policy.Isolation, error) {
	i := w.promised()
	// No command runs yet, so nothing else below the keeper can have the agent's name.
	pid := piped.FindBelow(r.Keeper, filepath.Base(w.req.Agent))
	if pid == 0 {
		return i, unseen("find", errors.New("its process does not exist"))
	}
	status, err := state.ReadStatus(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return i, unseen("look at", err)
	}
	if status["NoNewPrivs"] != "1" || i.Network != networkHost && status["Seccomp"] != "2" {
		return i, unseen("look at", errors.New("the CLI has not set both no_new_privs and a filter of system calls"))
	}
	if i.Namespaces, err = state.OwnNamespaces(pid); err != nil {
		return i, unseen("look at", err)
	}
	if strings.Trim(status["CapEff"], "0") != "" && !slices.Contains(i.Namespaces, "user") {
		return i, &backend.StartError{Stage: "verify", Op: "look at", Object: "capabilities", Cause: "commands would have those of root on the host",
			Hint: "run Paddock as an ordinary user, or use a version of the codex CLI that makes namespaces"}
	}
	if slices.Contains(i.Namespaces, "mount") {
		if err := w.verifyMounts(pid); err != nil {
			return i, unseen("look at", err)
		}
	} else {
		i.Landlock = "files, by the CLI"
		i.Lost = append(i.Lost, "Commands see the host's processes, and signal those of the caller.", "They have no terminals.")
	}
	i.Verified = true
	return i, nil
}

// unseen returns the error of a wall that cannot be verified.
func unseen(op string, err error) error {
	return &backend.StartError{Stage: "verify", Op: op, Object: "the walls of codex", Cause: err.Error(),
		Hint: "try another version of the codex CLI, or use backend linux"}
}

// verifyMounts refuses unexpected writable mounts. If overrides of the spec decide what can
// be written, it checks nothing.
func (w *wall) verifyMounts(pid int) error {
	if w.custom {
		return nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return err
	}
	allowed := append(w.writable(), "/dev", "/proc")
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line) // proc_pid_mountinfo(5): 5 is the mount point, 6 its options
		if len(f) < 6 {
			return fmt.Errorf("unreadable mount %q", line)
		}
		at := hostpath.Unescape(f[4])
		if !slices.Contains(strings.Split(f[5], ","), "rw") {
			continue
		}
		if !slices.ContainsFunc(allowed, func(dir string) bool { _, in := hostpath.Within(at, dir); return in }) {
			return fmt.Errorf("%s is mounted writable", at)
		}
	}
	return nil
}

// promised returns the isolation as far as it is known before a sandbox runs.
func (w *wall) promised() policy.Isolation {
	s := w.req.Spec
	uid := uint32(os.Geteuid())
	i := policy.Isolation{
		Backend: policy.BackendCodex, Level: "wrapper", UIDInside: uid, UIDHost: uid, Identity: "caller",
		Network: s.Network.Mode, Capabilities: "none", NoNewPrivs: true, Seccomp: s.Seccomp, Landlock: "none", Cgroup: "none",
		Workspace: policy.ModeBind, RootFS: policy.RootHost, Limits: w.limits(), NestedUserns: "seccomp", Death: "descent",
		Lost: []string{
			"Commands read every file that the caller can read.",
			"What codex calls a sandbox is a version's own; this one was tried out, once, before the start.",
		},
	}
	if w.kernel {
		i.Landlock = "files of the kernel"
	}
	if s.Limits.Memory > 0 {
		i.Degraded = append(i.Degraded, policy.DegradeMemory)
	}
	if s.Limits.Processes > 0 && s.Allows(policy.DegradeProcesses) {
		i.Degraded = append(i.Degraded, policy.DegradeProcesses)
	}
	for _, loss := range backend.Losses(i.Degraded) {
		i.Lost = append(i.Lost, strings.ToUpper(loss[:1])+loss[1:]+".")
	}
	if w.temporary {
		i.Lost = append(i.Lost, "Temporary files and HOME lie on the host's disk, without a bound.")
	}
	i.Lost = append(i.Lost, "Neither memory nor processors are bounded for all commands together.")
	if s.Network.Mode == networkHost {
		i.Lost = append(i.Lost, "Commands reach all that listens on the host.")
	} else {
		i.Lost = append(i.Lost, "Commands can neither call nor serve Unix sockets: the CLI's filter refuses it.")
	}
	i.Lost = append(i.Lost, w.lost...)
	return i
}

// limits returns what enforces each limit.
func (w *wall) limits() map[string]string {
	kept := map[string]string{}
	r := w.guest().Rlimits
	for name, l := range map[string]struct {
		rlimit string
		value  uint64
	}{
		"cpu_time": {"RLIMIT_CPU", r.CPUSeconds}, "file_size": {"RLIMIT_FSIZE", r.FileSize}, "open_files": {"RLIMIT_NOFILE", r.OpenFiles},
		"processes": {"RLIMIT_NPROC", r.Processes}, "memory": {"RLIMIT_DATA", r.Data},
	} {
		if l.value > 0 {
			kept[name] = l.rlimit + "=" + strconv.FormatUint(l.value, 10) + ", of each process"
		}
	}
	if r.Processes > 0 {
		kept["processes"] = fmt.Sprintf("RLIMIT_NPROC=%d, of all that the user runs", r.Processes)
	}
	return kept
}
