package policy

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

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

// options fills in and checks what belongs to the backend that is named.
// Options of another one were refused before.
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

// network fills in the network that a backend gives where nothing is written.
func (r *resolver) network(s *Spec) {
	switch engine := s.Docker != nil && s.Docker.NetworkEnabled; {
	case s.Network != "" && engine && s.Backend == BackendDocker:
		r.refuse("docker.network_enabled", "true", "network says something else: "+quoteShort(s.Network), "leave one of the two out")
	case s.Network != "":
		choose(r, "network", &s.Network, "none", "host")
	default:
		s.Network = defaultNetwork(*s)
	}
}

// defaultNetwork is the network of a spec that names none; empty where the
// engine or the wrapper decides.
func defaultNetwork(s Spec) string {
	switch {
	case s.Backend == BackendHost:
		return "host"
	case s.Backend == BackendWrapper, s.Backend == BackendDocker && s.Docker != nil && s.Docker.NetworkEnabled:
		return ""
	}
	return "none"
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
		r.check("docker.user", d.User, checkUser(d.User))
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
	quote := QuoteNever
	if path.Base(w.Command[0]) == "ssh" {
		quote = QuoteAlways
	}
	fill(&w.Quote, quote)
	choose(r, "wrapper.quote", &w.Quote, quote, otherQuote(quote))
	if w.Agent != AgentShared && w.Agent != AgentUpload {
		r.inside("wrapper.agent", w.Agent, `write "shared", "upload", or the path of an agent that is there`)
	}
	if w.Workspace != "" {
		r.inside("wrapper.workspace", w.Workspace, "write it in full")
	}
	return &w
}

func otherQuote(quote string) string {
	if quote == QuoteAlways {
		return QuoteNever
	}
	return QuoteAlways
}

// defaultAgent says how the agent gets behind a wrapper: those that lead to
// another machine, or into a container, do not show the host's files.
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

// elsewhere says whether the agent is sent to where no file of the host is seen.
func (s Spec) elsewhere() bool {
	w := s.Wrapper
	if s.Backend != BackendWrapper || w == nil || len(w.Command) == 0 {
		return false
	}
	return w.Agent == AgentUpload || w.Agent == "" && defaultAgent(w.Command) == AgentUpload
}

// fill sets a text that is not written.
func fill(value *string, byDefault string) {
	if *value == "" {
		*value = byDefault
	}
}

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

// arguments checks words that are handed on as they are.
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

// checkToken checks a word without spaces that is no option.
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

// checkUser checks UID[:GID], or names in their place.
func checkUser(user string) (reason string) {
	if reason := checkToken(user, maxUser); reason != "" {
		return reason
	}
	name, group, both := strings.Cut(user, ":")
	if !isUserName(name) || both && !isUserName(group) {
		return "it is not UID[:GID], or names of letters, digits and . _ - in their place"
	}
	return ""
}

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

// checkOverride checks a setting of codex: nothing in its key may end the key
// early.
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
