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
	"github.com/paddock-dev/paddock/policy"
)

const (
	workspaceDir = policy.WorkspacePath
	homeDir      = policy.HomePath
	userName     = "agent"
	rootSize     = 16 << 20 // of the root's own tmpfs: mount points and a few small files
	runSize      = 16 << 20
)

// Capabilities, in the sandbox's own user namespace: what building the walls
// takes, and what the agent keeps (see package agent). Commands have none.
var (
	setupCaps = []string{"setpcap", "net_admin", "sys_admin", "sys_ptrace", "sys_resource"}
	keptCaps  = []string{"sys_admin", "sys_ptrace"}
)

// builder collects a plan's steps.
type builder struct {
	plan   *confine.Plan
	spec   policy.Spec
	mounts []hostpath.Mount
	pinned map[string]bool // mount points that are there to stay
	fixed  map[string]bool // paths that are read-only with all that is in them
	copies []ownCopy       // files of which commands have a copy
	last   []confine.Step  // that follow once all is mounted
	abi    int             // of Landlock
	groups hierarchy
}

func (b *builder) add(s confine.Step) { b.plan.Setup = append(b.plan.Setup, s) }

// newPlan turns a resolved spec into the steps that keep it.
func newPlan(spec policy.Spec, id identity, req backend.Request, mounts []hostpath.Mount, groups hierarchy, group string) (*builder, error) {
	b := &builder{spec: spec, mounts: mounts, pinned: map[string]bool{}, fixed: map[string]bool{}, abi: confine.LandlockABI(), groups: groups, plan: &confine.Plan{
		Version:    confine.PlanVersion,
		Namespaces: namespaces(spec),
		Env:        environment(spec),
		Workspace:  workspaceDir,
	}}
	b.searchPath(req)
	b.plan.UIDs, b.plan.GIDs = id.maps()
	b.plan.Holds = holds(spec, id, b.plan.Namespaces)
	b.plan.Redaction = spec.Redaction
	if err := b.limits(spec.Limits); err != nil {
		return nil, err
	}
	b.process(spec)
	if err := b.root(spec); err != nil {
		return nil, err
	}
	b.dev(spec)
	b.private(spec)
	b.useGroup(group)
	b.userPaths(id)
	for _, l := range homeLinks(req.Home, mounts) { // behind all mounts, none of which passes through one
		b.add(confine.Step{Do: confine.OpSymlink, Source: l.text, Target: path.Join(homeDir, l.rel), Why: "what is mounted below the caller's home is found below HOME, too"})
	}
	if err := b.guard(req); err != nil {
		return nil, err
	}
	b.finish()
	if err := b.spawn(spec); err != nil {
		return nil, err
	}
	return b, nil
}

func namespaces(spec policy.Spec) []confine.Namespace {
	all := []confine.Namespace{confine.NSUser, confine.NSMount, confine.NSPID, confine.NSIPC, confine.NSUTS, confine.NSCgroup}
	if spec.Network == "none" {
		all = append(all, confine.NSNet)
	}
	return all
}

// environment returns the base environment of every command: nothing of the
// caller's comes in unless the spec says so.
func environment(spec policy.Spec) map[string]string {
	env := map[string]string{
		"PATH":    policy.SearchPath,
		"HOME":    homeDir,
		"USER":    userName,
		"LOGNAME": userName,
		"SHELL":   "/bin/sh",
		"LANG":    "C.UTF-8",
	}
	maps.Copy(env, spec.OfflineEnv())
	maps.Copy(env, spec.Env)
	return env
}

func (b *builder) process(spec policy.Spec) {
	b.add(confine.Step{Do: confine.OpReset, Why: "inherited personality, core dumps and dumpability go"})
	b.add(confine.Step{Do: confine.OpSysctl, Target: "user/max_user_namespaces", Source: "0", Optional: true,
		Why: "no user namespace can be made inside"})
	for _, w := range watching {
		b.add(confine.Step{Do: confine.OpSysctl, Target: "user/" + w.limit, Source: strconv.Itoa(w.bound()), Optional: true,
			Why: "the host's user, whose count this is too, keeps some"})
	}
	b.add(confine.Step{Do: confine.OpHostname, Source: spec.Hostname, Why: "the host's name is not visible"})
	if spec.Network == "none" {
		b.add(confine.Step{Do: confine.OpLoopback, Why: "programs can talk to themselves"})
	}
}

