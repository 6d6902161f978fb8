//go:build linux

package linux

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

// The landlock level is for hosts that do not allow user namespaces:
// containers, desktops whose AppArmor restricts them, the inside of another
// sandbox. The agent is an ordinary process of the host; a Landlock domain, a
// stricter system call filter and rlimits confine commands. This is weaker
// (landlockLosses lists how), so it is used only if the spec names it.

// caller is the kind of identity in which commands have the caller's own id.
const caller = "caller"

// landlockLosses lists what level full promises and the landlock level does not.
var landlockLosses = []string{
	"names, sizes, modes and times of the host's files can be seen, and modes, times and attributes of the caller's own files changed, wherever they are",
	"other processes, their command lines and their load can be seen; they cannot be signalled or traced",
	"what /proc tells about the machine can be read: connections, mounts, interrupts, the names of the caller's keys",
	"paths of the workspace that the host executes or obeys are not protected: what was changed is reported at the end",
	"there is no loopback, no /tmp, no shared memory and no terminal that commands could make: TMPDIR and HOME are private directories on the host's disk, unbounded",
	"inotify instances and watches are the caller's: commands can use all of them up",
	"a process that hides from the search for what a command has left, while others run, lives on until the sandbox ends: the result then does not say that death is proved",
	"a program that survives the agent being killed from outside is not ended",
}

// landlockPlan turns a resolved spec of the landlock level into the steps that enforce it.
func landlockPlan(req backend.Request, id identity, mounts []hostpath.Mount, groups hierarchy, group, scratch string) (*builder, error) {
	spec := req.Spec
	b := &builder{spec: spec, mounts: mounts, pinned: map[string]bool{}, abi: confine.LandlockABI(), groups: groups, plan: &confine.Plan{
		Version:   confine.PlanVersion,
		Env:       environment(req),
		Workspace: mounts[0].Source,
		Scratch:   scratch,
	}}
	if b.abi < confine.LandlockScopesABI {
		return nil, backend.Failed("plan", "level landlock", "", fmt.Errorf("the kernel's Landlock ABI is %d, and %d is needed to keep commands from signalling others and from abstract sockets", b.abi, confine.LandlockScopesABI),
			"use level full, or a kernel from 6.12 on with landlock among its security modules")
	}
	b.plan.Env["HOME"], b.plan.Env["TMPDIR"] = path.Join(scratch, scratchHome), path.Join(scratch, scratchTmp)
	if spec.Home != "" {
		b.plan.Env["HOME"] = spec.Home
	}
	if u, err := user.LookupId(strconv.FormatUint(uint64(id.uid), 10)); err == nil {
		b.plan.Env["USER"], b.plan.Env["LOGNAME"] = u.Username, u.Username
	}
	maps.Copy(b.plan.Env, spec.Env) // which may set these too
	if err := b.outOfReach(req, scratch); err != nil {
		return nil, err
	}
	b.searchPath(req)
	b.plan.Holds = plannedIsolation(req, id, nil)
	b.plan.Holds.Toolchains = req.Toolchains.Shown
	b.plan.Redaction = spec.Redaction
	h := &b.plan.Holds
	h.UIDInside, h.NestedUserns, h.Death, h.Namespaces = id.uid, "seccomp", "descent", []string{}
	h.Lost = append(h.Lost, landlockLosses...)
	if err := b.limits(spec.Limits); err != nil {
		return nil, err
	}
	b.add(confine.Step{Do: confine.OpReset, Flags: []string{confine.FlagOutlive}, Why: "inherited personality, core dumps and dumpability go"})
	b.useGroup(group)
	b.add(confine.Step{Do: confine.OpCaps, Why: "neither the agent nor commands have a capability"})
	s := confine.Step{Do: confine.OpLandlock, Rules: b.hostRules(), Flags: []string{confine.FlagAbstract, confine.FlagSignal},
		Why: "the only files that commands may read, execute or change"}
	if spec.Network.Mode == policy.NetworkNone {
		s.Flags = append(s.Flags, confine.FlagTCP)
	}
	if err := b.onlyExecute(&s, spec.Commands); err != nil {
		return nil, err
	}
	b.holdsLandlock(s)
	b.plan.Spawn = append(b.plan.Spawn,
		confine.Step{Do: confine.OpKeyring, Why: "the caller's keys are out of reach"},
		confine.Step{Do: confine.OpNoNew, Why: "no program can gain privileges"},
		s)
	b.apart()
	if err := b.filters(); err != nil {
		return nil, err
	}
	b.plan.Spawn = append(b.plan.Spawn, confine.Step{Do: confine.OpShield, Why: "the agent's thread in the same domain cannot be signalled"})
	return b, nil
}

