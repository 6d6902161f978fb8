package wrap

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/changes"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/sandbox"
	"github.com/paddock-dev/paddock/policy"
)

type WrapInput struct {
	exec.RunInput
	Try        bool `json:"try,omitempty" flag:"try" help:"have the agent's changes go to a layer, show them at the end, and let them land only then, as \"paddock try\" does"`
	Plan       bool `json:"plan,omitempty" flag:"plan" help:"print what would be done, as \"paddock plan\" does, and start nothing"`
	Unasked    bool `json:"unasked,omitempty" flag:"unasked" help:"have the agent not ask before it runs commands and changes files: the sandbox is the wall"`
	NoSettings bool `json:"no_settings,omitempty" flag:"no-settings" help:"leave out the agent's settings; its key or login stays"`
}

// WrapOutput is how the agent ended, or with Plan what would be done.
type WrapOutput struct {
	exec.RunOutput
	Agent Wrapped `json:"agent"`
	// Trial is what has become of the agent's changes, with Try.
	*changes.Trial
	// Plan is the sandbox, if only that was asked for.
	Plan *sandbox.PlanOutput `json:"plan,omitempty"`
}

// Wrapped is what was done for an agent.
type Wrapped struct {
	Name string        `json:"name,omitempty"` // in the table of agents; empty for any other command
	Argv osstring.List `json:"argv"`
	// Hosts are the rules for its API.
	Hosts []string `json:"hosts,omitempty"`
	// Key is the variable with the key that is set outside of the sandbox, or the member of a file
	// that has it, and Login the file of this host's that has a copy inside.
	Key   string `json:"key,omitempty"`
	Login string `json:"login,omitempty"`
	// LoginAfter is "unchanged", "renewed" (written back) or "refused", for the reason in
	// LoginRefused.
	LoginAfter   string `json:"login_after,omitempty"`
	LoginRefused string `json:"login_refused,omitempty"`
	// Settings is how many files of its settings have a copy inside, from the directory
	// SettingsFrom.
	Settings     int    `json:"settings"`
	SettingsFrom string `json:"settings_from,omitempty"`
	// Shown is what of this host became visible, read-only, so that the program is inside.
	Shown string `json:"shown,omitempty"`
}

func (WrapInput) Desc() op.Desc {
	return op.Desc{
		Name:    "wrap",
		CLI:     []string{"wrap"},
		Summary: "Run a coding agent inside a sandbox as a whole",
		Doc: `Run an agent (` + known() + `), with the tools of its own, in a sandbox that ends with
it. It can change the workspace and nothing else of this host, and reach the hosts of its
API and those that --allow names.

A key in the caller's environment (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY …)
stays outside: inside, the variable has a stand-in, which the process that holds the
connections replaces on the way to the API. Without a key the agent's login is used: a
copy is inside, and what the agent renews of it is written back, if it still looks like
the same login of the same account.

The agent's settings are a private copy that ends with the sandbox, with servers and
hooks, which then run inside. --no-settings leaves them out. The agent's own sandbox is
switched off once the walls of this one were read back from the kernel. Whether it asks
before it does something is its own affair; --unasked has it not ask.

Any other command gets what flags give, and nothing else.

On a command line the agent starts at the first argument that is not a flag, or after
"--". At a terminal it gets one. Flags, signals and the exit status are those of paddock
run; a program that is not installed is 127.`,
		Examples: `  paddock wrap claude
  paddock wrap --unasked codex exec 'make the tests pass'
  paddock wrap --allow proxy.example.com gemini

  # its changes land once you have looked at them
  paddock wrap --try claude

  # what it would reach, and what would be inside
  paddock wrap --plan claude`,
		Local:   true,
		Opens:   true,
		Hints:   op.Hints{Destructive: true, LongRunning: true, OpenWorld: true},
		Streams: op.Streams{In: true, Out: true},
	}
}

