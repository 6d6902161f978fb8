//go:build linux

package linux

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/egress/knownhosts"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/policy"
)

const (
	workspaceDir = policy.WorkspacePath
	homeDir      = policy.HomePath
	userName     = "agent"
	rootSize     = 16 << 20 // of the root's tmpfs, which holds mount points and a few small files
	runSize      = 16 << 20

	sshAgentSocket = "/run/ssh-agent.sock"
)

// Capabilities in the sandbox's own user namespace: those that building the walls
// needs (dac_override for overlays alone), and those that the agent keeps (see package
// agent). Commands have none.
var (
	setupCaps = []string{"setpcap", "net_admin", "sys_admin", "sys_ptrace", "sys_resource", "dac_override"}
	keptCaps  = []string{"sys_admin", "sys_ptrace"}
)

// builder collects a plan's steps.
type builder struct {
	plan   *confine.Plan
	spec   policy.Spec
	mounts []hostpath.Mount
	layer  *backend.Layer  // of the workspace; nil: it has none, or none was made yet
	tools  int             // how many of the last mounts are toolchains'
	pinned map[string]bool // directories that are mount points, so that they cannot be renamed
	fixed  map[string]bool // paths that are read-only with everything in them
	copies []ownCopy       // files that commands have a copy of
	// sockets are the sockets of the host that are covered, by where they are inside.
	sockets map[string]backend.Socket
	links   []string       // to the workspace, by its paths on the host
	tmp     []string       // directories for temporary files
	last    []confine.Step // steps that follow the pivot
	abi     int            // of Landlock
	groups  hierarchy
}

func (b *builder) add(s confine.Step) { b.plan.Setup = append(b.plan.Setup, s) }

// newPlan turns a resolved spec into the steps that enforce it.
func newPlan(req backend.Request, id identity, mounts []hostpath.Mount, groups hierarchy, group string) (*builder, error) {
	spec := req.Spec
	b := &builder{spec: spec, mounts: mounts, layer: req.Layer, tools: req.Toolchains.Mounts, pinned: map[string]bool{}, fixed: map[string]bool{}, abi: confine.LandlockABI(), groups: groups, plan: &confine.Plan{
		Version:    confine.PlanVersion,
		Namespaces: namespaces(spec),
		Env:        environment(req),
		Workspace:  workspaceDir,
	}}
	b.plan.UIDs, b.plan.GIDs = id.maps()
	b.plan.Holds = plannedIsolation(req, id, b.plan.Namespaces)
	b.plan.Holds.Toolchains = req.Toolchains.Shown
	b.plan.Redaction = spec.Redaction
	if err := b.limits(spec.Limits); err != nil {
		return nil, err
	}
	b.process()
	if err := b.root(); err != nil {
		return nil, err
	}
	b.trust(req)
	b.private()
	b.sshAgent(req)
	b.useGroup(group)
	b.userPaths(id)
	b.toolLinks(req)
	for _, l := range homeLinks(req.Home, req.Toolchains.Home, mounts) { // after all mounts, so that no mount passes through a link
		b.add(confine.Step{Do: confine.OpSymlink, Source: l.text, Target: path.Join(homeDir, l.rel), Why: "what is mounted below the caller's home is found below HOME, too"})
	}
	b.workspaceLinks()
	b.searchPath(req)
	if err := b.guard(req); err != nil {
		return nil, err
	}
	b.maskProc()
	b.add(confine.Step{Do: confine.OpPivot, Why: "no path leads back to the host"})
	b.plan.Setup = append(b.plan.Setup, b.last...)
	b.add(confine.Step{Do: confine.OpReadOnly, Target: "/", Why: "the root itself is fixed"})
	b.add(confine.Step{Do: confine.OpCaps, Caps: keptCaps, Why: "the agent keeps what marking and finding process trees takes; commands have no capability"})

	// The steps that confine the thread which starts commands.
	b.plan.Spawn = []confine.Step{
		{Do: confine.OpKeyring, Why: "the caller's keys are out of reach"},
		{Do: confine.OpNoNew, Why: "no program can gain privileges"},
	}
	if err := b.landlock(); err != nil {
		return nil, err
	}
	if err := b.filters(); err != nil {
		return nil, err
	}
	return b, nil
}