// hostRules allows commands to use the host's system directories and a few
// devices, and to change the paths that the user named.
func (b *builder) hostRules() []confine.PathRule {
	var rules []confine.PathRule
	add := func(access confine.Access, paths ...string) {
		for _, p := range paths {
			if state.Exists(p) {
				rules = append(rules, confine.PathRule{Path: p, Access: access})
			}
		}
	}
	add(confine.AccessExec, systemDirs...)
	for _, dir := range shownEtc() {
		add(confine.AccessRead, dir)
	}
	for _, f := range madeEtc(b.spec) {
		add(confine.AccessRead, "/etc/"+f.name)
	}
	add(confine.AccessRead, "/proc")
	for _, name := range deviceNodes {
		add(confine.AccessUse, "/dev/"+name)
	}
	// Not by add: the private directories may not exist yet.
	rules = append(rules, confine.PathRule{Path: path.Join(b.plan.Scratch, scratchHome), Access: confine.AccessAll},
		confine.PathRule{Path: path.Join(b.plan.Scratch, scratchTmp), Access: confine.AccessAll},
		confine.PathRule{Path: path.Join(b.plan.Scratch, confine.ScratchSecrets), Access: confine.AccessRead})
	for _, m := range b.mounts {
		access := confine.AccessExec
		if m.Writable {
			access = confine.AccessAll
		}
		rules = append(rules, confine.PathRule{Path: m.Source, Access: access, Resolved: true, ID: m.ID.FileID})
	}
	return rules
}

// outOfReach refuses a spec with which commands could change Paddock itself, or mounts
// of the host below writable paths: this level cannot cover anything.
func (b *builder) outOfReach(req backend.Request, scratch string) error {
	const level = "the landlock level"
	for _, m := range b.mounts {
		_, holds := hostpath.Within(hostpath.Future(scratch), m.Source)
		if _, inside := hostpath.Within(m.Source, hostpath.Future(scratch)); inside || holds {
			return hostpath.Refuse(m.Field, m.Source, "it shows Paddock's own state, which "+level+" cannot cover", "name another directory, or move the state with PADDOCK_STATE_DIR")
		}
	}
	covers, err := hostpath.Covers(req, b.mounts)
	if err == nil {
		err = hostpath.Refused(covers, b.mounts, level, "level full")
	}
	if err == nil {
		err = hostpath.NothingBelow(b.mounts, level)
	}
	return err
}

