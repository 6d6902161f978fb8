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
)

// CeilingError is a field of a spec that asks for more than a ceiling allows.
type CeilingError struct {
	// Rule is the field of the ceiling, "ceiling.limits.memory".
	Rule string
	// FieldError has the field of the spec, its value, the reason for the refusal,
	// and what to write instead.
	FieldError
}

// Layer returns what refuses, as in a denial: "privilege".
func (e *CeilingError) Layer() string { return "privilege" }

// Unwrap returns the [*FieldError].
func (e *CeilingError) Unwrap() error { return &e.FieldError }

// Apply returns the spec with the ceiling's limits in place of limits that are not set, or
// an error that joins one [*CeilingError] for each field that asks for more than is
// allowed. It is called before [Spec.Resolve], which still checks the meaning of the spec.
// Sources must be absolute here, so that the author of a spec does not decide which
// directory relative sources start from.
//
// A nil ceiling allows everything: operators have none. An invalid one
// ([Ceiling.Validate]) allows nothing.
func (c *Ceiling) Apply(s Spec) (Spec, error) {
	if c == nil {
		return s, nil
	}
	if err := c.Validate(); err != nil {
		return Spec{}, err
	}
	a := applier{c: c}
	backend := cmp.Or(s.Backend, DefaultBackend)
	a.word("backend", "backends", backend, orDefault(c.Backends, DefaultBackend))
	if backend == BackendLinux || s.Level != "" {
		a.word("level", "levels", cmp.Or(s.Level, LevelFull), orDefault(c.Levels, LevelFull))
	}
	a.word("seccomp", "seccomp", cmp.Or(s.Seccomp, "default"), orDefault(c.Seccomp, "default", "strict"))
	a.network(s)
	if backend == BackendLinux || s.RootFS != "" {
		a.rootFS(cmp.Or(s.RootFS, RootHost))
	}
	a.sshAgent(s.SSHAgent)
	a.hostSockets(s.HostSockets)
	a.options(s)
	a.workspace(s)
	for i, m := range s.Mounts {
		a.source(index("mounts", i)+".source", "mounts", m.Source, m.Mode == "rw", c.Mounts)
	}
	if s.Home != "" && s.Home != HomeKeep {
		a.source("home", "mounts", s.Home, true, c.Mounts)
	}
	for i, name := range s.AllowDegraded {
		a.word(index("allow_degraded", i), "allow_degraded", name, c.AllowDegraded)
	}
	s.Redaction = a.redaction(s.Redaction)
	s.Limits = a.limits(s.Limits, s.Workspace.Mode == ModeCopy)
	if len(a.errs) > 0 {
		return Spec{}, errors.Join(a.errs...)
	}
	return s, nil
}

// Holds reports whether the ceiling allows a workspace or a mount to show the source
// of a mount, in its mode. A nil ceiling allows everything.
func (c *Ceiling) Holds(m Mount) bool {
	return c == nil || slices.ContainsFunc(slices.Concat(c.Workspace, c.Mounts), func(p Place) bool {
		return within(path.Clean(m.Source), []string{p.Source}) != "" && (m.Mode != "rw" || p.Mode == "rw")
	})
}

// Lasts returns after which time without use, and after which time in all, a lasting sandbox ends
// for which these were asked; 0 is not given, and in the answer no end. The error joins one
// [*CeilingError] for each that is more than the ceiling allows. A nil ceiling allows everything.
func (c *Ceiling) Lasts(idle, lifetime Duration) (Duration, Duration, error) {
	if c == nil {
		return cmp.Or(idle, DefaultIdle), lifetime, nil
	}
	a, most := applier{c: c}, c.Explicit()
	for _, t := range []struct {
		field       string
		asked, most Duration
	}{{"idle", idle, most.Idle}, {"lifetime", lifetime, most.Lifetime}} {
		if t.asked > t.most {
			a.refuse(t.field, t.field, t.asked.String(), "the ceiling is "+t.most.String(), "ask for "+t.most.String()+" at most, or leave it out")
		}
	}
	if lifetime == 0 && most.Lifetime < MaxLasting {
		lifetime = most.Lifetime
	}
	return cmp.Or(idle, min(DefaultIdle, most.Idle)), lifetime, errors.Join(a.errs...)
}

// PassEnv returns a [*CeilingError] if a variable of the caller's environment may
// not be passed on.
func (c *Ceiling) PassEnv(name string) error {
	if c == nil || slices.ContainsFunc(c.Env, func(allowed string) bool { return matches(allowed, name) }) {
		return nil
	}
	a := applier{c: c}
	a.refuse("env_pass", "env", name, "the ceiling does not let it be handed on", "")
	return a.errs[0]
}

// orDefault returns a list of the ceiling, or the words that stand for none.
func orDefault(list []string, words ...string) []string {
	if list == nil {
		return words
	}
	return list
}

// applier compares a spec with a ceiling, and collects the errors.
type applier struct {
	c    *Ceiling
	errs []error
}

func (a *applier) refuse(field, rule, value, reason, hint string) {
	a.errs = append(a.errs, &CeilingError{"ceiling." + rule, FieldError{Field: field, Value: value, Reason: reason, Hint: hint}})
}

func (a *applier) word(field, rule, value string, allowed []string) {
	if slices.Contains(allowed, value) {
		return
	}
	hint := "nothing of that may be asked for"
	if len(allowed) > 0 {
		hint = "what may be asked for: " + strings.Join(allowed, ", ")
	}
	a.refuse(field, rule, value, "the ceiling does not allow it", hint)
}

