package policy

import (
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The backends that [Spec].Backend can name.
const (
	BackendLinux   = "linux"
	BackendHost    = "host"
	BackendDocker  = "docker"
	BackendCodex   = "codex"
	BackendWrapper = "wrapper"
)

// DefaultImage is what [Docker].Image is where a spec does not say.
const DefaultImage = "python:3.12-alpine3.19"

// Docker holds the options of backend "docker": a container of an engine that is
// driven by its command line.
type Docker struct {
	// Binary is the engine's program: "docker" (default), "podman", "nerdctl", or
	// the path of one that takes the same arguments.
	Binary string `json:"binary,omitempty"`
	// Image is what the container is made from. Default: [DefaultImage].
	Image string `json:"image,omitempty"`
	// NetworkEnabled gives the container the engine's default network if
	// Spec.Network is not written. Default: no network.
	NetworkEnabled bool `json:"network_enabled,omitempty"`
	// User is the user for commands, "UID[:GID]" or a name that exists in the image.
	// Default: the owner of the workspace.
	User string `json:"user,omitempty"`
	// ReadOnlyRootFS makes all but the workspace and /tmp read-only.
	ReadOnlyRootFS bool `json:"read_only_rootfs,omitempty"`
	// RemoveContainerOnExit says whether the container is removed at the end.
	// Default: true. It is stopped either way.
	RemoveContainerOnExit *bool `json:"remove_container_on_exit,omitempty"`
	// ExtraRunArgs are passed to "run" unchanged, before the image. They can undo
	// every wall.
	ExtraRunArgs []string `json:"extra_run_args,omitempty"`
}

// Codex holds the options of backend "codex": the sandbox of the codex program.
type Codex struct {
	// Binary is its name or path. Default: "codex".
	Binary string `json:"binary,omitempty"`
	// Platform is "auto" (default), "linux" or "macos", for versions of codex that
	// need it as an argument.
	Platform string `json:"platform,omitempty"`
	// ConfigOverrides are settings that are passed with -c, by dotted key.
	ConfigOverrides map[string]any `json:"config_overrides,omitempty"`
}

// Wrapper holds the options of backend "wrapper": any command that runs the command
// which follows it.
type Wrapper struct {
	// Command is that command with its arguments, for example ["ssh", "host"].
	Command []string `json:"command,omitempty"`
	// Agent is how the agent gets inside: "shared" (the wrapper shows the
	// host's file), "upload" (through its standard input, checked by hash), or
	// the absolute path of an agent inside. Default: "upload" for ssh and
	// kubectl and for engines' exec, else "shared".
	Agent string `json:"agent,omitempty"`
	// Quote says whether the words after Command are joined into one quoted word for a
	// shell, as ssh needs it: "always" or "never". Default: "always" for ssh, else "never".
	Quote string `json:"quote,omitempty"`
	// Workspace is the directory inside that commands start in. Default: the path
	// of Spec.Workspace; a new directory if the agent is uploaded.
	Workspace string `json:"workspace,omitempty"`
}

// The bounds of the options of backends.
const (
	maxImage         = 1024 // bytes
	maxUser          = 255  // bytes
	maxWords         = 256  // of a wrapper's command, and of extra arguments
	maxWord          = 128<<10 - 1
	maxAllWords      = 1 << 20 // bytes of them together
	maxOverrides     = 256
	maxOverrideKey   = 255      // bytes
	maxOverrideValue = 64 << 10 // bytes, as JSON
)

// The words of [Wrapper].Agent and [Wrapper].Quote.
const (
	AgentShared = "shared"
	AgentUpload = "upload"
	QuoteAlways = "always"
	QuoteNever  = "never"
)

// options fills in and checks the options of the chosen backend. Options of other backends
// have been refused by kept.
func (r *resolver) options(s *Spec) {
	switch s.Backend {
	case BackendDocker:
		s.Docker = r.docker(s.Docker)
	case BackendCodex:
		s.Codex = r.codex(s.Codex)
	case BackendWrapper:
		s.Wrapper = r.wrapper(s.Wrapper)
	}
}

// defaultNetwork returns the network of a spec that names none; "" if the engine or
// the wrapper decides.
func defaultNetwork(s Spec) string {
	switch {
	case s.Backend == BackendHost:
		return "host"
	case s.Backend == BackendWrapper, s.Backend == BackendDocker && s.Docker != nil && s.Docker.NetworkEnabled:
		return ""
	}
	return "none"
}

// asksNetwork returns the network that a spec asks for, by name or by default; "" if the engine
// or the wrapper decides.
func (s Spec) asksNetwork() string {
	switch mode := s.Network.Asked(); {
	case mode != "":
		return mode
	case s.SSHAgent != nil && slices.Contains([]string{BackendLinux, BackendDocker}, cmp.Or(s.Backend, DefaultBackend)):
		return NetworkAllow
	}
	return defaultNetwork(s)
}

func (r *resolver) docker(written *Docker) *Docker {
	d := Docker{}
	if written != nil {
		d = *written
	}
	fill(&d.Binary, BackendDocker)
	fill(&d.Image, DefaultImage)
	if d.RemoveContainerOnExit == nil {
		remove := true
		d.RemoveContainerOnExit = &remove
	}
	r.program("docker.binary", d.Binary)
	r.check("docker.image", d.Image, checkToken(d.Image, maxImage))
	if d.User != "" {
		reason := checkToken(d.User, maxUser)
		if name, group, both := strings.Cut(d.User, ":"); reason == "" && (!isUserName(name) || both && !isUserName(group)) {
			reason = "it is not UID[:GID], or names of letters, digits and . _ - in their place"
		}
		r.check("docker.user", d.User, reason)
	}
	d.ExtraRunArgs = slices.Clone(d.ExtraRunArgs)
	r.arguments("docker.extra_run_args", d.ExtraRunArgs)
	if len(d.ExtraRunArgs) > 0 && !strings.HasPrefix(d.ExtraRunArgs[0], "-") {
		r.refuse(index("docker.extra_run_args", 0), d.ExtraRunArgs[0], "it is no option, and would be taken for the image", "")
	}
	if i := slices.Index(d.ExtraRunArgs, "--"); i >= 0 {
		r.refuse(index("docker.extra_run_args", i), "--", "it ends the options", "leave it out")
	}
	return &d
}

func (r *resolver) codex(written *Codex) *Codex {
	c := Codex{}
	if written != nil {
		c = *written
	}
	fill(&c.Binary, BackendCodex)
	r.program("codex.binary", c.Binary)
	choose(r, "codex.platform", &c.Platform, "auto", "linux", "macos")
	c.ConfigOverrides = maps.Clone(c.ConfigOverrides)
	const field = "codex.config_overrides"
	if len(c.ConfigOverrides) > maxOverrides {
		r.refuse(field, "", "it has more than 256 entries", "")
		return &c
	}
	for _, key := range slices.Sorted(maps.Keys(c.ConfigOverrides)) {
		if reason, hint := checkOverride(key, c.ConfigOverrides[key]); reason != "" {
			r.refuse(FieldPath(field, key), "", reason, hint)
		}
	}
	return &c
}

func (r *resolver) wrapper(written *Wrapper) *Wrapper {
	w := Wrapper{}
	if written != nil {
		w = *written
	}
	w.Command = slices.Clone(w.Command)
	r.arguments("wrapper.command", w.Command)
	if len(w.Command) == 0 {
		r.refuse("wrapper.command", "", "it is empty", "write the command that the agent's command follows: [ssh, host]")
		return &w
	}
	r.program("wrapper.command[0]", w.Command[0])
	fill(&w.Agent, defaultAgent(w.Command))
	quotes := []string{QuoteNever, QuoteAlways} // the default first
	if path.Base(w.Command[0]) == "ssh" {
		slices.Reverse(quotes)
	}
	choose(r, "wrapper.quote", &w.Quote, quotes...)
	if w.Agent != AgentShared && w.Agent != AgentUpload {
		r.inside("wrapper.agent", w.Agent, `write "shared", "upload", or the path of an agent that is there`)
	}
	if w.Workspace != "" {
		r.inside("wrapper.workspace", w.Workspace, "write it in full")
	}
	return &w
}

// defaultAgent returns how the agent gets behind a wrapper. It is uploaded through wrappers
// that lead to another machine or into a container, where the host's files are not visible.
func defaultAgent(command []string) string {
	switch path.Base(command[0]) {
	case "ssh", "kubectl":
		return AgentUpload
	case "docker", "podman", "nerdctl":
		if slices.Contains(command[1:], "exec") {
			return AgentUpload
		}
	}
	return AgentShared
}

// Elsewhere reports whether the agent is uploaded to a place that shows no file of the
// host.
func (s Spec) Elsewhere() bool {
	w := s.Wrapper
	if s.Backend != BackendWrapper || w == nil || len(w.Command) == 0 {
		return false
	}
	return w.Agent == AgentUpload || w.Agent == "" && defaultAgent(w.Command) == AgentUpload
}

// fill sets an empty text.
func fill(value *string, byDefault string) {
	if *value == "" {
		*value = byDefault
	}
}

// check refuses a field if there is a reason.
func (r *resolver) check(field, value, reason string) {
	if reason != "" {
		r.refuse(field, value, reason, "")
	}
}

// program checks the name or the path of a program of the host.
func (r *resolver) program(field, value string) {
	reason := checkWord(value)
	switch {
	case reason != "":
	case value == "":
		reason = "it is empty"
	case value[0] == '-':
		reason = "it looks like an option"
	default:
		reason, _ = checkPath(value)
	}
	r.check(field, value, reason)
}

// inside checks an absolute path behind a wall.
func (r *resolver) inside(field, value, hint string) {
	reason, _ := checkPath(value)
	switch {
	case reason != "":
	case checkWord(value) != "":
		reason = checkWord(value)
	case !path.IsAbs(value):
		reason = "it is not an absolute path"
	case path.Clean(value) != value:
		reason, hint = "it is not a clean path", "write "+quoteShort(path.Clean(value))
	}
	if reason != "" {
		r.refuse(field, value, reason, hint)
	}
}

// arguments checks words that are passed to a program unchanged.
func (r *resolver) arguments(field string, list []string) {
	total := 0
	for _, word := range list {
		total += len(word) + 1
	}
	switch {
	case len(list) > maxWords:
		r.refuse(field, "", "it has more than 256 entries", "")
		return
	case total > maxAllWords:
		r.refuse(field, "", "it is larger than 1MiB in total", "")
		return
	}
	for i, word := range list {
		r.check(index(field, i), word, checkWord(word))
	}
}

// checkWord returns why a text cannot be an argument of a program.
func checkWord(word string) (reason string) {
	switch {
	case !utf8.ValidString(word):
		return "it is not valid UTF-8"
	case strings.ContainsFunc(word, unicode.IsControl):
		return "it contains a control character"
	case len(word) > maxWord:
		return "it is longer than 128KiB, the kernel's bound"
	}
	return ""
}

// checkToken returns why a word cannot be a name: it is empty, an option, or has spaces.
func checkToken(word string, most int) (reason string) {
	switch reason := checkWord(word); {
	case reason != "":
		return reason
	case word == "":
		return "it is empty"
	case word[0] == '-':
		return "it looks like an option"
	case strings.ContainsFunc(word, unicode.IsSpace):
		return "it contains a space"
	case len(word) > most:
		return "it is too long"
	}
	return ""
}

// isUserName reports whether a text is an id, or a name of a user or a group.
func isUserName(name string) bool {
	for _, c := range name {
		if !isLetterOrDigit(c) && !strings.ContainsRune("._-", c) {
			return false
		}
	}
	if name == "" || name[0] == '-' {
		return false
	}
	const most = "4294967294" // the last number that is an id
	digits := strings.Trim(name, "0123456789") == ""
	return !digits || len(name) < len(most) || len(name) == len(most) && name <= most
}

// checkOverride returns why a setting of codex is invalid: nothing in its key may
// end the key early.
func checkOverride(key string, value any) (reason, hint string) {
	if len(key) > maxOverrideKey {
		return "the key is longer than 255 bytes", ""
	}
	for name := range strings.SplitSeq(key, ".") {
		if !isPlainKey(name) || name[0] == '-' {
			return "the key is not made of names with dots between them", "write such as sandbox_workspace_write.network_access"
		}
	}
	if value == nil {
		return "it is null", "the settings of codex know no null: leave it out, or give it a value"
	}
	text, err := json.Marshal(value)
	switch {
	case err != nil:
		return "the value cannot be written as JSON", ""
	case len(text) > maxOverrideValue:
		return "the value is larger than 64KiB", ""
	}
	return "", ""
}
