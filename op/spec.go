package op

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
)

// SpecInput has the fields that describe a sandbox: a spec file, and fields that override
// it. A field that is absent leaves the file's value, or the default, as it is.
type SpecInput struct {
	SpecFile      osstring.String  `json:"spec_file,omitempty" flag:"spec" arg:"FILE" complete:"file" help:"read the sandbox's spec from a YAML or JSON file; flags override it" within:"files"`
	NoProjectFile bool             `json:"no_project_file,omitempty" flag:"no-project-file" only:"cli" help:"do not use the project's file (.paddock.yaml), and say nothing about it"`
	Workspace     *osstring.String `json:"workspace,omitempty" flag:"workspace" short:"w" arg:"DIR" complete:"dir" help:"directory that commands may change, at /workspace inside (default: the current directory; for a session, an empty one)"`
	RO            osstring.List    `json:"ro,omitempty" flag:"ro" arg:"SRC[:DST]" complete:"file" help:"make a host path visible inside, read-only (may be repeated)" within:"mounts"`
	RW            osstring.List    `json:"rw,omitempty" flag:"rw" arg:"SRC[:DST]" complete:"file" help:"make a host path visible inside, writable (may be repeated)" within:"mounts"`
	Unprotect     osstring.List    `json:"unprotect,omitempty" flag:"unprotect" arg:"PATH" help:"let commands change a protected path of the workspace, such as .git/hooks; \"*\" is all of them (may be repeated)" within:"unprotected"`
	Env           osstring.List    `json:"env,omitempty" flag:"env" short:"e" arg:"K=V" secret:"env" help:"set an environment variable inside (may be repeated)"`
	EnvPass       []string         `json:"env_pass,omitempty" flag:"env-pass" arg:"NAME" help:"pass on a variable of the caller's environment, which must be set (may be repeated)" within:"env"`
	NoTools       bool             `json:"no_toolchains,omitempty" flag:"no-toolchains" help:"leave out the toolchains below the caller's home that PATH names: nvm's, pyenv's, rustup's and so on"`
	Mode          *string          `json:"workspace_mode,omitempty" flag:"workspace-mode" arg:"MODE" choices:"bind,copy,overlay" help:"bind (default: changes reach the directory), copy (a copy in memory, which ends with the sandbox) or overlay (changes go to a layer above the directory)"`
	Layers        *osstring.String `json:"layers,omitempty" flag:"layers" arg:"DIR" complete:"dir" only:"cli" help:"with an overlay, keep its layer below this directory, on a file system that can carry one (default: the state directory)"`
	RootFS        *osstring.String `json:"rootfs,omitempty" flag:"rootfs" arg:"DIR" complete:"dir" help:"directory with the programs and libraries to use (default: host, the host's own)" within:"rootfs"`
	Level         *string          `json:"level,omitempty" flag:"level" arg:"LEVEL" choices:"full,landlock" help:"full (default) or landlock, for hosts that forbid user namespaces; paddock plan says what that loses" within:"levels"`
	Seccomp       *string          `json:"seccomp,omitempty" flag:"seccomp" arg:"PROFILE" choices:"default,strict,debug" help:"system call filter: default, strict or debug (debuggers work)"`
	Degraded      []string         `json:"allow_degraded,omitempty" flag:"allow-degraded" arg:"NAME" choices:"memory,processes,swap,cpus,disk,namespaces,abstract_sockets,identity" help:"accept that this is weaker than asked for if the host cannot enforce it (may be repeated)" within:"degraded"`
	Caches        []string         `json:"caches,omitempty" flag:"cache" arg:"TOOL" help:"keep the caches of these tools for later sandboxes over the workspace: cargo, ccache, go, npm, pip, uv; none; or auto (default: those that the workspace uses); names may be given together (may be repeated)"`
	Home          *osstring.String `json:"home,omitempty" flag:"home" arg:"DIR" complete:"dir" help:"what HOME is: keep, which stays for later sandboxes over the workspace, or a directory that commands may change (default: private and empty)"`
	Network       *string          `json:"network,omitempty" flag:"network" arg:"MODE" choices:"none,allow,host" cli:"none (default: loopback only), allow (the hosts that rules name), observe (every public name; the end prints what was reached, as rules) or host (the host's own, with everything that listens there)" help:"none (default: loopback only), allow (the hosts that rules name) or host (the host's own, with everything that listens there)" within:"network"`
	Allow         []string         `json:"allow,omitempty" flag:"allow" arg:"HOST[:PORTS]" help:"let commands reach this host, and no other: api.example.com, *.example.com (names below it), ** (every public name), an IPv4 address or a network; at ports 443 and 80 if none is given (may be repeated)" within:"rules"`
	AllowFrom     []string         `json:"allow_from,omitempty" flag:"allow-from" arg:"TOOL" only:"cli" help:"let commands reach the hosts from which your own npm, go, pip, cargo or apt downloads, by asking it; names may be given together (may be repeated)"`
	ObservePorts  []string         `json:"observe_ports,omitempty" flag:"observe-ports" arg:"PORT" only:"cli" help:"with --network observe, which opens every public name at ports 443, 80 and 22, and prints at the end what was reached, as rules: further ports; several may be given together (may be repeated)"`
	Deny          []string         `json:"deny,omitempty" flag:"deny" arg:"HOST" help:"close a host that a rule would open (may be repeated)" within:"rules"`
	SSHAgent      *string          `json:"ssh_agent,omitempty" flag:"ssh-agent" arg:"USE" bare:"login" choices:"login,sign" help:"let commands use the keys of the caller's SSH agent, which stay there: login (at hosts that rules open and known_hosts has; the default) or sign (that, and to sign commits of git)" within:"ssh"`
	SSHKeys       []string         `json:"ssh_keys,omitempty" flag:"ssh-key" arg:"FINGERPRINT" help:"with ssh-agent, let commands use this key alone: SHA256:…, as ssh-add -l prints it (may be repeated)" within:"ssh"`
	HostSockets   osstring.List    `json:"host_sockets,omitempty" flag:"host-socket" arg:"PATH" complete:"file" help:"let commands connect to this Unix socket of the host, at the same path inside; others that mounts show are covered (may be repeated)" within:"host_sockets"`
	HostPorts     []string         `json:"host_ports,omitempty" flag:"host-port" arg:"PORT" help:"let commands reach this port of the host's own loopback, as host.paddock.internal (may be repeated)" within:"host_ports"`
	Publish       []string         `json:"publish,omitempty" flag:"publish" short:"p" arg:"[IP:]HOST:GUEST" help:"publish a port of the sandbox on a loopback address of its own: 8080:3000, or 3000 for any free port (or at another address: 127.0.0.1:8080:3000); any lets callers publish every port later (may be repeated)" within:"publish"`
	Hostname      *string          `json:"hostname,omitempty" flag:"hostname" arg:"NAME" help:"host name inside (default: paddock)"`
	Redact        []string         `json:"redact,omitempty" flag:"redact" arg:"TYPE[=STRATEGY]" help:"replace email, credit_card, ip, mac_address or url in the output of commands, by redact (default), mask, hash or block (may be repeated)"`
	policy.LimitFields
	BackendInput
}

