package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/backend"
)

// inspected is what an engine says about a container.
type inspected struct {
	ID    string `json:"Id"`
	State struct {
		Running bool
		Pid     int
	}
	Mounts []struct {
		Type, Name, Source, Destination string
		RW                              bool
	}
	Config struct {
		User   string
		Env    []string
		Labels map[string]string
	}
	BoundingCaps  []string // podman: those that are left
	EffectiveCaps []string
	HostConfig    struct {
		Privileged     bool
		CapAdd         []string
		CapDrop        []string
		SecurityOpt    []string
		NetworkMode    string
		ReadonlyRootfs bool
		PidsLimit      *int64
		Memory         int64
		MemorySwap     int64
		NanoCpus       int64
		CPUQuota       int64 `json:"CpuQuota"`
		CPUPeriod      int64 `json:"CpuPeriod"`
		IpcMode        string
		PidMode        string
		UTSMode        string
		UsernsMode     string
		CgroupnsMode   string
		CgroupMode     string // podman's word for it
		Tmpfs          map[string]string
		Devices        []json.RawMessage
		DeviceRequests []json.RawMessage
		// DeviceCgroupRules allow devices that mknod could make, or that are in a mount.
		DeviceCgroupRules []string
		GroupAdd          []string
		LogConfig         struct{ Type string }
		// MaskedPaths are those of the kernel that a docker hides; nil for a podman.
		MaskedPaths *[]string
	}
}

// inspect asks for a container by its name.
func (e *engine) inspect(ctx context.Context, name string) (*inspected, error) {
	text, err := e.ask(ctx, "container", "inspect", name)
	if err != nil {
		return nil, e.fail("look at the container", name, err)
	}
	var found []inspected
	if err := json.Unmarshal(text, &found); err != nil || len(found) != 1 {
		return nil, e.fail("look at the container", name, errors.New("the engine's answer is not one container"))
	}
	return &found[0], nil
}

// removalTime is how long an engine may take to remove a container that has ended,
// removalPause the time between two checks, as each engine would need other arguments to
// wait for it, and removalAgain the time until it is asked to remove the container again.
const (
	removalTime  = 10 * time.Second
	removalPause = 20 * time.Millisecond
	removalAgain = time.Second
)

// gone reports whether a sandbox's container has ended: it does not exist any more or, if
// it is not to be removed, is not running. An engine removes a container of --rm by itself,
// possibly while another process asks for the removal. That process gets an answer at once,
// although the container stays in the list until it is removed; so gone waits for that. A busy
// engine may fail to remove it, keeps it as dead, and removes it once it is asked again.
func (e *engine) gone(ctx context.Context, c *container) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, removalTime)
	defer cancel()
	args := []string{"ps", "--all", "--no-trunc", "--quiet", "--filter", "label=" + label + "=" + c.id}
	if c.keep { // only those that run
		args = slices.Delete(args, 1, 2)
	}
	again := time.NewTicker(removalAgain)
	defer again.Stop()
	for {
		text, err := e.ask(ctx, args...)
		if err != nil {
			return false, e.fail("ask for the container", c.name(), err)
		}
		if strings.TrimSpace(string(text)) == "" {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-again.C:
			if !c.keep {
				_, _ = e.ask(ctx, "rm", "--force", "--volumes", c.name())
			}
		case <-time.After(removalPause):
		}
	}
}

// cleanup returns the arguments of the commands that remove everything that a sandbox may have
// left on its engine. They succeed if it has left nothing.
func (b *build) cleanup() [][]string {
	if b.keep {
		return [][]string{{"stop", "-t", "0", b.name()}}
	}
	all := [][]string{{"rm", "--force", "--volumes", b.name()}}
	if b.uploads {
		all = append(all, []string{"rm", "--force", b.loader()}, []string{"volume", "rm", "--force", b.name()})
	}
	return all
}

// finding is one difference between the requested container and the one that the engine made.
type finding struct {
	what string
	// lost is the guarantee that does not hold, if the user's own arguments caused the
	// difference.
	lost  string
	flags []string // of "run", which may cause the difference
}

