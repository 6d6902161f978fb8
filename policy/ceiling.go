package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Ceiling is the most that a principal's specs may ask for. A field that is left out
// allows only the default or, if it has none, nothing: the zero Ceiling refuses every
// spec, because no workspace is allowed.
//
//	workspace: [{source: /srv/agents, mode: rw}]
//	mounts: [{source: /usr/share/data, mode: ro}]
//	limits: {memory: 1GiB, processes: 256, timeout: 10m}
//
// Sources are compared as text, directory by directory: "/srv" contains
// "/srv/a" but not "/srv2". Ceilings do not check where links in an allowed directory
// lead, although everybody with write access to the directory can make links there.
// Therefore the backend follows no link under a ceiling.
//
// [Spec.Env] and [Spec.Hostname] have no effect outside of the sandbox, and have no
// ceiling, but there is one for the variables of the host that may be passed on.
type Ceiling struct {
	// Backends that may be named. Default: "linux".
	Backends []string `json:"backends,omitempty"`
	// Levels that may be named. Default: "full".
	Levels []string `json:"levels,omitempty"`
	// Seccomp are the profiles that may be named. Default: "default" and
	// "strict".
	Seccomp []string `json:"seccomp,omitempty"`
	// RootFS is "host" and directories: a spec may name any path in them.
	// Default: "host".
	RootFS []string `json:"rootfs,omitempty"`
	// Workspace contains the directories that may be a workspace. No default.
	Workspace []Place `json:"workspace,omitempty"`
	// Unprotected are the protected paths of the workspace that may be opened,
	// "*" for all. Default: none.
	Unprotected []string `json:"unprotected,omitempty"`
	// Mounts contains the sources that may be mounted, at HOME too. Default: none.
	Mounts []Place `json:"mounts,omitempty"`
	// Network are the networks that may be used, by name or by default: "none",
	// "allow", "host", "engine" ([NetworkEngine]). Default: "none".
	Network []string `json:"network,omitempty"`
	// NetworkRules are the most that rules of network "allow" may open: each rule of a spec
	// must lie in one of them, with all its ports. "**" contains every name and no address.
	// Default: none.
	NetworkRules []NetworkRule `json:"network_rules,omitempty"`
	// SSHAgent is the most that specs may have of the caller's SSH agent. Default: none of
	// it.
	SSHAgent *SSHAgent `json:"ssh_agent,omitempty"`
	// HostSockets are the sockets of the host that [Spec].HostSockets may name. Default: none.
	HostSockets []string `json:"host_sockets,omitempty"`
	// HostPorts are the ports of the host's loopback that [Network].HostPorts may name, where
	// Network has "allow". Default: none.
	HostPorts []Port `json:"host_ports,omitempty"`
	// Publish are the ports of a sandbox that may be published: the port inside, "3000", or
	// [PublishAny]. The host then listens on a loopback address of the sandbox's own; only an
	// entry as in [Network].Publish with an address allows that very entry. Default: none.
	Publish []string `json:"publish,omitempty"`
	// Env are the variables of the caller's environment that may be passed on,
	// by name; "LC_*" stands for all that start with "LC_". Default: none.
	Env []string `json:"env,omitempty"`
	// AllowDegraded are the words of [Degradations] that may be used. Default:
	// none.
	AllowDegraded []string `json:"allow_degraded,omitempty"`
	// Docker, Codex and Wrapper bound the options of the backends of these
	// names, which Backends must name too. Without them next to nothing may be
	// written there.
	Docker  *DockerCeiling  `json:"docker,omitempty"`
	Codex   *CodexCeiling   `json:"codex,omitempty"`
	Wrapper *WrapperCeiling `json:"wrapper,omitempty"`
	// Redaction are rules that hold for every spec, before its own. A spec
	// cannot take them away or replace them.
	Redaction []Redaction `json:"redaction,omitempty"`
	// Limits are maxima. One that is left out has its default as its maximum; those without a
	// default, such as Memory and Timeout, have no maximum then. A spec that does not set a limit
	// gets the maximum, or the limit's own default if that is less.
	//
	// That is safe, because each limit is enforced or the sandbox is refused: even a
	// spec without a memory limit is refused on a host that cannot enforce the maximum.
	// Disk is set only for workspaces of mode "copy", since no other mode has such
	// a bound. MemoryHigh is not set by default, and may not exceed Memory. Swap is
	// bounded if Memory is, by 0 if it is left out.
	Limits Limits `json:"limits,omitzero"`
	// Idle is the longest time after which a lasting sandbox that nobody uses is ended. Default:
	// [DefaultIdle].
	Idle Duration `json:"idle,omitempty"`
	// Lifetime is the longest time for which a lasting sandbox runs. Default: [DefaultLifetime].
	Lifetime Duration `json:"lifetime,omitempty"`
}