// Spec returns the spec file, or without one the trusted project's file, or without that the
// default sandbox's spec, with the fields applied. It reports all errors of the fields at once.
func (in SpecInput) Spec(ctx context.Context, env *Env) (policy.Spec, error) {
	return in.OverProject(ctx, env, env.DefaultSpec())
}

// OverProject is like Over, with the project's file of the workspace in place of spec, if the
// user trusts it (see [Env.Project]).
func (in SpecInput) OverProject(ctx context.Context, env *Env, spec policy.Spec) (policy.Spec, error) {
	spec, _, err := in.projectSpec(ctx, env, spec)
	if err != nil {
		return policy.Spec{}, err
	}
	return in.Over(ctx, env, spec)
}

// Over is like Spec, with spec in place of the default sandbox's.
func (in SpecInput) Over(ctx context.Context, env *Env, spec policy.Spec) (policy.Spec, error) {
	spec, err := in.over(ctx, env, spec)
	if err == nil {
		spec, err = in.allowFrom(ctx, env, spec)
	}
	if err != nil {
		return policy.Spec{}, err
	}
	if in.Network != nil && spec.Network.Mode == policy.NetworkAllow && len(spec.Network.Allow) == 0 && env.Project != nil && env.Ceiling == nil {
		env.Project("no rule is given, so no host can be reached: --allow HOST opens one")
	}
	return spec, nil
}