func namespaces(spec policy.Spec) []confine.Namespace {
	all := []confine.Namespace{confine.NSUser, confine.NSMount, confine.NSPID, confine.NSIPC, confine.NSUTS, confine.NSCgroup}
	if spec.Network.Mode != policy.NetworkHost {
		all = append(all, confine.NSNet)
	}
	return all
}

// environment returns the base environment of every command. It has no variable of the
// caller's unless the spec says so.
func environment(req backend.Request) map[string]string {
	spec := req.Spec
	env := map[string]string{
		"PATH":    policy.SearchPath,
		"HOME":    homeDir,
		"USER":    userName,
		"LOGNAME": userName,
		"SHELL":   "/bin/sh",
		"LANG":    "C.UTF-8",
	}
	maps.Copy(env, spec.NetworkEnv())
	if spec.SSHAgent != nil {
		env["SSH_AUTH_SOCK"] = sshAgentSocket
	}
	maps.Copy(env, trustEnv(req))
	maps.Copy(env, spec.Env)
	return env
}

// process adds the steps that change the process and its namespaces.
func (b *builder) process() {
	b.add(confine.Step{Do: confine.OpReset, Why: "inherited personality, core dumps and dumpability go"})
	b.add(confine.Step{Do: confine.OpSysctl, Target: "user/max_user_namespaces", Source: "0", Optional: true,
		Why: "no user namespace can be made inside"})
	for _, w := range watching {
		b.add(confine.Step{Do: confine.OpSysctl, Target: "user/" + w.limit, Source: strconv.Itoa(w.bound()), Optional: true,
			Why: "the host's user, whose count this is too, keeps some"})
	}
	b.add(confine.Step{Do: confine.OpHostname, Source: b.spec.Hostname, Why: "the host's name is not visible"})
	if b.spec.Network.Mode != policy.NetworkHost {
		b.add(confine.Step{Do: confine.OpLoopback, Why: "programs can talk to themselves"})
	}
	if policy.ByName(b.spec.Network.Mode) {
		b.add(confine.Step{Do: confine.OpGateway, Size: egress.Stock + 1, Why: "what programs connect to arrives at sockets that only the egress process outside holds",
			Hint: "a gateway needs virtual interfaces: load the kernel module veth (modprobe veth); paddock doctor tries it"})
	}
}

var (
	roDir  = []string{confine.FlagReadOnly, confine.FlagNoSuid, confine.FlagNoDev}
	scrape = []string{confine.FlagNoSuid, confine.FlagNoDev}
)

// filled returns the flags of mounts in which commands can make files. If the spec
// says which programs they may call, no file that they made can be executed, not even
// through the loader or as a library.
func (b *builder) filled() []string {
	if b.spec.Commands == nil {
		return scrape
	}
	return append(slices.Clone(scrape), confine.FlagNoExec)
}

// deviceNodes are the devices that programs need. None gives access to anything
// of the host's.
var deviceNodes = []string{"null", "zero", "full", "random", "urandom", "tty"}