// Do prepares the agent and runs it.
func (in WrapInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out WrapOutput, err error) {
	if len(in.Argv) == 0 {
		return out, &paddock.Error{Message: "cannot wrap: no agent was given", Hint: "paddock wrap [flags] -- AGENT [ARG]..., with " + known() + ", or any other command"}
	}
	if err := in.Check(env, stream); err != nil {
		return out, err
	}
	spec, err := in.ReadSpec(ctx, env)
	if err != nil {
		return out, err
	}
	if in.Try {
		if spec.Workspace, err = changes.Overlay(in.RunInput, spec.Workspace, "or leave out --try"); err != nil {
			return out, err
		}
	}
	w := wrapping{in: in, env: env, agent: agentOf(in.Argv), spec: spec}
	defer func() { _ = w.pipe.Close() }() // which may be nil
	if err := w.prepare(ctx); err != nil {
		return out, err
	}
	out.Agent = w.told
	if in.Plan {
		plan, spec, err := env.Plan(ctx, w.spec)
		if err != nil {
			return out, err
		}
		out.Plan = &sandbox.PlanOutput{Spec: spec, Plan: plan, Protected: sandbox.Protected(spec), Project: env.ProjectFile()}
		return out, nil
	}
	notes := in.Notes(stream)
	if notes != nil {
		for _, line := range w.notes() {
			_, _ = fmt.Fprintln(notes, "paddock: "+line) // a failure to print it does not matter
		}
	}
	in.Argv = w.told.Argv
	around := exec.Around{
		Try: "paddock wrap --try",
		Before: func(ctx context.Context, s *paddock.Sandbox, _ *paddock.Cmd) error {
			if w.agent == nil {
				return nil
			}
			if err := verified(s.Isolation()); err != nil {
				return err
			}
			return w.copy.write(ctx, s)
		},
		After: func(ctx context.Context, s *paddock.Sandbox) error {
			if w.copy == nil || w.copy.login == nil {
				return nil
			}
			out.Agent.LoginAfter, out.Agent.LoginRefused = w.copy.back(ctx, s, w.agent)
			if line := out.Agent.after(); line != "" && notes != nil {
				_, _ = fmt.Fprintln(notes, "paddock: "+line) // as above
			}
			return nil
		},
	}
	if in.Try {
		out.Trial = &changes.Trial{}
		out.RunOutput, *out.Trial, err = changes.Try(ctx, env, stream, in.RunInput, w.spec, around)
	} else {
		out.RunOutput, err = in.Within(ctx, env, stream, w.spec, around)
	}
	return out, err
}

// verified returns an error unless all walls that the agent's own sandbox would have, and more,
// were read back from the kernel.
func verified(iso policy.Isolation) error {
	missing := ""
	switch {
	case !iso.Verified:
		missing = "the walls were not read back from the kernel"
	case iso.Level != policy.LevelFull:
		missing = "the level is " + iso.Level
	case iso.Network != policy.NetworkAllow || iso.Egress == nil:
		missing = "the network is " + iso.Network
	case !iso.NoNewPrivs || iso.Capabilities != "none":
		missing = "commands could gain privileges"
	case iso.Seccomp == "" || iso.Seccomp == "none":
		missing = "there is no filter for system calls"
	}
	for _, name := range []string{"mount", "pid", "net"} {
		if missing == "" && !slices.Contains(iso.Namespaces, name) {
			missing = "there is no " + name + " namespace"
		}
	}
	if missing == "" {
		return nil
	}
	return &paddock.Error{Message: "cannot wrap the agent: " + missing + ", so its own sandbox must stay on", Hint: "paddock doctor says what this host lacks"}
}

// wrapping is the preparation of one agent.
type wrapping struct {
	in    WrapInput
	env   *op.Env
	agent *agent // nil for any other command
	spec  policy.Spec
	key   *key
	// source is where the key is read, and pipe the end of a pipe that has it, if it comes out
	// of a file with more than the key.
	source string
	pipe   *os.File
	copy   *settings
	told   Wrapped
}

// prepare completes the spec and the arguments.
func (w *wrapping) prepare(ctx context.Context) error {
	if w.spec.Network.Asked() == policy.NetworkHost {
		return &policy.FieldError{Field: "network", Value: policy.NetworkHost, Reason: "an agent that is wrapped never gets this host's network", Hint: "name hosts with `network.allow`"}
	}
	if w.agent == nil {
		w.told.Argv = w.in.Argv
		return nil
	}
	if err := w.fits(); err != nil {
		return err
	}
	w.spec.Network.Mode = policy.NetworkAllow
	w.spec.Env = maps.Clone(w.spec.Env)
	if w.spec.Env == nil {
		w.spec.Env = map[string]string{}
	}
	plan, resolved, err := w.env.Plan(ctx, w.spec)
	if err != nil {
		return err
	}
	p, err := findProgram(w.env, w.in.Argv[0], plan, resolved)
	if err != nil {
		return err
	}
	if w.copy, err = newSettings(w.agent, w.env.Lookup, w.env.StateDir(), resolved); err != nil {
		return err
	}
	if err := w.identify(ctx); err != nil {
		return err
	}
	if err := w.open(); err != nil {
		return err
	}
	for name, value := range w.agent.env {
		if _, written := w.spec.Env[name]; !written {
			w.spec.Env[name] = value
		}
	}
	if p.shown != "" {
		w.spec.Mounts = append(slices.Clone(w.spec.Mounts), policy.Mount{Source: p.shown, Target: p.shown, Mode: "ro"})
	}
	w.told.Name, w.told.Shown = w.agent.name, p.shown
	w.told.Argv = append([]string{p.path}, w.agent.off...)
	if w.in.Unasked {
		w.told.Argv = append(w.told.Argv, w.agent.unasked...)
	}
	w.told.Argv = append(w.told.Argv, w.in.Argv[1:]...)
	return nil
}