// The times of lasting sandboxes under a ceiling.
const (
	DefaultIdle     = Duration(time.Hour)
	DefaultLifetime = Duration(7 * 24 * time.Hour)
	// MaxLasting is the most that a ceiling may say: as a lifetime it is no bound.
	MaxLasting = Duration(10 * 365 * 24 * time.Hour)
)

// Place is a directory, or a file, of the host, with all that is below it.
type Place struct {
	// Source is an absolute path.
	Source string `json:"source"`
	// Mode is "ro" (default) or "rw": what commands may do with it. A workspace
	// of mode "copy" or "overlay" only reads its source.
	Mode string `json:"mode,omitempty"`
}

// DockerCeiling is the most that a spec may ask for of backend "docker". A name
// that ends in "*" is all that start so.
type DockerCeiling struct {
	// Binary are the command lines that may be named. Default: "docker".
	Binary []string `json:"binary,omitempty"`
	// Images are those that may be named, "debian:*" say. Default: [DefaultImage].
	Images []string `json:"images,omitempty"`
	// Users are those that may be named. Default: none, which leaves the owner
	// of the workspace.
	Users []string `json:"users,omitempty"`
	// ExtraRunArgs are the arguments that may be given, each as it is. They can
	// undo every wall. Default: none.
	ExtraRunArgs []string `json:"extra_run_args,omitempty"`
}

// CodexCeiling is the most that a spec may ask for of backend "codex".
type CodexCeiling struct {
	// Binary are the command lines that may be named. Default: "codex".
	Binary []string `json:"binary,omitempty"`
	// ConfigOverrides are the settings that may be given, "key" with any value
	// or "key=JSON" with this one. They can undo every wall. Default: none.
	ConfigOverrides []string `json:"config_overrides,omitempty"`
}

// WrapperCeiling is the most that a spec may ask for of backend "wrapper".
type WrapperCeiling struct {
	// Commands are those that may be named, each with all its arguments.
	// Default: none.
	Commands [][]string `json:"commands,omitempty"`
	// Agents are the paths of agents that may be named beside "shared" and
	// "upload". Default: none.
	Agents []string `json:"agents,omitempty"`
	// Workspaces are the directories behind the wall that a spec may name.
	// Default: none.
	Workspaces []string `json:"workspaces,omitempty"`
}

// NetworkEngine is the word of [Ceiling].Network for the default network of an
// engine, which [Docker].NetworkEnabled asks for.
const NetworkEngine = "engine"

// maxAllowed bounds each list of a ceiling.
const maxAllowed = 1024