// over is like Over, without the hosts of AllowFrom.
func (in SpecInput) over(ctx context.Context, env *Env, spec policy.Spec) (policy.Spec, error) {
	if err := env.MayRead("spec_file", string(in.SpecFile)); err != nil {
		return policy.Spec{}, err
	}
	if in.SpecFile != "" {
		var err error
		if spec, err = env.ReadSpec(ctx, "spec_file", string(in.SpecFile)); err != nil {
			return policy.Spec{}, err
		}
	}
	for _, text := range in.Degraded { // names may be given together: --allow-degraded=a,b
		spec.AllowDegraded = append(spec.AllowDegraded, strings.Split(text, ",")...)
	}
	if len(in.Caches) > 0 {
		spec.Caches = nil
		for _, text := range in.Caches { // as above
			spec.Caches = append(spec.Caches, strings.Split(text, ",")...)
		}
	}
	spec.NoToolchains = spec.NoToolchains || in.NoTools
	spec.Workspace.Unprotected = append(spec.Workspace.Unprotected, in.Unprotect...)
	spec.HostSockets = slices.Concat(spec.HostSockets, in.HostSockets)
	for _, text := range in.Redact {
		spec.Redaction = append(spec.Redaction, policy.ParseRedaction(text))
	}
	err := errors.Join(
		SetText(&spec.Backend, in.Backend, "backend"),
		in.docker(&spec),
		in.codex(&spec),
		in.wrapper(&spec),
		in.LimitFields.Over(&spec.Limits),
		SetText(&spec.Workspace.Source, in.Workspace, "workspace"),
		SetText(&spec.Workspace.Mode, in.Mode, "workspace_mode"),
		SetText(&spec.Workspace.Layers, in.Layers, "layers"),
		SetText(&spec.RootFS, in.RootFS, "rootfs"),
		SetText(&spec.Level, in.Level, "level"),
		SetText(&spec.Seccomp, in.Seccomp, "seccomp"),
		SetText(&spec.Home, in.Home, "home"),
		in.network(&spec.Network),
		in.sshAgent(&spec),
		SetText(&spec.Hostname, in.Hostname, "hostname"),
		in.mounts(&spec),
		in.environment(env, &spec),
	)
	if err != nil {
		return policy.Spec{}, err
	}
	return spec, nil
}

// mounts adds the mounts of the fields. Each replaces the spec's mount with the same target.
// Two fields with the same target are refused later.
func (in SpecInput) mounts(spec *policy.Spec) error {
	var errs []error
	var own []policy.Mount
	for i, text := range slices.Concat(in.RO, in.RW) {
		mode := "ro"
		if i >= len(in.RO) {
			mode = "rw"
		}
		m, err := parseMount(mode, text)
		errs = append(errs, err)
		own = append(own, m)
	}
	spec.Mounts = slices.DeleteFunc(spec.Mounts, func(old policy.Mount) bool {
		return slices.ContainsFunc(own, func(m policy.Mount) bool { return target(m) == target(old) })
	})
	spec.Mounts = append(spec.Mounts, own...)
	return errors.Join(errs...)
}

// network sets the network of the fields. Rules are added to those of the spec, and imply mode
// "allow"; a mode that uses no rules replaces the spec's network as a whole.
func (in SpecInput) network(n *policy.Network) error {
	*n = n.Clone()
	if err := SetText(&n.Mode, in.Network, "network"); err != nil {
		return err
	}
	if in.Network != nil && *in.Network != policy.NetworkAllow {
		*n = policy.Network{Mode: *in.Network, Publish: n.Publish}
	}
	n.Publish = append(n.Publish, in.Publish...)
	var errs []error
	if len(in.ObservePorts) > 0 {
		if n.Mode != policy.NetworkObserve {
			errs = append(errs, &policy.FieldError{Field: "observe_ports", Value: in.ObservePorts[0], Reason: "nothing is observed", Hint: "use `network` observe"})
		}
		rule, err := policy.ParseNetworkRule("**:" + strings.Join(in.ObservePorts, ","))
		if err != nil {
			errs = append(errs, &policy.FieldError{Field: "observe_ports", Value: strings.Join(in.ObservePorts, ","), Reason: "a port must be a number from 1 to 65535", Hint: "write 8080, or 8080,9418"})
		} else {
			n.Allow = append(n.Allow, rule)
		}
	}
	for _, list := range []struct {
		name  string
		texts []string
	}{{"allow", in.Allow}, {"allow_from", in.AllowFrom}, {"deny", in.Deny}, {"host_ports", in.HostPorts}} {
		switch {
		case len(list.texts) == 0:
		case in.Network != nil && *in.Network == policy.NetworkObserve:
		case in.Network == nil || *in.Network == policy.NetworkAllow:
			n.Mode = policy.NetworkAllow
		default:
			errs = append(errs, &policy.FieldError{Field: list.name, Value: list.texts[0], Reason: "network " + *in.Network + " uses no rules",
				Hint: "leave one of the two out, or use `network` allow"})
		}
	}
	allow, deny, err := NetworkRules(in.Allow, in.Deny)
	for _, rule := range allow {
		if !n.Keep(rule).Intercepts() { // else it is open, as the spec says
			n.Allow = append(n.Allow, rule)
		}
	}
	n.Deny = append(n.Deny, deny...)
	ports, wrong := HostPorts(in.HostPorts)
	n.HostPorts = append(n.HostPorts, ports...)
	return errors.Join(append(errs, err, wrong)...)
}