// fits refuses a spec in which an agent cannot be wrapped.
func (w *wrapping) fits() error {
	refuse := func(field, value, reason, hint string) error {
		return &policy.FieldError{Field: field, Value: value, Reason: reason, Hint: hint}
	}
	s := w.spec
	switch {
	case s.Backend != "" && s.Backend != policy.BackendLinux:
		return refuse("backend", s.Backend, "agents are wrapped by the linux backend alone", "leave it out")
	case s.Level != "" && s.Level != policy.LevelFull:
		return refuse("level", s.Level, "an agent is wrapped with all walls", "leave it out")
	case s.Network.Asked() == policy.NetworkNone:
		return refuse("network", policy.NetworkNone, w.agent.name+" asks its model over the network", "leave it out: rules open the hosts of its API alone")
	case s.Home != "":
		return refuse("home", s.Home, "HOME has the private copy of the agent's settings, which ends with the sandbox", "leave it out")
	case s.RootFS != "" && s.RootFS != policy.RootHost:
		return refuse("rootfs", s.RootFS, "the agent is a program of this host's", "leave it out, or run the command with paddock run")
	}
	for _, k := range w.agent.keys {
		if _, inside := s.Env[k.variable]; inside {
			return refuse(policy.FieldPath("env", k.variable), "", "the key would be inside", "set it in your own environment: it is set outside of the sandbox, and a stand-in is inside")
		}
	}
	return nil
}

// asksOnly are arguments with which an agent prints something about itself, and needs no login.
var asksOnly = []string{"--help", "--version", "-V", "-h", "-v"}

// identify finds the agent's key or its login, and copies its settings.
func (w *wrapping) identify(ctx context.Context) error {
	w.copy.bare = w.in.NoSettings
	standIn := ""
	for i, k := range w.agent.keys {
		if value, _ := w.env.Lookup(k.variable); value != "" {
			w.key, w.source, w.told.Key = &w.agent.keys[i], policy.SecretFromEnv+":"+k.variable, k.variable
			break
		}
	}
	if err := w.copy.read(ctx, w.agent); err != nil {
		return err
	}
	if w.key == nil {
		if err := w.copy.readLogin(ctx, w.agent); err != nil {
			return err
		}
		if err := w.keyOfLogin(); err != nil {
			return err
		}
		if w.key == nil && w.copy.login == nil && (len(w.in.Argv) != 2 || !slices.Contains(asksOnly, w.in.Argv[1])) {
			return &paddock.Error{
				Message: "cannot wrap " + w.agent.name + ": it has neither a key nor a login: " + w.agent.keys[0].variable + " is not set, and there is no " + text.Escape(w.copy.dir+"/"+w.agent.login.file),
				Hint:    "set " + w.agent.keys[0].variable + ", or start " + w.agent.name + " once by itself and log in",
			}
		}
	}
	if w.key != nil {
		standIn = w.key.standIn
		w.spec.Env[w.key.variable] = standIn
	} else {
		w.told.Login = w.copy.loginAt
	}
	if w.agent.prepare != nil {
		if err := w.agent.prepare(ctx, w.copy, standIn); err != nil {
			return err
		}
	}
	w.told.Settings, w.told.SettingsFrom = len(w.copy.files), w.copy.dir
	return nil
}

// keyOfLogin takes the key out of the file with the login, if it has one there: it stays outside.
func (w *wrapping) keyOfLogin() error {
	if w.agent.login.key == "" || w.copy.login == nil {
		return nil
	}
	object, err := parseObject(w.copy.login)
	if err != nil {
		return nil // the agent says what is wrong with its file
	}
	value, _ := member(object, w.agent.login.key).(string)
	if value == "" {
		return nil
	}
	out, in, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot hand the key over: %w", err)
	}
	defer in.Close()
	w.pipe = out
	if _, err := in.WriteString(value); err != nil { // it fits: the file is no larger than a pipe
		return fmt.Errorf("cannot hand the key over: %w", err)
	}
	w.key = &w.agent.keys[len(w.agent.keys)-1]
	w.source = fmt.Sprintf("%s:%d", policy.SecretFromFD, out.Fd())
	w.told.Key = w.agent.login.key + " of " + w.copy.loginAt
	w.copy.dropLogin(w.agent)
	return nil
}