var (
	roDir  = []string{confine.FlagReadOnly, confine.FlagNoSuid, confine.FlagNoDev}
	scrape = []string{confine.FlagNoSuid, confine.FlagNoDev}
)

// filled returns the flags of what commands can fill. Where the spec says which
// programs they may call, nothing that they made can be one, not even by way
// of the loader or as a library.
func (b *builder) filled() []string {
	if b.spec.Commands == nil {
		return scrape
	}
	return append(slices.Clone(scrape), confine.FlagNoExec)
}

// deviceNodes are those that programs cannot do without. None reaches
// anything of the host's.
var deviceNodes = []string{"null", "zero", "full", "random", "urandom", "tty"}

func (b *builder) dev(spec policy.Spec) {
	for _, name := range deviceNodes {
		b.add(confine.Step{Do: confine.OpBind, Source: "/dev/" + name, Target: "/dev/" + name,
			Flags: []string{confine.FlagNoSuid, confine.FlagNoExec}, Why: "a harmless device"})
	}
	b.add(confine.Step{Do: confine.OpDevpts, Target: "/dev/pts", Flags: []string{confine.FlagNoSuid, confine.FlagNoExec}, Why: "terminals of its own"})
	b.add(confine.Step{Do: confine.OpTmpfs, Target: "/dev/shm", Mode: 0o1777, Size: int64(spec.Limits.Tmp),
		Flags: []string{confine.FlagNoSuid, confine.FlagNoDev, confine.FlagNoExec}, Why: "shared memory of its own"})
	for _, link := range [][2]string{{"ptmx", "pts/ptmx"}, {"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"},
		{"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"}} {
		b.add(confine.Step{Do: confine.OpSymlink, Source: link[1], Target: "/dev/" + link[0], Why: "usual names"})
	}
}

// private makes the places that commands may fill, and the empty places that
// programs expect to exist.
func (b *builder) private(spec policy.Spec) {
	b.add(confine.Step{Do: confine.OpTmpfs, Target: policy.TmpPath, Mode: 0o1777, Size: int64(spec.Limits.Tmp), Flags: b.filled(), Why: "temporary files of its own, bounded"})
	b.add(confine.Step{Do: confine.OpTmpfs, Target: homeDir, Mode: 0o700, Size: int64(spec.Limits.Tmp), Flags: b.filled(), Why: "a home of its own, bounded"})
	b.add(confine.Step{Do: confine.OpSymlink, Source: policy.TmpPath, Target: "/var/tmp", Why: "usual names"})
	b.add(confine.Step{Do: confine.OpTmpfs, Target: "/run", Mode: 0o755, Size: runSize,
		Flags: []string{confine.FlagNoSuid, confine.FlagNoDev, confine.FlagNoExec}, Why: "secrets and state of running programs, bounded"})
	for _, dir := range []string{"/mnt", "/root", "/srv"} {
		b.add(confine.Step{Do: confine.OpMkdir, Target: dir, Mode: 0o755, Why: "nothing of the host's"})
	}
}

// userPaths shows what the user named, at its owner's identity.
func (b *builder) userPaths(id identity) {
	for i, m := range b.mounts {
		if m.Copied {
			b.copyOf(i, m, id)
			continue
		}
		s := confine.Step{Do: confine.OpBind, Source: m.Source, Target: m.Target, ID: m.ID.FileID, Flags: b.filled(), Why: "named in the spec, read-write"}
		if !m.Writable {
			s.Flags, s.Why = roDir, "named in the spec, read-only"
		}
		s.Flags = append(slices.Clone(s.Flags), confine.FlagResolved, confine.FlagBelowRO)
		if m.Field == "workspace.source" {
			s.Why = strings.Replace(s.Why, "named in the spec", "the workspace", 1)
		}
		if id.kind == idmap {
			s.FD = fmt.Sprintf("mount%d", i)
			b.plan.Files = append(b.plan.Files, s.FD)
			s.Why += ", id-mapped so that files keep their owner"
		}
		if outer := enclosing(m, b.mounts); outer != nil {
			s.Flags = append(s.Flags, confine.FlagExisting)
			s.Hint = "the mount point must exist: " + m.Target + " lies in " + outer.Source
		}
		b.add(s)
	}
}

