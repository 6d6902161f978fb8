package op

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

// BackendInput has the fields that choose a backend and its options. Options of another
// backend than the chosen one are refused when the spec is checked.
type BackendInput struct {
	Backend      *string  `json:"backend,omitempty" flag:"backend" arg:"NAME" choices:"linux,host,docker,codex,wrapper" help:"what builds the walls: linux (default), docker, codex, wrapper, or host, which has none and needs a privilege" within:"backends"`
	Image        *string  `json:"image,omitempty" flag:"image" arg:"IMAGE" help:"docker: the image (default: python:3.12-alpine3.19)" within:"docker"`
	Engine       *string  `json:"engine,omitempty" flag:"engine" arg:"PROGRAM" help:"docker: the engine's command line, docker (default), podman or nerdctl" within:"docker"`
	User         *string  `json:"user,omitempty" flag:"user" arg:"UID[:GID]" help:"docker: the user for commands (default: the workspace's owner)" within:"docker"`
	ReadOnlyRoot bool     `json:"read_only_rootfs,omitempty" flag:"read-only-rootfs" help:"docker: make everything but the workspace and /tmp read-only" within:"docker"`
	EngineArgs   []string `json:"engine_args,omitempty" flag:"engine-arg" arg:"ARG" help:"docker: one more argument for the engine's run, which can undo every wall (may be repeated)" within:"docker"`
	CodexConfig  []string `json:"codex_config,omitempty" flag:"codex-config" arg:"K=JSON" help:"codex: a setting of its configuration (may be repeated)" within:"codex"`
	Wrapper      *string  `json:"wrapper,omitempty" flag:"wrapper" arg:"COMMAND" help:"wrapper: the command that is the wall, such as 'ssh host'; words may be quoted, nothing is expanded. Selects the backend wrapper" within:"wrapper"`
	WrapperAgent *string  `json:"wrapper_agent,omitempty" flag:"wrapper-agent" arg:"HOW" help:"wrapper: how the agent gets inside: shared, upload, or the path of an agent that is there already" within:"wrapper"`
}

// docker sets the options of the backend docker in spec.
func (in BackendInput) docker(spec *policy.Spec) error {
	if in.Image == nil && in.Engine == nil && in.User == nil && !in.ReadOnlyRoot && len(in.EngineArgs) == 0 {
		return nil
	}
	d := copied(spec.Docker)
	spec.Docker = d
	d.ReadOnlyRootFS = d.ReadOnlyRootFS || in.ReadOnlyRoot
	d.ExtraRunArgs = append(d.ExtraRunArgs[:len(d.ExtraRunArgs):len(d.ExtraRunArgs)], in.EngineArgs...)
	return errors.Join(
		SetText(&d.Image, in.Image, "image"),
		SetText(&d.Binary, in.Engine, "engine"),
		SetText(&d.User, in.User, "user"),
	)
}

// codex sets the options of the backend codex in spec.
func (in BackendInput) codex(spec *policy.Spec) error {
	if len(in.CodexConfig) == 0 {
		return nil
	}
	c := copied(spec.Codex)
	spec.Codex = c
	settings := make(map[string]any, len(c.ConfigOverrides)+len(in.CodexConfig))
	for key, value := range c.ConfigOverrides {
		settings[key] = value
	}
	c.ConfigOverrides = settings
	var errs []error
	for i, text := range in.CodexConfig {
		key, value, ok := strings.Cut(text, "=")
		var parsed any
		if ok && json.Unmarshal([]byte(value), &parsed) == nil {
			settings[key] = parsed
			continue
		}
		errs = append(errs, &policy.FieldError{Field: "codex_config[" + strconv.Itoa(i) + "]", Value: text,
			Reason: "it is not KEY=JSON", Hint: `a text is written in its own quotes: 'key="text"'`})
	}
	return errors.Join(errs...)
}

// wrapper sets the options of the backend wrapper in spec, and chooses it.
func (in BackendInput) wrapper(spec *policy.Spec) error {
	if in.Wrapper == nil && in.WrapperAgent == nil {
		return nil
	}
	w := copied(spec.Wrapper)
	spec.Wrapper = w
	err := SetText(&w.Agent, in.WrapperAgent, "wrapper_agent")
	if in.Wrapper == nil {
		return err
	}
	words, reason := splitWords(*in.Wrapper)
	if reason != "" {
		return errors.Join(err, &policy.FieldError{Field: "wrapper", Value: *in.Wrapper, Reason: reason,
			Hint: "quote what is meant as it stands; a command that needs more goes into a script, or into wrapper.command of a spec file"})
	}
	w.Command = words
	if in.Backend == nil {
		spec.Backend = policy.BackendWrapper
	}
	return err
}

// copied returns a shallow copy of *v, or a new value if v is nil.
func copied[T any](v *T) *T {
	var c T
	if v != nil {
		c = *v
	}
	return &c
}

// backendOf returns the name of the backend that the spec selects.
func (e *Env) backendOf(spec policy.Spec) string {
	name := policy.DefaultBackend
	if e.Options.Backend != nil {
		name = e.Options.Backend.Name()
	}
	return cmp.Or(spec.Backend, name)
}