// verify compares a container with the requested one. A difference is an error, unless the
// user's own extra arguments explain it: then it is added to the lost guarantees.
func (b *build) verify(got *inspected) (lost []string, err error) {
	for _, f := range slices.Concat(b.rights(got), b.spaces(got), b.bounds(got), b.places(got)) {
		if !b.loosened(f.flags...) {
			return nil, &backend.StartError{Stage: "verify", Op: "look at", Object: b.name(), Cause: f.what,
				Hint: "the engine did not make what it was asked for; its version and settings may say why"}
		}
		lost = append(lost, f.lost+" (docker.extra_run_args)")
	}
	return lost, nil
}

// rights returns the differences in what processes may do.
func (b *build) rights(got *inspected) (found []finding) {
	h := got.HostConfig
	add := func(bad bool, what, lost string, flags ...string) {
		if bad {
			found = append(found, finding{what, lost, flags})
		}
	}
	add(h.Privileged, "it is privileged", "the container is privileged: commands have the whole host", "privileged")
	add(len(h.CapAdd) > 0, "capabilities were added: "+strings.Join(h.CapAdd, " "), "commands have capabilities: "+strings.Join(h.CapAdd, " "), "cap-add")
	add(!dropsAll(got), "it keeps capabilities: "+strings.Join(got.EffectiveCaps, " "), "commands have capabilities: "+keeps(got), "cap-drop", "cap-add")
	add(!slices.ContainsFunc(h.SecurityOpt, isNoNewPrivileges), "no-new-privileges is not set", "programs can gain privileges", "security-opt")
	for _, o := range h.SecurityOpt {
		off := strings.HasPrefix(o, "seccomp") && strings.HasSuffix(o, "unconfined")
		add(off, "the engine's seccomp profile is off", "the engine's seccomp profile is off", "security-opt")
		add(!off && !confines(o), "its security options have "+o, "the container's security options have "+o, "security-opt")
	}
	add(h.MaskedPaths != nil && len(*h.MaskedPaths) == 0, "no path of the kernel is masked", "the kernel's paths that the engine masks are open", "security-opt")
	add(len(h.Devices)+len(h.DeviceRequests) > 0, "it has devices of the host", "commands have devices of the host", "device", "gpus")
	add(len(h.DeviceCgroupRules) > 0, "it may use devices: "+strings.Join(h.DeviceCgroupRules, ", "), "commands may use devices: "+strings.Join(h.DeviceCgroupRules, ", "), "device-cgroup-rule")
	add(len(h.GroupAdd) > 0, "groups were added: "+strings.Join(h.GroupAdd, " "), "commands have more groups: "+strings.Join(h.GroupAdd, " "), "group-add")
	add(b.kind != nerdctl && h.LogConfig.Type != "none", fmt.Sprintf("its log is %q, not none", h.LogConfig.Type), "the engine keeps what the agent writes, by its log driver "+h.LogConfig.Type, "log-driver")
	add(got.Config.Labels[label] != b.id, "its label "+label+" is another's", "Paddock cannot find the container by its label", "label-file")
	add(got.Config.User != b.user, fmt.Sprintf("it runs as %q, not as %q", got.Config.User, b.user), "commands run as "+got.Config.User, "user", "u")
	return found
}

// confines reports whether a security option takes nothing away from the engine's defaults: it is
// no-new-privileges, or names a profile or label. Engines may add such ones by themselves.
func confines(option string) bool {
	kind, of, named := strings.Cut(strings.Replace(option, ":", "=", 1), "=")
	return isNoNewPrivileges(option) || named && slices.Contains([]string{"apparmor", "label", "seccomp"}, kind) && of != "" && of != "unconfined" && !strings.HasPrefix(of, "disable")
}

// dropsAll reports whether no capability is left. docker repeats the word; podman lists
// the remaining capabilities.
func dropsAll(got *inspected) bool {
	if slices.ContainsFunc(got.HostConfig.CapDrop, func(s string) bool { return strings.EqualFold(s, "ALL") || strings.EqualFold(s, "CAP_ALL") }) {
		return true
	}
	return len(got.HostConfig.CapDrop) > 0 && len(got.BoundingCaps) == 0 && len(got.EffectiveCaps) == 0
}

