package policy

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

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
	// Workspaces are the directories behind the wall that may be named.
	// Default: none.
	Workspaces []string `json:"workspaces,omitempty"`
}

// NetworkEngine is the word of [Ceiling].Network for the default network of an
// engine, which [Docker].NetworkEnabled asks for.
const NetworkEngine = "engine"

// options refuses options of backends that are more than is allowed.
func (a *applier) options(s Spec) {
	if d := s.Docker; d != nil {
		a.docker(*d)
	}
	if c := s.Codex; c != nil {
		a.codex(*c)
	}
	if w := s.Wrapper; w != nil {
		a.wrapper(*w)
	}
}

func (a *applier) docker(d Docker) {
	var c DockerCeiling
	if a.c.Docker != nil {
		c = *a.c.Docker
	}
	a.name("docker.binary", "docker.binary", d.Binary, orDefault(c.Binary, BackendDocker))
	a.name("docker.image", "docker.images", d.Image, orDefault(c.Images, DefaultImage))
	a.name("docker.user", "docker.users", d.User, c.Users)
	for i, arg := range d.ExtraRunArgs {
		a.word(index("docker.extra_run_args", i), "docker.extra_run_args", arg, c.ExtraRunArgs)
	}
	if d.RemoveContainerOnExit != nil && !*d.RemoveContainerOnExit {
		a.refuse("docker.remove_container_on_exit", "docker", "false", "under a ceiling nothing is left behind", "leave it out")
	}
}

func (a *applier) codex(x Codex) {
	var c CodexCeiling
	if a.c.Codex != nil {
		c = *a.c.Codex
	}
	a.name("codex.binary", "codex.binary", x.Binary, orDefault(c.Binary, BackendCodex))
	for _, key := range slices.Sorted(maps.Keys(x.ConfigOverrides)) {
		value, err := json.Marshal(x.ConfigOverrides[key])
		if err == nil && slices.Contains(c.ConfigOverrides, key+"="+string(value)) {
			continue
		}
		a.word(FieldPath("codex.config_overrides", key), "codex.config_overrides", key, c.ConfigOverrides)
	}
}

func (a *applier) wrapper(w Wrapper) {
	var c WrapperCeiling
	if a.c.Wrapper != nil {
		c = *a.c.Wrapper
	}
	if !slices.ContainsFunc(c.Commands, func(allowed []string) bool { return slices.Equal(allowed, w.Command) }) {
		var known []string
		for _, command := range c.Commands {
			known = append(known, quoteShort(strings.Join(command, " ")))
		}
		hint := "nothing of that may be asked for"
		if len(known) > 0 {
			hint = "what may be asked for: " + strings.Join(known, ", ")
		}
		a.refuse("wrapper.command", "wrapper.commands", strings.Join(w.Command, " "), "the ceiling does not allow it", hint)
	}
	if w.Agent != AgentShared && w.Agent != AgentUpload {
		a.name("wrapper.agent", "wrapper.agents", w.Agent, c.Agents)
	}
	a.name("wrapper.workspace", "wrapper.workspaces", w.Workspace, c.Workspaces)
}

// name is word for what may be left out, and for lists whose entries may end
// in "*".
func (a *applier) name(field, rule, value string, allowed []string) {
	if value != "" && !slices.ContainsFunc(allowed, func(entry string) bool { return matches(entry, value) }) {
		a.word(field, rule, value, allowed)
	}
}

// matches says whether the entry of a ceiling is this name, or begins it.
func matches(entry, name string) bool {
	prefix, all := strings.CutSuffix(entry, "*")
	return entry == name || all && strings.HasPrefix(name, prefix)
}

// network is the network that a spec asks for, in the words of a ceiling;
// empty where its wrapper decides, which the ceiling knows by its command.
func (a *applier) network(s Spec) {
	if s.Docker != nil && s.Docker.NetworkEnabled {
		a.word("docker.network_enabled", "network", NetworkEngine, a.c.networks())
	}
	network := s.Network
	fill(&network, defaultNetwork(s))
	if network != "" {
		a.word("network", "network", network, a.c.networks())
	}
}

// optionLists refuses lists that cannot be meant.
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