// private makes the sandbox's /dev, the directories in which commands may make files, and
// the empty ones that programs expect to exist.
func (b *builder) private() {
	for _, name := range deviceNodes {
		b.add(confine.Step{Do: confine.OpBind, Source: "/dev/" + name, Target: "/dev/" + name,
			Flags: []string{confine.FlagNoSuid, confine.FlagNoExec}, Why: "a harmless device"})
	}
	b.add(confine.Step{Do: confine.OpDevpts, Target: "/dev/pts", Flags: []string{confine.FlagNoSuid, confine.FlagNoExec}, Why: "terminals of its own"})
	b.add(confine.Step{Do: confine.OpTmpfs, Target: "/dev/shm", Mode: 0o1777, Size: int64(b.spec.Limits.Tmp),
		Flags: []string{confine.FlagNoSuid, confine.FlagNoDev, confine.FlagNoExec}, Why: "shared memory of its own"})
	for _, link := range [][2]string{{"ptmx", "pts/ptmx"}, {"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"},
		{"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"}} {
		b.add(confine.Step{Do: confine.OpSymlink, Source: link[1], Target: "/dev/" + link[0], Why: "usual names"})
	}
	b.tmp = []string{policy.TmpPath}
	b.add(confine.Step{Do: confine.OpTmpfs, Target: policy.TmpPath, Mode: 0o1777, Size: int64(b.spec.Limits.Tmp), Flags: b.filled(), Why: "temporary files of its own, bounded"})
	if b.spec.Home == "" {
		b.add(confine.Step{Do: confine.OpTmpfs, Target: homeDir, Mode: 0o700, Size: int64(b.spec.Limits.Tmp), Flags: b.filled(), Why: "a home of its own, bounded"})
	}
	b.varTmp()
	b.add(confine.Step{Do: confine.OpTmpfs, Target: "/run", Mode: 0o755, Size: runSize,
		Flags: []string{confine.FlagNoSuid, confine.FlagNoDev, confine.FlagNoExec}, Why: "secrets and state of running programs, bounded"})
	for _, dir := range []string{"/mnt", "/root", "/srv"} {
		b.add(confine.Step{Do: confine.OpMkdir, Target: dir, Mode: 0o755, Why: "nothing of the host's"})
	}
}

// varTmp makes /var/tmp a link to /tmp, unless something is mounted there or below.
func (b *builder) varTmp() {
	const dir = "/var/tmp"
	at, below := false, false
	for _, m := range b.mounts {
		_, inside := hostpath.Within(m.Target, dir)
		at, below = at || m.Target == dir, below || inside
	}
	switch {
	case at:
	case below:
		b.tmp = append(b.tmp, dir)
		b.add(confine.Step{Do: confine.OpTmpfs, Target: dir, Mode: 0o1777, Size: int64(b.spec.Limits.Tmp), Flags: b.filled(), Why: "temporary files beside what is mounted there, bounded"})
	default:
		b.add(confine.Step{Do: confine.OpSymlink, Source: policy.TmpPath, Target: dir, Why: "usual names"})
	}
}

// sshAgent makes the socket of the SSH agent, and the keys of the hosts that it may be used for
// known to every user.
func (b *builder) sshAgent(req backend.Request) {
	if b.spec.SSHAgent == nil {
		return
	}
	b.add(confine.Step{Do: confine.OpListen, Target: sshAgentSocket, Why: "the SSH agent, as far as the egress process lets commands use it"})
	known := knownhosts.Parse(req.KnownHosts).Opened(egress.NewTable(b.spec.Network))
	b.add(confine.Step{Do: confine.OpFile, Target: path.Join("/etc", knownHosts), Mode: 0o644, Data: known, Why: "the keys of hosts that rules open"})
}