func (a *applier) rootFS(written string) {
	roots := orDefault(a.c.RootFS, RootHost)
	if written == RootHost {
		a.word("rootfs", "rootfs", written, roots)
		return
	}
	var places []Place
	for _, root := range roots {
		if root != RootHost {
			places = append(places, Place{Source: root})
		}
	}
	a.source("rootfs", "rootfs", written, false, places)
}

func (a *applier) workspace(s Spec) {
	w := s.Workspace
	write := w.Stays()
	if w.Source != "" || !s.Elsewhere() {
		a.source("workspace.source", "workspace", w.Source, write, a.c.Workspace)
	}
	if w.Layers != "" {
		a.refuse("workspace.layers", "workspace", w.Layers, "where layers lie is the operator's to say", "leave it out")
	}
	for i, name := range w.Unprotected {
		if !slices.Contains(a.c.Unprotected, "*") {
			a.word(index("workspace.unprotected", i), "unprotected", name, a.c.Unprotected)
		}
	}
}

// source refuses a host path that is in none of the places.
func (a *applier) source(field, rule, written string, write bool, places []Place) {
	reason, _ := checkPath(written)
	if reason == "" && !path.IsAbs(written) {
		reason = "it is not an absolute path"
	}
	if reason != "" {
		a.refuse(field, rule, written, reason, "write it in full; "+placesHint(places))
		return
	}
	source, known := path.Clean(written), false
	for _, p := range places {
		if within(source, []string{p.Source}) == "" {
			continue
		}
		if !write || p.Mode == "rw" {
			return
		}
		known = true
	}
	if known {
		hint := "write mode: ro"
		if rule == "workspace" {
			hint = "write access: ro, or mode: copy"
		}
		a.refuse(field, rule, written, "the ceiling allows to read it, not to change it", hint)
		return
	}
	a.refuse(field, rule, written, "the ceiling does not allow it", placesHint(places))
}

// placesHint returns the hint that lists the places.
func placesHint(places []Place) string {
	if len(places) == 0 {
		return "nothing of that may be asked for"
	}
	var all []string
	for _, p := range places[:min(len(places), 10)] {
		all = append(all, quoteShort(p.Source)+" ("+cmp.Or(p.Mode, "ro")+")")
	}
	if more := len(places) - len(all); more > 0 {
		all = append(all, strconv.Itoa(more)+" more")
	}
	return "what may be asked for is in " + strings.Join(all, ", ")
}

// options refuses options of backends that the ceiling does not allow.
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

// name refuses a value that is written and that no entry allows; entries may end
// in "*".
func (a *applier) name(field, rule, value string, allowed []string) {
	if value != "" && !slices.ContainsFunc(allowed, func(entry string) bool { return matches(entry, value) }) {
		a.word(field, rule, value, allowed)
	}
}

// matches reports whether an entry of a ceiling is this name or, ending in "*",
// begins it.
func matches(entry, name string) bool {
	prefix, all := strings.CutSuffix(entry, "*")
	return entry == name || all && strings.HasPrefix(name, prefix)
}

// network refuses a network that the ceiling does not allow. If the wrapper decides
// about the network, the ceiling bounds it by its command.
func (a *applier) network(s Spec) {
	networks := orDefault(a.c.Network, "none")
	if s.Docker != nil && s.Docker.NetworkEnabled {
		a.word("docker.network_enabled", "network", NetworkEngine, networks)
	}
	if network := s.asksNetwork(); network != "" {
		a.word("network", "network", network, networks)
	}
	a.rules(s.Network.Allow)
	a.hostPorts(s.Network.HostPorts)
	a.publish(s.Network.Publish)
}

// rules refuses rules of a network that the ceiling does not contain.
func (a *applier) rules(rules []NetworkRule) {
	refused := 0
	for i, rule := range rules[:min(len(rules), maxNetworkRules)] { // Resolve refuses more
		host, reason, _ := CanonicalHost(rule.Host)
		if rule.Host = host; reason != "" { // Resolve refuses it
			continue
		}
		reason, hint := "the ceiling does not open it", allowedHint(a.c.NetworkRules)+"; `"+OfCeiling+"network.allow` "+ShellWord(rule.String())+" opens it"
		if slices.ContainsFunc(a.c.NetworkRules, func(most NetworkRule) bool { return most.contains(rule) }) {
			narrow := a.narrowed(rule, rules)
			if narrow == nil {
				continue
			}
			reason = "the ceiling lets only some requests through to " + narrow.Host + ", or gives them a secret"
			hint = "ask for " + narrow.Host + " with the same `http` and `secret` too"
		}
		a.refuse(index("network.allow", i), "network_rules", rule.String(), reason, hint)
		if refused++; refused == maxRefused {
			return
		}
	}
}

// narrowed returns a rule of the ceiling that intercepts for a host and a port that a rule
// opens too, unless one of the asked rules for this very host lies in it.
func (a *applier) narrowed(rule NetworkRule, asked []NetworkRule) *NetworkRule {
	for _, most := range a.c.NetworkRules {
		host, _, _ := CanonicalHost(most.Host)
		if most.Host = host; !most.Intercepts() || !rule.opensName(host) || !rule.sharesPort(most) {
			continue
		}
		if !slices.ContainsFunc(asked, func(r NetworkRule) bool {
			r.Host, _, _ = CanonicalHost(r.Host)
			return r.Host == host && most.contains(r)
		}) || rule.Host == host && !most.contains(rule) {
			return &most
		}
	}
	return nil
}

// Opens returns an error that joins one [*CeilingError] for each rule that opens more than is
// allowed. A nil ceiling allows everything.
func (c *Ceiling) Opens(rules []NetworkRule) error {
	if c == nil {
		return nil
	}
	a := applier{c: c}
	a.rules(rules)
	return errors.Join(a.errs...)
}