// HostPorts reads ports of the host as fields have them.
func HostPorts(texts []string) (ports []policy.Port, err error) {
	for _, text := range texts {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			hint := "it is a port of the host's 127.0.0.1"
			if port, err := strconv.ParseUint(text[strings.LastIndexByte(text, ':')+1:], 10, 16); err == nil && port > 0 {
				hint += ": write " + strconv.FormatUint(port, 10)
			}
			return nil, &policy.FieldError{Field: "network.host_ports", Value: text, Reason: "a port must be a number from 1 to 65535", Hint: hint}
		}
		ports = append(ports, policy.Port(n))
	}
	return ports, nil
}

// sshAgent sets what commands may use of the SSH agent. Keys are added to those of the spec.
func (in SpecInput) sshAgent(spec *policy.Spec) error {
	var use string
	if err := SetText(&use, in.SSHAgent, "ssh_agent"); err != nil {
		return err
	}
	spec.SSHAgent = spec.SSHAgent.Clone()
	if in.SSHAgent != nil {
		if use != "login" && use != "sign" {
			return &policy.FieldError{Field: "ssh_agent", Value: use, Reason: `it must be "login" or "sign"`, Hint: "leave it out where commands are to have no agent"}
		}
		if spec.SSHAgent == nil {
			spec.SSHAgent = &policy.SSHAgent{}
		}
		spec.SSHAgent.Sign = use == "sign"
	}
	switch {
	case len(in.SSHKeys) == 0:
	case spec.SSHAgent == nil:
		return &policy.FieldError{Field: "ssh_keys", Value: in.SSHKeys[0], Reason: "commands do not get the SSH agent", Hint: "use `ssh_agent` too"}
	default:
		spec.SSHAgent.Keys = append(spec.SSHAgent.Keys, in.SSHKeys...)
	}
	return nil
}

// NetworkRules reads rules as fields have them. The error joins one [*policy.FieldError] for
// each that cannot be used, up to a bound.
func NetworkRules(allow, deny []string) (rules []policy.NetworkRule, denials []policy.NetworkDenial, err error) {
	const most = 16 // errors
	var errs []error
	for _, text := range allow {
		rule, err := policy.ParseNetworkRule(text)
		if rules = append(rules, rule); err != nil && len(errs) < most {
			errs = append(errs, err)
		}
	}
	for _, text := range deny {
		host, reason, hint := policy.CanonicalHost(text)
		if denials = append(denials, policy.NetworkDenial{Host: host}); reason != "" && len(errs) < most {
			errs = append(errs, &policy.FieldError{Field: "network.deny", Value: text, Reason: reason, Hint: hint})
		}
	}
	return rules, denials, errors.Join(errs...)
}

// environment adds the variables of the fields to a copy of the spec's.
func (in SpecInput) environment(env *Env, spec *policy.Spec) error {
	var errs []error
	vars := maps.Clone(spec.Env)
	if vars == nil {
		vars = make(map[string]string)
	}
	for _, name := range in.EnvPass {
		if err := env.Ceiling.PassEnv(name); err != nil {
			errs = append(errs, err)
			continue
		}
		value, ok := env.Lookup(name)
		if !ok {
			errs = append(errs, &policy.FieldError{
				Field: "env_pass", Value: name, Reason: "it is not set in the caller's environment",
				Hint: "set it, or leave it out",
			})
			continue
		}
		vars[name] = value
	}
	for i, text := range in.Env {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			// The text is not repeated: it may be a secret without its name.
			e := &policy.FieldError{Field: "env[" + strconv.Itoa(i) + "]", Reason: "it is not NAME=VALUE"}
			if env.LookupEnv != nil {
				e.Hint = "to pass on a variable of the caller's environment, use `env_pass`"
			}
			errs = append(errs, e)
			continue
		}
		vars[name] = value
	}
	spec.Env = vars
	return errors.Join(errs...)
}

