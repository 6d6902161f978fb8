package docker

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// The networks of a container, as isolation names them.
const (
	networkNone   = "none"
	networkHost   = "host"
	networkEngine = "engine" // the engine's default
)

// The agent's places inside: a file of the host, or a volume that was filled through
// the engine.
const (
	agentFile   = "/.paddock-agent"
	agentVolume = "/.paddock"
)

// passagePath is where the agent finds the socket over which it passes sockets on.
const passagePath = "/.paddock-passage"

// The files of a container with rules for its network, and with the SSH agent.
const (
	resolvPath     = "/etc/resolv.conf"
	sshAgentPath   = "/.paddock-ssh-agent" // its socket
	knownHostsPath = "/etc/ssh/ssh_known_hosts"
)

// copySource is the place of a workspace that is to be copied. It is read-only.
const copySource = "/.paddock-source"

// build is a container and what else is known about it.
type build struct {
	container
	options policy.Docker
	uploads bool   // the agent goes through the engine into a volume
	agent   string // its path inside
	home    string
	shown   []hostpath.Mount
	covered []string // sockets of the host
	// degraded and lost are for the isolation.
	degraded, lost []string
}

// newBuild makes the container that a resolved spec asks for, on an engine
// that has its image.
func newBuild(req backend.Request, e *engine, img *image, id string) (*build, error) {
	spec, o := req.Spec, options(req.Spec)
	shown, err := lookAt(req)
	if err != nil {
		return nil, err
	}
	bound, err := newBinds(req, shown, e.sockets())
	if err != nil {
		return nil, err
	}
	b := &build{options: o, shown: shown, covered: bound.covered, container: container{
		id: id, image: o.Image, keep: o.RemoveContainerOnExit != nil && !*o.RemoveContainerOnExit,
		network: networkNone, hostname: spec.Hostname, shm: int64(spec.Limits.Tmp), mounts: bound.list,
		dir: shown[0].Target, readOnly: o.ReadOnlyRootFS, extra: o.ExtraRunArgs, kind: e.kind,
	}}
	switch {
	case spec.Network.Mode == networkHost:
		b.network = networkHost
	case o.NetworkEnabled:
		b.network = ""
	}
	b.lost = append(b.lost, unknown(o.ExtraRunArgs)...)
	return b, errors.Join(b.fits(e, img), b.place(req, e, img), b.limit(spec, e), reserved(o.ExtraRunArgs), b.identify(e))
}

// lookAt returns the mounts of the paths that the spec names. A workspace has the same
// path as on the host or, as a copy, /workspace.
func lookAt(req backend.Request) ([]hostpath.Mount, error) {
	shown, err := hostpath.Mounts(req, policy.WorkspacePath)
	if err == nil {
		err = hostpath.RefuseBytes(shown, "the engine")
	}
	if err != nil {
		return nil, err
	}
	if !shown[0].Copied {
		shown[0].Target = shown[0].Source
	}
	first := map[string]string{agentFile: "the agent", agentVolume: "the agent", copySource: "the workspace's original"}
	if req.Spec.Network.Mode == policy.NetworkAllow {
		first[passagePath], first[resolvPath] = "Paddock's passage", "the resolv.conf that leads to hosts by name"
	}
	if req.Spec.SSHAgent != nil {
		first[sshAgentPath], first[knownHostsPath] = "the SSH agent's socket", "the keys of the hosts at which the SSH agent may be used"
	}
	for _, m := range shown {
		if other, taken := first[m.Target]; taken {
			return nil, hostpath.Refuse(m.Field, m.Target, other+" has this target too", "choose another target")
		}
		first[m.Target] = m.Field
	}
	return shown, nil
}

// options returns the spec's options of this backend, with defaults.
func options(spec policy.Spec) policy.Docker {
	var o policy.Docker
	if spec.Docker != nil {
		o = *spec.Docker
	}
	if o.Image == "" {
		o.Image = policy.DefaultImage
	}
	return o
}

// fits refuses an image that is not for the architecture of the engine's machine, and an
// engine that is not of the architecture of this agent.
func (b *build) fits(e *engine, img *image) error {
	switch {
	case goArch(img.Architecture) != e.arch:
		return e.fail("use the image", b.image, fmt.Errorf("it is made for %s, and the engine's machine is %s", img.Architecture, e.arch))
	case e.arch != runtime.GOARCH:
		return e.fail("use", e.name, fmt.Errorf("the engine's machine is %s, and this agent is made for %s", e.arch, runtime.GOARCH))
	}
	return nil
}