// keeps returns the names of the capabilities that were not dropped.
func keeps(got *inspected) string {
	if len(got.EffectiveCaps) == 0 {
		return "the engine's default"
	}
	return strings.Join(got.EffectiveCaps, " ")
}

func isNoNewPrivileges(option string) bool {
	return option == "no-new-privileges" || option == "no-new-privileges:true" || option == "no-new-privileges=true"
}

// spaces returns the differences in namespaces and the root file system.
func (b *build) spaces(got *inspected) (found []finding) {
	h := got.HostConfig
	private := func(mode, what string, flags ...string) {
		if mode == "host" || strings.HasPrefix(mode, "container:") || strings.HasPrefix(mode, "ns:") {
			found = append(found, finding{"the " + what + " namespace is " + mode, "commands share a " + what + " namespace: " + mode, flags})
		}
	}
	private(h.PidMode, "pid", "pid")
	private(h.IpcMode, "ipc", "ipc")
	if b.network != networkHost {
		private(h.UTSMode, "uts", "uts")
	}
	if want := b.network; want != "" && h.NetworkMode != want {
		found = append(found, finding{fmt.Sprintf("its network is %q, not %q", h.NetworkMode, want), "the network is " + h.NetworkMode, []string{"network", "net", "pod"}})
	} else if want == "" {
		private(h.NetworkMode, "network", "network", "net", "pod")
	}
	if h.ReadonlyRootfs != b.readOnly {
		found = append(found, finding{"the root file system is not as asked for", "the root file system is not as asked for", []string{"read-only"}})
	}
	return found
}

// bounds returns the differences in limits.
func (b *build) bounds(got *inspected) (found []finding) {
	h := got.HostConfig
	differ := func(what string, got, want int64, flags ...string) {
		if got != want {
			found = append(found, finding{fmt.Sprintf("its bound of %s is %d, not %d", what, got, want),
				fmt.Sprintf("the bound of %s is %d", what, got), flags})
		}
	}
	var pids int64
	if h.PidsLimit != nil {
		pids = *h.PidsLimit
	}
	if b.pids > 0 {
		differ("processes", pids, int64(b.pids), "pids-limit")
	}
	if b.memory > 0 {
		differ("memory", h.Memory, b.memory, "memory", "m")
	}
	if b.memory > 0 && h.MemorySwap != -1 {
		differ("memory with swap", h.MemorySwap, b.memory+b.swap, "memory-swap", "memory", "m")
	}
	if b.cpus != "" && h.NanoCpus == 0 && h.CPUQuota == 0 {
		found = append(found, finding{"the processors are not bounded", "the processors are not bounded", []string{"cpus", "cpu-quota", "cpu-period"}})
	}
	return found
}

// places returns the differences in mounts: there must be none more, none less, and none
// writable that must not be.
func (b *build) places(got *inspected) (found []finding) {
	flags := []string{"mount", "volume", "v", "tmpfs", "volumes-from", "secret", "read-only-tmpfs"}
	add := func(what string) { found = append(found, finding{what, what, flags}) }
	want := map[string]mount{}
	for _, m := range b.mounts {
		want[path.Clean(m.target)] = m
	}
	for _, t := range b.tmpfs {
		want[path.Clean(t.target)] = mount{kind: mountTmpfs, target: t.target}
	}
	seen := map[string]bool{}
	for _, m := range got.Mounts {
		at := path.Clean(m.Destination)
		asked, ok := want[at]
		switch {
		case !ok:
			add(fmt.Sprintf("%s %s is mounted at %s", m.Type, m.Source, at))
		case asked.kind != m.Type, asked.kind == mountBind && path.Clean(m.Source) != asked.source, asked.kind == mountVolume && m.Name != asked.source:
			add(fmt.Sprintf("%s is %s %s", at, m.Type, m.Source))
		case asked.readOnly && m.RW:
			add(at + " is writable")
		}
		seen[at] = true
	}
	for at := range got.HostConfig.Tmpfs {
		if at = path.Clean(at); want[at].kind != mountTmpfs {
			add("a tmpfs is mounted at " + at)
		}
		seen[path.Clean(at)] = true
	}
	for _, m := range b.mounts {
		if !seen[path.Clean(m.target)] && m.kind != mountTmpfs {
			add(m.target + " is not mounted")
		}
	}
	return found
}