// Set sets a field of the spec if the input has a value for it. It never fails.
func Set[T any](field *T, value *T) error {
	if value != nil {
		*field = *value
	}
	return nil
}

// SetText is like Set, and refuses an empty text: that is usually an unset shell variable,
// which must not silently become the default.
func SetText[T ~string](field *string, value *T, name string) error {
	switch {
	case value == nil:
		return nil
	case *value == "":
		return &policy.FieldError{Field: name, Reason: "it is empty", Hint: "leave it out for the default"}
	}
	*field = string(*value)
	return nil
}

// target returns a mount's target as it was written.
func target(m policy.Mount) string {
	if m.Target != "" {
		return m.Target
	}
	return m.Source
}

// parseMount parses SRC or SRC:DST. A target starts with "/" or "~", so the last colon before
// one of these separates the two. A source with such a colon in its name needs a spec file.
func parseMount(mode, text string) (policy.Mount, error) {
	if i := max(strings.LastIndex(text, ":/"), strings.LastIndex(text, ":~")); i >= 0 {
		return policy.Mount{Source: text[:i], Target: text[i+1:], Mode: mode}, nil
	}
	if strings.Contains(text, ":") {
		return policy.Mount{}, &policy.FieldError{
			Field: mode, Value: text, Reason: "what follows the colon is not an absolute path",
			Hint: "write SRC:/DST; a source with a colon in its name needs a spec file",
		}
	}
	return policy.Mount{Source: text, Mode: mode}, nil
}

// SpecFields returns the fields that describe a sandbox. Every operation that opens one has
// them.
func SpecFields() []Field {
	return fieldsOf(reflect.TypeFor[SpecInput](), func(reflect.StructField) bool { return true })
}

// SpecOver applies a JSON object of [SpecFields] to a spec, without the hosts of AllowFrom, which
// [AllowFrom] adds when the workspace is known.
func SpecOver(ctx context.Context, env *Env, spec policy.Spec, input []byte) (policy.Spec, error) {
	var in SpecInput
	if err := decode("the sandbox", input, &in); err != nil {
		return spec, err
	}
	return in.over(ctx, env, spec)
}

// AllowFrom adds the hosts that a JSON object of [SpecFields] asks for by tools to a spec.
func AllowFrom(ctx context.Context, env *Env, spec policy.Spec, input []byte) (policy.Spec, error) {
	var in SpecInput
	if err := decode("the sandbox", input, &in); err != nil {
		return spec, err
	}
	return in.allowFrom(ctx, env, spec)
}

// allowFrom asks the caller's tools for their hosts. Only the operator can have that done: the
// tools are executed on the host.
func (in SpecInput) allowFrom(ctx context.Context, env *Env, spec policy.Spec) (policy.Spec, error) {
	if len(in.AllowFrom) == 0 {
		return spec, nil
	}
	var tools []string
	for _, text := range in.AllowFrom { // names may be given together
		tools = append(tools, strings.Split(text, ",")...)
	}
	if env.Ceiling != nil {
		if env.Call != nil {
			env.Call.refuse()
		}
		return spec, &policy.CeilingError{Rule: "ceiling", FieldError: policy.FieldError{
			Field: "allow_from", Value: tools[0], Reason: "under a ceiling callers cannot have programs of the host asked", Hint: "name the hosts: `network.allow` HOST",
		}}
	}
	opts, err := env.OptionsFor(spec)
	if err != nil {
		return spec, err
	}
	spec, notes, err := paddock.AllowFrom(ctx, spec, opts, tools)
	if err == nil && env.Project != nil {
		for _, note := range notes {
			env.Project(FlagHint(note))
		}
	}
	return spec, err
}

// ProjectOver is like [SpecOver], over the trusted project's file of a workspace (see
// [Env.Project]), which it returns too, or over an empty spec.
func ProjectOver(ctx context.Context, env *Env, workspace string, input []byte) (policy.Spec, *specfile.File, error) {
	var in SpecInput
	if err := decode("the sandbox", input, &in); err != nil {
		return policy.Spec{}, nil, err
	}
	in.Workspace = (*osstring.String)(&workspace)
	spec, file, err := in.projectSpec(ctx, env, policy.Spec{})
	if err == nil {
		in.Workspace = nil
		spec, err = in.over(ctx, env, spec)
	}
	return spec, file, err
}