// Validate refuses words and paths that are not valid in a spec, maxima that are not valid
// limits, and fields that contradict each other. The error joins one [*FieldError] for each,
// with the field of the ceiling.
func (c *Ceiling) Validate() error {
	var r resolver
	r.words("backends", c.Backends, Backends()...)
	r.words("levels", c.Levels, LevelFull, LevelLandlock)
	r.words("seccomp", c.Seccomp, "default", "strict", "debug")
	r.words("network", c.Network, NetworkNone, NetworkAllow, NetworkHost, NetworkEngine)
	r.networkRules("network_rules", Network{Allow: c.NetworkRules}.Clone().Allow, false)
	if len(c.NetworkRules) > 0 && !slices.Contains(c.Network, NetworkAllow) {
		r.refuse("network_rules", "", "network does not allow them", "name allow in network too")
	}
	if c.SSHAgent != nil {
		r.sshKeys("ssh_agent.keys", c.SSHAgent.Keys)
		if !slices.Contains(c.Network, NetworkAllow) {
			r.refuse("ssh_agent", "", "network does not allow rules, which say where keys may be used", "name allow in network too")
		}
	}
	r.hostPorts("host_ports", c.HostPorts)
	if len(c.HostPorts) > 0 && !slices.Contains(c.Network, NetworkAllow) {
		r.refuse("host_ports", "", "network does not allow them", "name allow in network too")
	}
	r.hostSocketPaths("host_sockets", c.HostSockets)
	r.publish("publish", c.Publish)
	r.roots(c.RootFS)
	r.places("workspace", c.Workspace)
	r.places("mounts", c.Mounts)
	if len(c.Workspace) == 0 && !slices.Equal(c.Backends, []string{BackendWrapper}) { // behind which it may be elsewhere
		r.refuse("workspace", "", "no directory may be a workspace, and every spec has one", "name one: [{source: /srv/agents, mode: rw}]")
	}
	if len(c.Unprotected) > maxAllowed {
		r.tooMany("unprotected")
	} else {
		r.opened("unprotected", c.Unprotected)
	}
	names := c.Env
	if len(names) > maxAllowed {
		r.tooMany("env")
		names = nil
	}
	for i, name := range names {
		if prefix, all := strings.CutSuffix(name, "*"); !isEnvName(prefix) && (!all || prefix != "") {
			r.refuse(index("env", i), name, "a name is letters, digits and underscores, and may end in *", "")
		}
	}
	r.degradations(c.AllowDegraded)
	r.optionLists(c)
	r.redaction(c.Redaction)
	r.limits(c.Limits)
	r.memory(c.Limits)
	for _, t := range []struct {
		field string
		most  Duration
	}{{"idle", c.Idle}, {"lifetime", c.Lifetime}} {
		if t.most < 0 || t.most > MaxLasting {
			r.refuse(t.field, t.most.String(), "it is not from 0 to "+MaxLasting.String(), "")
		}
	}
	landlock := slices.Contains(c.Levels, LevelLandlock)
	if slices.Contains(c.AllowDegraded, DegradeNamespaces) && !landlock {
		r.refuse("allow_degraded", DegradeNamespaces, "it gives the landlock level, which levels does not allow", "name landlock in levels too")
	}
	if landlock && c.Limits.Tmp > 0 {
		r.refuse("limits.tmp", c.Limits.Tmp.String(), "the landlock level, which levels allows, cannot keep it", "leave one of the two out")
	}
	return errors.Join(r.errs...)
}

func (r *resolver) tooMany(field string) {
	r.refuse(field, "", "it has more than "+strconv.Itoa(maxAllowed)+" entries", "")
}

// words refuses a list that holds anything but the known words, and an empty one:
// leaving it out means the default, so that an empty list must mean something else.
func (r *resolver) words(field string, list []string, known ...string) {
	switch {
	case list == nil:
	case len(list) == 0:
		r.refuse(field, "", "it allows nothing, and every spec needs one", "leave it out for the default")
	case len(list) > maxAllowed:
		r.tooMany(field)
	}
	for i, word := range list[:min(len(list), maxAllowed)] {
		if !slices.Contains(known, word) {
			r.refuse(index(field, i), word, "unknown value", "the words are "+strings.Join(known, ", "))
		}
	}
}

// roots checks Ceiling.RootFS.
func (r *resolver) roots(list []string) {
	const field = "rootfs"
	if list != nil && len(list) == 0 {
		r.words(field, list)
	}
	if len(list) > maxAllowed {
		r.tooMany(field)
		return
	}
	for i, root := range list {
		if root != RootHost {
			r.place(index(field, i), root)
		}
	}
}