// userPaths mounts the paths that the user named, or copies of them.
func (b *builder) userPaths(id identity) {
	for i, m := range b.mounts {
		var fd string
		if id.kind == idmap {
			fd = mountName(i)
			b.plan.Files = append(b.plan.Files, fd)
		}
		if m.Copied { // into a new file system, which limits its size
			b.add(confine.Step{Do: confine.OpTmpfs, Target: m.Target, Mode: 0o755, Size: int64(b.spec.Limits.Disk), Flags: b.filled(),
				Why: "the workspace is a copy in memory, bounded"})
			b.add(confine.Step{Do: confine.OpCopy, Source: m.Source, Target: m.Target, FD: fd, Flags: append(slices.Clone(roDir), confine.FlagResolved),
				Why: "its content, without owners, sockets and devices"})
			continue
		}
		if m.Layered {
			b.addLayer(m, fd)
			continue
		}
		if m.Merged() {
			why := "what the caller's " + m.Stored.Tool + " has downloaded, below the sandbox's own cache; changes end with the sandbox"
			if m.Stored.Ends {
				b.add(confine.Step{Do: confine.OpTmpfs, Target: m.Target, Mode: 0o700, Size: int64(b.spec.Limits.Tmp), Flags: b.filled(),
					Why: "a cache of its own, bounded, which stays empty if there can be nothing below it"})
				why = "a cache of earlier sandboxes, which stays as it is; what commands change ends with the sandbox, like their changes of the workspace"
			}
			b.add(confine.Step{Do: confine.OpOverlay, Source: m.Source, Target: m.Target, FD: fd, ID: m.ID.FileID, Names: m.Stored.Hidden, Size: int64(b.spec.Limits.Tmp),
				Flags: append(slices.Clone(b.filled()), confine.FlagResolved), Optional: true, Why: why})
			continue
		}
		s := confine.Step{Do: confine.OpBind, Source: m.Source, Target: m.Target, ID: m.ID.FileID, Flags: b.filled(), Why: "named in the spec, read-write"}
		if !m.Writable {
			s.Flags, s.Why = roDir, "named in the spec, read-only"
		}
		s.Flags = append(slices.Clone(s.Flags), confine.FlagResolved, confine.FlagBelowRO)
		switch {
		case m.Field == "workspace.source":
			s.Why = strings.Replace(s.Why, "named in the spec", "the workspace", 1)
		case m.Field == "host_sockets":
			s.Why = "a socket of the host that the spec names"
		case m.Field == "home":
			s.Why = "a home that stays, read-write"
		case m.Stored != nil && m.Writable:
			s.Why = "a cache that stays, read-write"
		case m.Stored != nil:
			s.Why = "what the caller's own cache has, read-only"
		case i >= len(b.mounts)-b.tools:
			s.Why = strings.Replace(s.Why, "named in the spec", "a toolchain of the caller's", 1)
		}
		if s.FD = fd; fd != "" {
			s.Why += ", id-mapped so that files keep their owner"
		}
		if outer := slices.IndexFunc(b.mounts, func(o hostpath.Mount) bool {
			_, inside := hostpath.Within(m.Target, o.Target)
			return inside && m.Target != o.Target
		}); outer >= 0 {
			s.Flags = append(s.Flags, confine.FlagExisting)
			s.Hint = "the mount point must exist: " + m.Target + " lies in " + b.mounts[outer].Source
		}
		b.add(s)
	}
}

// mountName returns the name of the descriptor of a mount that the host side makes.
func mountName(i int) string { return fmt.Sprintf("mount%d", i) }

// leaveOut takes the overlay at this target, which cannot be had here, out of the plan.
func (b *builder) leaveOut(target string, cause error) {
	h := &b.plan.Holds
	b.plan.Setup = slices.DeleteFunc(b.plan.Setup, func(s confine.Step) bool { return s.Do == confine.OpOverlay && s.Target == target })
	for _, m := range b.mounts {
		if !m.Merged() || m.Target != target {
			continue
		}
		its := func(tool string) bool { return tool == m.Stored.Tool }
		if !m.Stored.Ends {
			h.Downloads = slices.DeleteFunc(h.Downloads, its)
			continue
		}
		h.LayeredCaches = slices.DeleteFunc(h.LayeredCaches, its)
		h.Lost = append(h.Lost, "the cache of "+m.Stored.Tool+": it begins empty and ends with the sandbox, since no layer can be laid above what was kept: "+cause.Error()+" (that takes Linux 6.6; paddock cache rm removes what commands may have left in the way)")
	}
}

// filters adds the agent's filter and, on top of it, the commands'.
func (b *builder) filters() error {
	options := b.plan.FilterOptions()
	for _, s := range []confine.Step{
		{Source: confine.FilterAgent, Flags: []string{confine.FlagAllThreads}, Why: "the agent itself never needs these calls"},
		{Source: confine.FilterCommands, Flags: []string{confine.FlagNotify}, Why: "commands never need these calls"},
	} {
		var err error
		if s.Data, err = confine.Filter(s.Source, options); err != nil {
			return backend.Failed("plan", "seccomp", options.Profile, err, "")
		}
		s.Do = confine.OpSeccomp
		b.plan.Spawn = append(b.plan.Spawn, s)
	}
	return nil
}