// landlockIdentity returns the identity of commands at the landlock level: the caller
// or, if that is root, the owner of everything that was named.
func landlockIdentity(spec policy.Spec, mounts []hostpath.Mount) (identity, error) {
	id := identity{kind: caller, uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	if id.uid == 0 {
		other, err := asOwner(mounts)
		if err == nil {
			return other, nil
		}
		if !spec.Allows(policy.DegradeIdentity) {
			return identity{}, backend.Failed("identity", "choose", "", fmt.Errorf("the caller is root, and %s belongs to root", mounts[0].Source),
				"run paddock as an ordinary user, use a workspace that one owns, or let commands keep uid 0, without capabilities: `allow_degraded`="+policy.DegradeIdentity)
		}
	}
	err := id.keepGroups()
	return id, err
}

// The directories in a scratch directory that commands use.
const (
	scratchHome = "home"
	scratchTmp  = "tmp"

	scratchPrefix = "paddock-"
)

// scratchPath returns the path of the private directories of a sandbox at the landlock
// level: in its state directory or, if root lends it another identity, in the temporary
// directory.
func (d *stateDir) scratchPath() string {
	if os.Geteuid() == 0 {
		return filepath.Join(os.TempDir(), scratchPrefix+d.ID)
	}
	return filepath.Join(d.Path, state.ScratchName)
}

// makeScratch makes the private directories, owned by the identity that uses them,
// with links in HOME.
func (d *stateDir) makeScratch(id identity, links []homeLink) error {
	d.scratch = d.scratchPath()
	names := []string{"", scratchHome, scratchTmp, confine.ScratchState, confine.ScratchSecrets}
	texts := map[string]string{}
	for _, l := range links {
		at := path.Join(scratchHome, l.rel)
		texts[at] = l.text
		above := []string{at}
		for dir := path.Dir(at); dir != scratchHome && !slices.Contains(names, dir); dir = path.Dir(dir) {
			above = append(above, dir)
		}
		slices.Reverse(above)
		names = append(names, above...)
	}
	for _, name := range names {
		at := filepath.Join(d.scratch, name)
		var err error
		if text, link := texts[name]; link {
			err = os.Symlink(text, at)
		} else {
			err = os.Mkdir(at, 0o700)
		}
		if err == nil && os.Geteuid() == 0 {
			err = os.Lchown(at, int(id.uid), int(id.gid))
		}
		if err != nil {
			return backend.Failed("state", "create", at, err, "")
		}
	}
	return nil
}

// cannotNest reports whether a start failed because the host does not allow making
// namespaces, or mounting file systems in them.
func cannotNest(err error) bool {
	var e *backend.StartError
	if !errors.As(err, &e) || e.Stage != "clone" && e.Stage != "setup" {
		return false
	}
	return !probeUserns().OK || !probeProc().OK
}

// landlock adds a second layer: if a mount ever shows more than it should, or is
// writable by mistake, commands still can use and change only these paths.
func (b *builder) landlock() error {
	s := confine.Step{Do: confine.OpLandlock, Why: "a second layer over mounts and namespaces"}
	if b.abi >= confine.LandlockFilesABI { // rules that grant what the mounts grant
		s.Rules = []confine.PathRule{
			{Path: "/", Access: confine.AccessExec},
			{Path: "/dev", Access: confine.AccessUse},
		}
		if b.spec.Seccomp == "debug" { // debuggers write to the memory of processes there
			s.Rules = append(s.Rules, confine.PathRule{Path: "/proc", Access: confine.AccessUse})
		}
		for _, dir := range append([]string{"/dev/shm", homeDir, "/run"}, b.tmp...) {
			s.Rules = append(s.Rules, confine.PathRule{Path: dir, Access: confine.AccessAll})
		}
		for _, m := range b.mounts {
			if m.Writable || m.Copied || m.Layered || m.Stored != nil && m.Stored.Ends {
				s.Rules = append(s.Rules, confine.PathRule{Path: m.Target, Access: confine.AccessAll})
			}
		}
	}
	if err := b.onlyExecute(&s, b.spec.Commands); err != nil {
		return err
	}
	switch {
	case b.abi >= confine.LandlockScopesABI:
		s.Flags = []string{confine.FlagAbstract, confine.FlagSignal}
	case b.spec.Network.Mode == policy.NetworkHost && !b.spec.Allows(policy.DegradeSockets):
		return backend.Failed("plan", "network host", "", fmt.Errorf("the kernel's Landlock ABI is %d, and %d is needed to keep commands from the host's abstract sockets", b.abi, confine.LandlockScopesABI),
			"use `network` none, a kernel from 6.12 on with landlock among its security modules, or `allow_degraded`="+policy.DegradeSockets)
	case b.spec.Network.Mode == policy.NetworkHost:
		b.degrade(policy.DegradeSockets)
	}
	b.ownSockets(&s)
	b.holdsLandlock(s)
	if len(s.Rules)+len(s.Flags) > 0 {
		b.plan.Spawn = append(b.plan.Spawn, s)
	}
	b.apart()
	return nil
}

// ownSockets keeps commands from Unix sockets of the host, by name, where the kernel can: from those
// that programs begin to listen at later, too. What commands bind themselves is in their own domain.
// In the sandbox's own directories the agent, or the egress process, may listen.
func (b *builder) ownSockets(s *confine.Step) {
	if b.abi < confine.LandlockSocketsABI {
		return
	}
	s.Flags = append(s.Flags, confine.FlagSockets)
	for _, dir := range append([]string{"/dev/shm", "/run"}, b.tmp...) {
		s.Rules = append(s.Rules, confine.PathRule{Path: dir, Access: confine.AccessConnect})
	}
	for _, m := range b.mounts {
		if m.Socket {
			s.Rules = append(s.Rules, confine.PathRule{Path: m.Target, Access: confine.AccessConnect})
		}
	}
}

// apart keeps commands from each other's memory, environments and descriptors.
// Those of the profile debug are meant to trace each other.
func (b *builder) apart() {
	if b.abi >= confine.LandlockFilesABI && b.spec.Seccomp != "debug" {
		b.plan.Spawn = append(b.plan.Spawn, confine.Step{Do: confine.OpApart, Why: "commands cannot look into each other's memory, environment and descriptors"})
	}
}

// holdsLandlock records in the isolation which restrictions a Landlock step enforces.
func (b *builder) holdsLandlock(s confine.Step) {
	var words []string
	if len(s.Rules) > 0 {
		words = append(words, "files")
	}
	if b.spec.Commands != nil && len(s.Rules) > 0 {
		words = append(words, "execute")
	}
	if words = append(words, s.Flags...); len(words) > 0 {
		b.plan.Holds.Landlock = strings.Join(words, " ")
	}
	b.plan.Holds.LandlockABI = b.abi
}

// onlyExecute restricts commands to executing the programs that the spec allows, if it
// lists any: it removes the right to execute from all rules of the step and adds rules
// for these programs.
//
// When a program is executed, the kernel checks the right for the file, its "#!"
// interpreter and its loader; it does not check libraries that are mapped. An
// interpreter that may be executed can do everything that any program could do.
func (b *builder) onlyExecute(s *confine.Step, c *policy.Commands) error {
	if c == nil {
		return nil
	}
	programs, err := b.execRules(c)
	if err != nil {
		return err
	}
	if len(s.Rules) == 0 {
		b.plan.Holds.Lost = append(b.plan.Holds.Lost, "the rules for commands are a matter of reading them alone: this kernel has no Landlock to keep a program that was started from executing others")
		return nil
	}
	for i, r := range s.Rules {
		switch r.Access {
		case confine.AccessExec:
			s.Rules[i].Access = confine.AccessRead
		case confine.AccessAll:
			s.Rules[i].Access = confine.AccessChange
		}
	}
	s.Rules = append(s.Rules, programs...)
	s.Why += "; the programs of commands.allow and what loads them alone can be executed, of which an interpreter can still do what any program could"
	return nil
}