// place adds the mounts of the agent, the copied workspace and the writable directories
// in memory.
func (b *build) place(req backend.Request, e *engine, img *image) error {
	limits := req.Spec.Limits
	b.agent, b.uploads = agentFile, !e.local
	if b.uploads {
		b.agent = agentVolume + "/agent"
		b.mounts = append(b.mounts, mount{kind: mountVolume, source: b.name(), target: agentVolume, readOnly: true, why: "Paddock's agent"})
	} else {
		agent := hostpath.Future(req.Agent)
		b.mounts = append(b.mounts, mount{kind: mountBind, source: agent, target: agentFile, readOnly: true, why: "Paddock's agent", file: identify(agent)})
	}
	if b.shown[0].Copied {
		b.tmpfs = append(b.tmpfs, tmpfs{policy.WorkspacePath, int64(limits.Disk)})
		if !b.uploads {
			b.mounts = append(b.mounts, mount{kind: mountBind, source: b.shown[0].Source, target: copySource, readOnly: true, why: "what is copied from", file: identify(b.shown[0].Source)})
		}
	} else if !e.local {
		return hostpath.Refuse("workspace.mode", policy.ModeBind, "the engine runs on another machine, which does not have this directory", "use workspace mode copy")
	}
	b.home = policy.TmpPath
	if b.addTmpfs(policy.TmpPath, int64(limits.Tmp)) && b.addTmpfs(policy.HomePath, int64(limits.Tmp)) {
		b.home = policy.HomePath
	}
	for _, v := range slices.Sorted(maps.Keys(img.Config.Volumes)) { // the image asks for storage that outlives the container
		if b.addTmpfs(v, int64(limits.Tmp)) {
			b.lost = append(b.lost, "the image's volume "+v+" is an empty place in memory")
		}
	}
	if !b.readOnly {
		b.lost = append(b.lost, "what commands write outside of the workspace, /tmp and HOME lies on the engine's disk, without a bound, until the container ends")
	}
	return nil
}

// source returns the path inside of the original of a copied workspace.
func (b *build) source() string {
	if b.uploads {
		return agentVolume + "/source"
	}
	return copySource
}

// addTmpfs adds a directory in memory, unless the user has mounted something there.
func (b *build) addTmpfs(target string, size int64) bool {
	for _, m := range b.shown {
		if _, covered := hostpath.Within(target, m.Target); covered {
			return false
		}
	}
	for _, t := range b.tmpfs {
		if t.target == target {
			return false
		}
	}
	b.tmpfs = append(b.tmpfs, tmpfs{target, size})
	return true
}

// agentThreads is how many threads the agent has from its start on. The engine counts
// them as processes of the container, so they are added to its limit. The agent keeps
// them, so commands cannot use them.
const agentThreads = 16

// limit sets the limits. It refuses those that the user set and that the engine cannot
// enforce, because engines themselves only warn.
func (b *build) limit(spec policy.Spec, e *engine) error {
	var errs []error
	keep := func(written, can bool, field, value, word string) bool {
		switch {
		case can:
			return true
		case !written:
		case spec.Allows(word):
			b.degraded = append(b.degraded, word)
		default:
			errs = append(errs, hostpath.Refuse(field, value, "the engine cannot keep it: its host lacks that controller of control groups",
				"use a host that has it, or allow it: `allow_degraded`="+word))
		}
		return false
	}
	l := spec.Limits
	if l.Memory > 0 && keep(true, e.memory, "limits.memory", l.Memory.String(), policy.DegradeMemory) {
		b.memory, b.swap = int64(l.Memory), int64(l.Swap)
		if !keep(l.Swap > 0, e.swap, "limits.swap", l.Swap.String(), policy.DegradeSwap) {
			b.lost = append(b.lost, "the use of swap is not bounded")
		}
	}
	if l.CPUs > 0 && keep(true, e.cpus, "limits.cpus", l.CPUs.String(), policy.DegradeCPUs) {
		b.cpus = l.CPUs.String()
	}
	if keep(l.Processes != policy.DefaultProcesses, e.pids, "limits.processes", strconv.FormatUint(l.Processes, 10), policy.DegradeProcesses) {
		b.pids = l.Processes + agentThreads
	} else {
		b.lost = append(b.lost, "the number of processes is not bounded by the engine")
	}
	b.lost = append(b.lost, backend.Losses(b.degraded)...)
	return errors.Join(errs...)
}

// identify decides which user commands run as: the owner of the workspace, so that
// files keep their owner.
func (b *build) identify(e *engine) error {
	b.user = b.options.User
	if b.user != "" {
		return nil
	}
	ws := b.shown[0]
	uid, gid := ws.UID, ws.GID
	if e.rootless && int(uid) == os.Geteuid() {
		if e.kind == podman {
			b.keepID = true
		} else {
			uid, gid = 0, 0 // a rootless engine maps them to the caller
		}
	}
	if e.remapped {
		b.lost = append(b.lost, "the engine maps ids to others, so commands reach of the workspace what everybody reaches, unless extra_run_args say --userns=host")
	}
	b.user = fmt.Sprintf("%d:%d", uid, gid)
	return nil
}