// plannedIsolation returns the isolation that a plan gives, as far as the spec determines it.
func plannedIsolation(req backend.Request, id identity, ns []confine.Namespace) policy.Isolation {
	spec := req.Spec
	iso := policy.Isolation{
		Backend:      "linux",
		Level:        spec.Level,
		UIDInside:    insideID,
		UIDHost:      id.uid,
		KeptGroups:   id.groups,
		Identity:     id.kind,
		Network:      spec.Network.Mode,
		Capabilities: "none",
		NoNewPrivs:   true,
		Seccomp:      spec.Seccomp,
		Landlock:     "none",
		Cgroup:       "none",
		Workspace:    spec.Workspace.Mode,
		Layer:        layerMarksOf(req),
		RootFS:       osstring.String(spec.RootFS),
		Home:         osstring.String(spec.Home),
		HostSockets:  spec.HostSockets,
		NestedUserns: "sysctl+seccomp",
		Death:        "pidns+uts",
	}
	if policy.ByName(spec.Network.Mode) {
		iso.Egress = spec.Network.Egress(policy.EgressGateway)
		iso.SSHAgent = spec.SSHAgent
	}
	for _, n := range ns {
		iso.Namespaces = append(iso.Namespaces, string(n))
	}
	for _, s := range req.Stored {
		switch {
		case s.Tool == "" || slices.Contains(iso.Downloads, s.Tool):
		case s.Downloads:
			iso.Downloads = append(iso.Downloads, s.Tool)
		case s.Ends:
			iso.LayeredCaches = append(iso.LayeredCaches, s.Tool)
		default:
			iso.Caches = append(iso.Caches, s.Tool)
		}
	}
	return iso
}

// degrade records that something is weaker than the spec says, which the spec allows.
func (b *builder) degrade(name string) {
	h := &b.plan.Holds
	h.Degraded, h.Lost = append(h.Degraded, name), append(h.Lost, backend.Losses([]string{name})...)
}

// homeLink is a symbolic link, by its path below HOME.
type homeLink struct{ rel, text string }

// homeLinks returns links that make mounts below the caller's home visible below HOME
// too, where programs look for them: ~ means the same on both sides. home may be empty, and
// bare, which is the same directory without links.
// No link is below another one, or in the place of another mount.
func homeLinks(home, bare string, mounts []hostpath.Mount) []homeLink {
	var links []homeLink
	for _, m := range mounts[1:] { // the workspace is elsewhere
		rel, ok := hostpath.Within(m.Target, home)
		if !ok && bare != "" {
			rel, ok = hostpath.Within(m.Target, bare)
		}
		if !ok || m.Stored != nil || home == "" || home == "/" || rel == "" {
			continue
		}
		at := path.Join(homeDir, rel)
		taken := slices.ContainsFunc(mounts, func(o hostpath.Mount) bool {
			_, above := hostpath.Within(at, o.Target)
			_, below := hostpath.Within(o.Target, at)
			return above || below
		}) || slices.ContainsFunc(links, func(l homeLink) bool {
			_, inside := hostpath.Within(rel, l.rel)
			_, around := hostpath.Within(l.rel, rel)
			return inside || around
		})
		if !taken {
			links = append(links, homeLink{rel, m.Target})
		}
	}
	return links
}

// workspaceLinks adds links to the workspace at its paths on the host, as it is named and
// without links: scripts of virtual environments, for example, name programs in it by such a
// path. There is none where something else is, or would be below it, and none where commands may
// make files.
func (b *builder) workspaceLinks() {
	if b.spec.Commands != nil { // for rules a file has one name
		return
	}
	for _, at := range []string{b.mounts[0].Source, b.spec.Workspace.Source} {
		if slices.ContainsFunc(b.plan.Setup, func(s confine.Step) bool {
			return path.IsAbs(s.Target) && s.Target != "/" && (hostpath.Under(s.Target, at) || s.Do != confine.OpMkdir && hostpath.Under(at, s.Target))
		}) {
			continue
		}
		b.links = append(b.links, at)
		b.add(confine.Step{Do: confine.OpSymlink, Source: workspaceDir, Target: at, Why: "files of the workspace may name it by its path on the host"})
	}
}