// open adds the rules for the agent's API.
func (w *wrapping) open() error {
	api := policy.NetworkRule{Host: w.agent.api, Ports: []policy.Port{443}}
	if address, _ := w.env.Lookup(w.agent.base); w.agent.base != "" && address != "" {
		u, err := url.Parse(address)
		refuse := func(reason string) error {
			shown := url.URL{} // without a name and a password
			if err == nil {
				shown = url.URL{Scheme: u.Scheme, Host: u.Host}
			}
			return &policy.FieldError{Field: w.agent.base, Value: shown.String(), Reason: reason, Hint: "unset it, or name the address of an API, such as https://api.example.com"}
		}
		if err != nil || u.Hostname() == "" || u.User != nil {
			return refuse("it is not the address of a server")
		}
		if u.Scheme != "https" {
			return refuse("it is not an https address: whoever is on the way would have the key")
		}
		api.Host = u.Hostname()
		if u.Port() != "" {
			port, err := strconv.ParseUint(u.Port(), 10, 16)
			if err != nil {
				return refuse("its port is not a number from 1 to 65535")
			}
			api.Ports = []policy.Port{policy.Port(port)}
		}
		w.spec.Env[w.agent.base] = address
	}
	if w.key != nil {
		api.Secret = &policy.NetworkSecret{Name: w.key.variable, Header: w.key.header, Format: w.key.format, Source: w.source}
	}
	rules := []policy.NetworkRule{api}
	if w.key == nil {
		if w.agent.login.instead {
			rules = nil
		}
		for _, host := range w.agent.login.hosts {
			rules = append(rules, policy.NetworkRule{Host: host, Ports: []policy.Port{443}})
		}
	}
	for _, rule := range rules {
		w.told.Hosts = append(w.told.Hosts, rule.String())
	}
	w.spec.Network.Allow = append(rules, w.spec.Network.Allow...)
	return nil
}

// notes returns what is said before the start.
func (w *wrapping) notes() []string {
	if w.agent == nil {
		return []string{text.Escape(w.in.Argv[0]) + " is none of the agents that wrap knows (" + known() + "): it gets what flags give, and nothing else"}
	}
	who := "its key stays outside"
	switch {
	case w.told.Login != "":
		who = "a copy of its login is inside"
	case w.key == nil:
		who = "it has no key and no login"
	}
	return append([]string{w.agent.name + " runs inside: it reaches " + op.Hosts(w.told.Hosts) + "; " + who + "; its own sandbox is off"}, w.copy.notes...)
}

// after returns what is said about the login once the agent has ended, "" for nothing.
func (w Wrapped) after() string {
	switch w.LoginAfter {
	case loginRenewed:
		return w.Name + " has renewed its login: written to " + text.Escape(w.Login)
	case loginRefused:
		return "the login of " + w.Name + " is not written back: " + w.LoginRefused
	}
	return ""
}

// ExitStatus returns the agent's own status, and 0 for a plan.
func (out WrapOutput) ExitStatus() int {
	if out.Plan != nil {
		return 0
	}
	return out.RunOutput.ExitStatus()
}

// Render writes the plan, or captured output.
func (out WrapOutput) Render(w io.Writer) error {
	if out.Plan == nil {
		return out.RunOutput.Render(w)
	}
	var b strings.Builder
	a := out.Agent
	row := func(name, value string) { fmt.Fprintf(&b, "%-11s %s\n", name, value) }
	row("agent", text.OrNone(a.Name))
	row("arguments", quoted(a.Argv))
	if a.Name != "" {
		row("reaches", strings.Join(a.Hosts, ", ")+", and what other rules open")
		row("key", text.OrNone(text.Escape(a.Key)))
		if a.Key != "" {
			row("", "inside it is a stand-in, which paddock-egress replaces on the way to the API")
		}
		row("login", text.OrNone(text.Escape(a.Login)))
		if a.Login != "" {
			row("", "a copy is inside; what the agent renews of it is checked and written back")
		}
		row("settings", fmt.Sprintf("%d files of %s, in a private copy that ends with the sandbox", a.Settings, text.Escape(a.SettingsFrom)))
		if a.Shown != "" {
			row("visible", text.Escape(a.Shown)+", read-only, with the program")
		}
		row("own sandbox", "off, once these walls were read back")
	}
	if _, err := io.WriteString(w, b.String()+"\n"); err != nil {
		return err
	}
	return out.Plan.Render(w)
}

// quoted returns arguments as words for a shell.
func quoted(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = text.Escape(policy.ShellWord(word))
	}
	return strings.Join(words, " ")
}