// OptionsFor returns the options of the library, with the backend that the spec selects.
func (e *Env) OptionsFor(spec policy.Spec) (paddock.Options, error) {
	o := e.Options
	if err := e.socketMounts(spec); err != nil {
		return o, err
	}
	o.NoLinks = o.NoLinks || e.Ceiling != nil
	o.Own = slices.Concat(o.Own, e.named)
	o.Caches.Principal = e.PrincipalName()
	o.Caches.Host = o.Caches.Host && e.Ceiling == nil // what the operator has downloaded is not the principal's to know
	if o.Backend != nil || len(e.Backends) == 0 {
		return o, nil
	}
	name := e.backendOf(spec)
	var known []string
	for _, be := range e.Backends {
		if be.Name() == name {
			o.Backend = be
			return o, nil
		}
		known = append(known, be.Name())
	}
	return o, &policy.FieldError{Field: "backend", Value: name, Reason: "this program does not have it",
		Hint: "it has " + strings.Join(known, ", ")}
}

// socketMounts refuses a mount of a socket of the host that the ceiling does not name itself: a place
// with files opens none.
func (e *Env) socketMounts(spec policy.Spec) error {
	if e.Ceiling == nil {
		return nil
	}
	for i, m := range spec.Mounts {
		info, err := os.Lstat(m.Source)
		if err != nil || info.Mode()&fs.ModeSocket == 0 || slices.Contains(e.Ceiling.HostSockets, m.Source) ||
			slices.ContainsFunc(e.Ceiling.Mounts, func(p policy.Place) bool { return p.Source == m.Source }) {
			continue // the backend reports what cannot be mounted
		}
		return &policy.FieldError{Field: "mounts[" + strconv.Itoa(i) + "].source", Value: m.Source, Reason: "it is a socket, and the ceiling does not name it",
			Hint: "leave it out; an operator can put it into host_sockets of the ceiling"}
	}
	return nil
}

// BackendsToProbe returns the backends to probe: all, or the one of this name.
func (e *Env) BackendsToProbe(name *string) ([]backend.Backend, error) {
	all := e.Backends
	if len(all) == 0 || e.Options.Backend != nil {
		all = []backend.Backend{e.Options.Backend} // nil is the library's default
	}
	if name == nil {
		return all, nil
	}
	o, err := e.OptionsFor(policy.Spec{Backend: *name})
	return []backend.Backend{o.Backend}, err
}

// privileged checks the privilege that the backend host needs, which has no walls.
func (e *Env) privileged(ctx context.Context, spec policy.Spec) error {
	if e.backendOf(spec) != policy.BackendHost {
		return nil
	}
	err := privilege.CheckOpened(ctx, e.Privileges, e.Principal, privilege.UnsandboxedExec)
	if err != nil && e.Call != nil {
		e.Call.refuse()
	}
	return err
}

// demand adds to the privileges that the call needs, and syncs the audit log: as for an
// operation that always needs them, the record is on the disk before anything is started.
func (c *call) demand(need privilege.Set) error {
	c.needs |= need
	switch {
	case c.op.Hints.Frees:
		return nil
	case c.env.Audit == nil:
		return c.noLog()
	case c.begun == 0 && !c.op.Hints.ReadOnly:
		return fmt.Errorf("cannot do %s, which must be recorded", c.op.Name)
	}
	return c.env.Audit.Sync()
}

// shellMeaning are the characters with a meaning to a shell. Outside quotes they are refused:
// nothing is expanded here, so they would not do what the user expects.
const shellMeaning = "$`;|&<>(){}[]*?~#!\n\r\x00"

// splitWords splits a command line into words like a shell, but expands nothing: words are
// separated by spaces, and quoted by '…', "…" and \. If that is not possible, reason says
// why.
func splitWords(text string) (words []string, reason string) {
	var word strings.Builder
	begun := false // there is a word, perhaps an empty one
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == '\'':
			word.WriteByte(c)
		case quote == '"':
			if c == '$' || c == '`' {
				return nil, "it has a " + string(c) + " in double quotes, which a shell would act upon"
			}
			if c == '\\' && i+1 < len(text) && strings.IndexByte("\"\\$`", text[i+1]) >= 0 {
				i++
			}
			word.WriteByte(text[i])
		case c == ' ' || c == '\t':
			if begun {
				words = append(words, word.String())
				word.Reset()
			}
			begun = false
			continue
		case c == '\'' || c == '"':
			quote = c
		case c == '\\':
			if i++; i == len(text) {
				return nil, `nothing follows its last \`
			}
			word.WriteByte(text[i])
		case strings.IndexByte(shellMeaning, c) >= 0:
			return nil, "it has a " + string(c) + " outside quotes, which a shell would act upon"
		default:
			word.WriteByte(c)
		}
		begun = true
	}
	switch {
	case quote != 0:
		return nil, "a " + string(quote) + " is not closed"
	case begun:
		words = append(words, word.String())
	case len(words) == 0:
		return nil, "it is empty"
	}
	return words, ""
}
