//go:build linux

package codex

import (
	"fmt"
	"os"
	"strconv"

	"github.com/paddock-dev/paddock/policy"
)

// promised returns the isolation as far as it can be told without a look at a
// running sandbox.
func (w *wall) promised() policy.Isolation {
	s := w.req.Spec
	uid := uint32(os.Geteuid())
	i := policy.Isolation{
		Backend: policy.BackendCodex, Level: "wrapper", UIDInside: uid, UIDHost: uid, Identity: "caller",
		Network: s.Network, Capabilities: "none", NoNewPrivs: true, Seccomp: s.Seccomp, Landlock: "none", Cgroup: "none",
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
	for _, d := range policy.Degradations() {
		for _, name := range i.Degraded {
			if d.Name == name {
				i.Lost = append(i.Lost, sentence(d.Loss))
			}
		}
	}
	if w.temporary {
		i.Lost = append(i.Lost, "Temporary files and HOME lie on the host's disk, without a bound.")
	}
	i.Lost = append(i.Lost, "Neither memory nor processors are bounded for all commands together.")
	if s.Network == networkHost {
		i.Lost = append(i.Lost, "Commands reach all that listens on the host.")
	} else {
		i.Lost = append(i.Lost, "Commands can neither call nor serve Unix sockets: the CLI's filter refuses it.")
	}
	i.Lost = append(i.Lost, w.lost...)
	return i
}

// limits says by what each limit is kept.
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

func sentence(s string) string {
	if s == "" {
		return s
	}
	return string(s[0]&^0x20) + s[1:] + "."
}
