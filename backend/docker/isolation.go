//go:build linux

package docker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/backend/piped"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/policy"
)

// verifyWall asks the engine, and the kernel if it can, how the container is isolated.
func (b *build) verifyWall(ctx context.Context, spec policy.Spec, e *engine, r piped.Running) (policy.Isolation, error) {
	iso := b.plannedIsolation(spec, e)
	got, err := e.inspect(ctx, b.name())
	if err != nil {
		return iso, err
	}
	iso.Seccomp = r.Ready.Seccomp
	if e.kind == nerdctl {
		iso.Lost = append(iso.Lost, "nerdctl does not tell what it made: limits were asked for, and not looked at")
	} else {
		lost, err := b.verify(got)
		if err != nil {
			return iso, err
		}
		iso.Lost = append(iso.Lost, lost...)
		b.effective(&iso, got)
		iso.Verified = true
	}
	kernel, err := b.readProcess(got.State.Pid)
	if err != nil || kernel == nil {
		return iso, err
	}
	iso.Verified = true
	if len(kernel.groups) > 0 {
		whence := "the image's"
		if b.says("group-add") {
			whence = "docker.extra_run_args"
		}
		iso.Lost = append(iso.Lost, "commands have the groups "+strings.Join(kernel.groups, " ")+" of this host ("+whence+")")
	}
	if n, err := strconv.ParseUint(kernel.uid, 10, 32); err == nil {
		iso.UIDHost = uint32(n)
	}
	if len(kernel.namespaces) > 0 {
		iso.Namespaces = kernel.namespaces
	}
	return iso, nil
}

// plannedIsolation returns the isolation that is asked for.
func (b *build) plannedIsolation(spec policy.Spec, e *engine) policy.Isolation {
	iso := policy.Isolation{
		Backend: policy.BackendDocker, Level: "engine", Namespaces: []string{"mount", "pid", "ipc"},
		Identity: "engine", Network: b.network, Capabilities: "none", NoNewPrivs: true, Seccomp: spec.Seccomp, Landlock: "none", Cgroup: "none",
		Workspace: spec.Workspace.Mode, RootFS: osstring.String(b.image), NestedUserns: "seccomp", Death: "engine",
		HostSockets: spec.HostSockets, CoveredSockets: b.covered,
		Degraded: slices.Clone(b.degraded), Lost: slices.Clone(b.lost), Limits: map[string]string{},
	}
	if b.network == "" {
		iso.Network = networkEngine
	}
	if spec.Network.Mode == policy.NetworkAllow {
		iso.Network, iso.Egress = policy.NetworkAllow, spec.Network.Egress(policy.EgressInside)
		iso.SSHAgent = spec.SSHAgent
	}
	if b.network != networkHost {
		iso.Namespaces = append(iso.Namespaces, "uts", "net")
	}
	if e.rootless || e.remapped {
		iso.Namespaces = append(iso.Namespaces, "user")
	}
	uid, _, _ := strings.Cut(b.user, ":")
	if n, err := strconv.ParseUint(uid, 10, 32); err == nil {
		iso.UIDInside, iso.UIDHost = uint32(n), uint32(n)
	}
	var groups []string
	limit := func(on bool, group, name, by string) {
		if on {
			groups, iso.Limits[name] = append(groups, group), by
		}
	}
	limit(b.memory > 0, "memory", "memory", fmt.Sprintf("--memory %d", b.memory))
	if b.memory > 0 && e.swap {
		iso.Limits["swap"] = fmt.Sprintf("--memory-swap %d", b.memory+b.swap)
	}
	limit(b.cpus != "", "cpu", "cpus", "--cpus "+b.cpus)
	limit(b.pids > 0, "pids", "processes", fmt.Sprintf("--pids-limit %d, the agent's %d threads among them", b.pids, agentThreads))
	if len(groups) > 0 {
		iso.Cgroup = strings.Join(groups, " ")
	}
	return iso
}

// effective corrects the isolation by the changes of the user's own arguments.
func (b *build) effective(iso *policy.Isolation, got *inspected) {
	h := got.HostConfig
	switch {
	case h.Privileged:
		iso.Capabilities = "all"
	case len(h.CapAdd) > 0:
		iso.Capabilities = strings.Join(h.CapAdd, " ")
	case !dropsAll(got):
		iso.Capabilities = keeps(got)
	}
	if h.MemorySwap == -1 {
		delete(iso.Limits, "swap") // the engine cannot limit it
	}
	iso.NoNewPrivs = slices.ContainsFunc(h.SecurityOpt, isNoNewPrivileges)
	if b.network != "" && h.NetworkMode != b.network {
		iso.Network = h.NetworkMode
	}
	drop := func(name, mode string) {
		if mode == "host" || strings.HasPrefix(mode, "container:") {
			iso.Namespaces = slices.DeleteFunc(iso.Namespaces, func(s string) bool { return s == name })
		}
	}
	drop("pid", h.PidMode)
	drop("ipc", h.IpcMode)
	drop("uts", h.UTSMode)
	drop("net", h.NetworkMode)
}