// places checks a list of places.
func (r *resolver) places(field string, places []Place) {
	if len(places) > maxAllowed {
		r.tooMany(field)
		return
	}
	modes := make(map[string]bool, len(places))
	for i, p := range places {
		at := index(field, i)
		r.place(at+".source", p.Source)
		mode := p.Mode
		choose(r, at+".mode", &mode, "ro", "rw")
		if modes[p.Source] {
			r.refuse(at+".source", p.Source, "it is there twice", "rw allows ro, too")
		}
		modes[p.Source] = true
	}
}

// place checks an absolute path of the host.
func (r *resolver) place(field, source string) {
	reason, hint := checkPath(source)
	switch {
	case reason != "":
	case !path.IsAbs(source):
		reason = "it is not an absolute path"
	case path.Clean(source) != source:
		reason, hint = "it is not a clean path", "write "+quoteShort(path.Clean(source))
	case within(source, kernelDirs) != "":
		reason = within(source, kernelDirs) + " belongs to the kernel, and no spec can have it"
	}
	if reason != "" {
		r.refuse(field, source, reason, hint)
	}
}

// optionLists checks the lists for the options of backends.
func (r *resolver) optionLists(c *Ceiling) {
	lists := map[string][]string{}
	if d := c.Docker; d != nil {
		lists["docker.binary"], lists["docker.images"] = d.Binary, d.Images
		lists["docker.users"], lists["docker.extra_run_args"] = d.Users, d.ExtraRunArgs
	}
	if x := c.Codex; x != nil {
		lists["codex.binary"], lists["codex.config_overrides"] = x.Binary, x.ConfigOverrides
	}
	if w := c.Wrapper; w != nil {
		lists["wrapper.agents"], lists["wrapper.workspaces"] = w.Agents, w.Workspaces
		if len(w.Commands) > maxAllowed {
			r.tooMany("wrapper.commands")
		}
		for i, command := range w.Commands[:min(len(w.Commands), maxAllowed)] {
			if len(command) == 0 {
				r.refuse(index("wrapper.commands", i), "", "it is empty", "")
			}
		}
	}
	for _, field := range slices.Sorted(maps.Keys(lists)) {
		list := lists[field]
		if len(list) > maxAllowed {
			r.tooMany(field)
		}
		for i, entry := range list[:min(len(list), maxAllowed)] {
			if entry == "" {
				r.refuse(index(field, i), "", "it is empty", "")
			}
		}
	}
	written := map[string]bool{BackendDocker: c.Docker != nil, BackendCodex: c.Codex != nil, BackendWrapper: c.Wrapper != nil}
	for _, name := range Backends() {
		if written[name] && !slices.Contains(c.Backends, name) {
			r.refuse(name, "", "backends does not allow backend "+name, "name it in backends too")
		}
	}
}

// Explicit returns the ceiling with the maxima that it leaves to defaults written out.
func (c *Ceiling) Explicit() *Ceiling {
	own := *c
	own.Limits = c.Limits.explicit()
	if slices.Contains(c.Levels, LevelLandlock) {
		own.Limits.Tmp = c.Limits.Tmp // which that level cannot keep
	}
	own.Idle, own.Lifetime = cmp.Or(c.Idle, DefaultIdle), cmp.Or(c.Lifetime, DefaultLifetime)
	return &own
}