// OperatorSpec prepares a spec that an operator has written for the sandboxes of others, for
// use below a ceiling: its paths become absolute, with all links resolved, since under a
// ceiling none is followed. Fields without a value stay empty, because operations have their
// own defaults.
func OperatorSpec(spec policy.Spec) (policy.Spec, error) {
	base := policy.Base{}
	base.Dir, _ = hostpath.Getwd()  // without one, a relative path is refused
	base.Home, _ = os.UserHomeDir() // and so is "~"
	resolved, err := spec.Resolve(base)
	if err != nil {
		return spec, err
	}
	spec.Workspace.Source, spec.Mounts, spec.HostSockets = resolved.Workspace.Source, resolved.Mounts, resolved.HostSockets
	if spec.RootFS != "" && spec.RootFS != policy.RootHost {
		spec.RootFS = resolved.RootFS
		if err := resolveLinks("rootfs", &spec.RootFS); err != nil {
			return spec, err
		}
	}
	for i := range spec.Mounts {
		if err := resolveLinks("mounts["+strconv.Itoa(i)+"].source", &spec.Mounts[i].Source); err != nil {
			return spec, err
		}
	}
	for i := range spec.HostSockets {
		if err := resolveLinks("host_sockets["+strconv.Itoa(i)+"]", &spec.HostSockets[i]); err != nil {
			return spec, err
		}
	}
	if spec.Home != "" && spec.Home != policy.HomeKeep {
		spec.Home = resolved.Home
		if err := resolveLinks("home", &spec.Home); err != nil {
			return spec, err
		}
	}
	if err := resolveLinks("workspace.source", &spec.Workspace.Source); err != nil {
		return spec, err
	}
	return spec, nil
}

// resolveLinks replaces a path by the one that it leads to, which must exist.
func resolveLinks(field string, path *string) error {
	if *path == "" {
		return nil
	}
	way, err := hostpath.Locate((&Env{}).StateDir(), *path)
	if err != nil {
		return FieldError(field, *path, err)
	}
	if !way.Exists {
		return &policy.FieldError{Field: field, Value: *path, Reason: "no such file or directory"}
	}
	*path = way.Path
	return nil
}

// Variables are environment variables, "K=V". In JSON they are a list or an object.
type Variables osstring.List

// BadVariable is the reason why the name of a variable or a secret is refused.
const BadVariable = "a name has 1 to 64 letters, digits and underscores, the first of them no digit"

// UnmarshalJSON also accepts an object, whose names are then sorted. It refuses names with
// "=", which would mean something else in the list.
func (v *Variables) UnmarshalJSON(data []byte) error {
	var object osstring.Map
	if json.Unmarshal(data, &object) == nil {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if strings.Contains(name, "=") {
				return &plainError{&policy.FieldError{Field: policy.FieldPath("env", name), Reason: BadVariable}}
			}
			*v = append(*v, name+"="+object[name])
		}
		return nil
	}
	if json.Unmarshal(data, (*osstring.List)(v)) != nil {
		return &policy.FieldError{Field: "env", Reason: "it must be an object of texts"}
	}
	return nil
}

// OSText says that values need not be UTF-8.
func (Variables) OSText() {}

// JSONSchema returns the schema of both forms.
func (Variables) JSONSchema() string {
	return `{"type":["object","array"],"items":{"type":"string"},"additionalProperties":{"type":"string"}}`
}

// Check refuses variables that cannot be set for a command. Its errors contain no values, and
// no text without a name, since these may be secrets.
func (v Variables) Check() error {
	for i, text := range v {
		name, value, ok := strings.Cut(text, "=")
		refuse := func(reason string) error {
			return &policy.FieldError{Field: policy.FieldPath("env", name), Reason: reason}
		}
		switch {
		case !ok:
			return &policy.FieldError{Field: "env[" + strconv.Itoa(i) + "]", Reason: "it is not NAME=VALUE"}
		case !VariableName(name):
			return refuse(BadVariable)
		case strings.IndexByte(value, 0) >= 0:
			return refuse("the value holds a NUL byte")
		}
	}
	return nil
}

// VariableName reports whether a variable of the environment may have the name.
func VariableName(name string) bool {
	for i, c := range []byte(name) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 64
}