// copyOf gives commands a copy of a mount's content, in a file system of its
// own that bounds it.
func (b *builder) copyOf(i int, m hostpath.Mount, id identity) {
	b.add(confine.Step{Do: confine.OpTmpfs, Target: m.Target, Mode: 0o755, Size: int64(b.spec.Limits.Disk), Flags: b.filled(),
		Why: "the workspace is a copy in memory, bounded"})
	s := confine.Step{Do: confine.OpCopy, Source: m.Source, Target: m.Target, Flags: append(slices.Clone(roDir), confine.FlagResolved),
		Why: "its content, without owners, sockets and devices"}
	if id.kind == idmap {
		s.FD = fmt.Sprintf("mount%d", i)
		b.plan.Files = append(b.plan.Files, s.FD)
	}
	b.add(s)
}

// enclosing returns the other mount in which a mount's target lies, if any.
func enclosing(m hostpath.Mount, all []hostpath.Mount) *hostpath.Mount {
	for i := range all {
		if _, ok := hostpath.Within(m.Target, all[i].Target); ok && m.Target != all[i].Target {
			return &all[i]
		}
	}
	return nil
}

func (b *builder) finish() {
	b.maskProc()
	b.add(confine.Step{Do: confine.OpPivot, Why: "no path leads back to the host"})
	b.plan.Setup = append(b.plan.Setup, b.last...)
	b.add(confine.Step{Do: confine.OpReadOnly, Target: "/", Why: "the root itself is fixed"})
	b.add(confine.Step{Do: confine.OpCaps, Caps: keptCaps, Why: "the agent keeps what marking and finding process trees takes; commands have no capability"})
}

// spawn confines the thread that commands come from.
func (b *builder) spawn(spec policy.Spec) error {
	add := func(s confine.Step) { b.plan.Spawn = append(b.plan.Spawn, s) }
	add(confine.Step{Do: confine.OpKeyring, Why: "the caller's keys are out of reach"})
	add(confine.Step{Do: confine.OpNoNew, Why: "no program can gain privileges"})
	if err := b.landlock(spec); err != nil {
		return err
	}
	return b.filters()
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

func holds(spec policy.Spec, id identity, ns []confine.Namespace) policy.Isolation {
	iso := policy.Isolation{
		Backend:      "linux",
		Level:        spec.Level,
		UIDInside:    insideID,
		UIDHost:      id.uid,
		KeptGroups:   id.groups,
		Identity:     id.kind,
		Network:      spec.Network,
		Capabilities: "none",
		NoNewPrivs:   true,
		Seccomp:      spec.Seccomp,
		Landlock:     "none",
		Cgroup:       "none",
		Workspace:    spec.Workspace.Mode,
		RootFS:       spec.RootFS,
		NestedUserns: "sysctl+seccomp",
		Death:        "pidns+uts",
	}
	for _, n := range ns {
		iso.Namespaces = append(iso.Namespaces, string(n))
	}
	return iso
}

// degrade notes that something is weaker than written, which the spec allows.
func (b *builder) degrade(name string) {
	h := &b.plan.Holds
	h.Degraded = append(h.Degraded, name)
	for _, d := range policy.Degradations() {
		if d.Name == name {
			h.Lost = append(h.Lost, d.Loss)
		}
	}
}

// mountPoints is every place where the plan mounts something, as it is in the
// end, for the check from outside.
func mountPoints(p *confine.Plan) map[string]confine.Step {
	at := map[string]confine.Step{}
	for _, s := range p.Setup {
		switch s.Do {
		case confine.OpBind, confine.OpSelf, confine.OpOwnCopy, confine.OpTmpfs, confine.OpDevpts, confine.OpProc:
			at[path.Clean(s.Target)] = s
		case confine.OpReadOnly:
			made := at[path.Clean(s.Target)]
			made.Flags = append(slices.Clone(made.Flags), confine.FlagReadOnly)
			at[path.Clean(s.Target)] = made
		}
	}
	return at
}

// homeLink is a symbolic link in HOME, by its path there.
type homeLink struct{ rel, text string }

// homeLinks are those that show mounts below the caller's home below HOME, too, where
// programs look for them: ~ means the same on both sides. home may be empty. None lies
// in another one, or where something else is mounted.
func homeLinks(home string, mounts []hostpath.Mount) []homeLink {
	var links []homeLink
	for _, m := range mounts[1:] { // the workspace is elsewhere
		rel, ok := hostpath.Within(m.Target, home)
		if !ok || home == "" || home == "/" || rel == "" {
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