// Ceiling returns a ceiling that allows everything that this spec asks for: its workspace
// and directories below it, its mounts, its network, its backend with the options that are
// set, and its limits. It also allows stricter settings: no network, level "full", profiles
// "default" and "strict". Variables of the host's environment are not passed on.
//
// Sources must be absolute, as [Spec.Resolve] makes them. A ceiling has no rules for
// commands: to preserve these, specs must be made from this one.
func (s Spec) Ceiling() (*Ceiling, error) {
	if s.Network.Mode == NetworkObserve {
		return nil, &FieldError{Field: "network", Value: NetworkObserve, Reason: "it is for the operator alone: others cannot be given it", Hint: "name the hosts: `network.allow` HOST"}
	}
	backend := cmp.Or(s.Backend, DefaultBackend)
	c := &Ceiling{
		Backends:      []string{backend},
		Levels:        words(LevelFull, s.Level),
		Seccomp:       words("default", "strict", s.Seccomp),
		RootFS:        []string{cmp.Or(s.RootFS, RootHost)},
		Unprotected:   slices.Clone(s.Workspace.Unprotected),
		Network:       words("none", s.asksNetwork()),
		NetworkRules:  s.Network.Clone().Allow,
		SSHAgent:      s.SSHAgent.Clone(),
		HostSockets:   slices.Clone(s.HostSockets),
		HostPorts:     slices.Clone(s.Network.HostPorts),
		Publish:       slices.Clone(s.Network.Publish),
		AllowDegraded: words(append(harmless(s.Limits), s.AllowDegraded...)...),
		Redaction:     slices.Clone(s.Redaction),
		Limits:        s.Limits,
	}
	if w := s.Workspace; w.Source != "" {
		mode := "rw"
		if !w.Stays() {
			mode = "ro" // its source is only read
		}
		c.Workspace = []Place{{w.Source, mode}}
	}
	c.Mounts = places(s.Mounts)
	if s.Home != "" && s.Home != HomeKeep {
		c.Mounts = places(append(slices.Clone(s.Mounts), Mount{Source: s.Home, Mode: "rw"}))
	}
	switch backend {
	case BackendDocker:
		c.docker(s)
	case BackendCodex:
		c.codex(s)
	case BackendWrapper:
		c.wrapper(s)
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c, nil
}

// harmless returns the degradations of limits that the spec leaves open: a limit
// that need not be asked for may also be weaker.
func harmless(l Limits) []string {
	var all []string
	if l.Memory == 0 {
		all = append(all, DegradeMemory, DegradeSwap)
	}
	if l.Processes == 0 {
		all = append(all, DegradeProcesses) // as by default
	}
	if l.CPUs == 0 {
		all = append(all, DegradeCPUs)
	}
	return all
}

// words returns those that are not empty, each once.
func words(list ...string) []string {
	var all []string
	for _, word := range list {
		if word != "" && !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	return all
}

// places returns the sources of mounts, each in the mode that allows most.
func places(mounts []Mount) []Place {
	var all []Place
	for _, m := range mounts {
		mode := cmp.Or(m.Mode, "ro")
		i := slices.IndexFunc(all, func(p Place) bool { return p.Source == m.Source })
		switch {
		case i < 0:
			all = append(all, Place{m.Source, mode})
		case mode == "rw":
			all[i].Mode = mode
		}
	}
	return all
}

func (c *Ceiling) docker(s Spec) {
	c.Docker = &DockerCeiling{}
	d := s.Docker
	if d == nil {
		return
	}
	if d.NetworkEnabled {
		c.Network = words(append(c.Network, NetworkEngine)...)
	}
	// Only the spec's own values are allowed, so an image's name must not end in "*".
	c.Docker.Binary, c.Docker.Images, c.Docker.Users = exactly(d.Binary), exactly(d.Image), exactly(d.User)
	c.Docker.ExtraRunArgs = slices.Clone(d.ExtraRunArgs)
}

func (c *Ceiling) codex(s Spec) {
	c.Codex = &CodexCeiling{}
	if x := s.Codex; x != nil {
		c.Codex.Binary = exactly(x.Binary)
		for _, key := range slices.Sorted(maps.Keys(x.ConfigOverrides)) {
			if value, err := json.Marshal(x.ConfigOverrides[key]); err == nil {
				c.Codex.ConfigOverrides = append(c.Codex.ConfigOverrides, key+"="+string(value))
			}
		}
	}
}

func (c *Ceiling) wrapper(s Spec) {
	c.Wrapper = &WrapperCeiling{}
	if w := s.Wrapper; w != nil {
		c.Wrapper.Commands = [][]string{slices.Clone(w.Command)}
		c.Wrapper.Agents, c.Wrapper.Workspaces = exactly(w.Agent), exactly(w.Workspace)
	}
}

// exactly returns a list that allows one word alone; nil, which allows the default,
// for the empty one.
func exactly(word string) []string {
	if word == "" {
		return nil
	}
	return []string{word}
}
