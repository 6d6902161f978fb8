package op

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

// BackendInput is how doors choose a backend, and its options. What is written
// for another backend than the one chosen is refused with the spec.
type BackendInput struct {
	Backend      *string  `json:"backend,omitempty" flag:"backend" arg:"NAME" choices:"linux,host,docker,codex,wrapper" help:"what builds the walls: linux (default), docker, codex, wrapper, or host, which has none and needs a privilege" within:"backends"`
	Image        *string  `json:"image,omitempty" flag:"image" arg:"IMAGE" help:"docker: the image (default: python:3.12-alpine3.19)" within:"docker"`
	Engine       *string  `json:"engine,omitempty" flag:"engine" arg:"PROGRAM" help:"docker: the engine's command line, docker (default), podman or nerdctl" within:"docker"`
	User         *string  `json:"user,omitempty" flag:"user" arg:"UID[:GID]" help:"docker: whom commands run as (default: the workspace's owner)" within:"docker"`
	ReadOnlyRoot bool     `json:"read_only_rootfs,omitempty" flag:"read-only-rootfs" help:"docker: make all but the workspace and /tmp read-only" within:"docker"`
	EngineArgs   []string `json:"engine_args,omitempty" flag:"engine-arg" arg:"ARG" help:"docker: one more argument for the engine's run, which can undo every wall (may be repeated)" within:"docker"`
	CodexConfig  []string `json:"codex_config,omitempty" flag:"codex-config" arg:"K=JSON" help:"codex: a setting of its configuration (may be repeated)" within:"codex"`
	Wrapper      *string  `json:"wrapper,omitempty" flag:"wrapper" arg:"COMMAND" help:"wrapper: the command that is the wall, 'ssh host' say; words may be quoted, nothing is expanded. Chooses backend wrapper" within:"wrapper"`
	WrapperAgent *string  `json:"wrapper_agent,omitempty" flag:"wrapper-agent" arg:"HOW" help:"wrapper: how the agent gets inside: shared, upload, or the path of one that is there" within:"wrapper"`
}

// apply lays the fields over the spec.
func (in BackendInput) apply(spec *policy.Spec) error {
	err := errors.Join(SetText(&spec.Backend, in.Backend, "backend"), in.docker(spec), in.codex(spec), in.wrapper(spec))
	return err
}

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

// copied is a copy that shares no field with what a file said, or a new one.
func copied[T any](v *T) *T {
	var c T
	if v != nil {
		c = *v
	}
	return &c
}

// backendOf is the name of the backend that the spec means.
func (e *Env) backendOf(spec policy.Spec) string {
	name := policy.DefaultBackend
	if e.Options.Backend != nil {
		name = e.Options.Backend.Name()
	}
	return cmp.Or(spec.Backend, name)
}

// OptionsFor are the library's, with the backend that the spec means.
func (e *Env) OptionsFor(spec policy.Spec) (paddock.Options, error) {
	o := e.Options
	o.NoLinks = o.NoLinks || e.Ceiling != nil
	o.Own = slices.Concat(o.Own, e.named)
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

// Probed are the backends to be looked at: all, or the one of this name.
func (e *Env) Probed(name *string) ([]backend.Backend, error) {
	all := e.Backends
	if len(all) == 0 || e.Options.Backend != nil {
		all = []backend.Backend{e.Options.Backend} // nil is the library's own
	}
	if name == nil {
		return all, nil
	}
	o, err := e.OptionsFor(policy.Spec{Backend: *name})
	return []backend.Backend{o.Backend}, err
}

// privileged refuses the host backend, which has no walls, to who does not hold
// the privilege for that.
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

// demand makes the call one that needed these privileges all along: it is on
// record, on the disk, before anything is started.
func (c *call) demand(need privilege.Set) error {
	c.needs |= need
	switch {
	case c.op.Hints.Frees:
		return nil
	case c.env.Audit == nil:
		return c.noLog()
	case c.begun == 0 && !c.op.Hints.ReadOnly:
		return fmt.Errorf("cannot do %s, which must be put on record", c.op.Name)
	}
	return c.env.Audit.Sync()
}

// shellMeaning are the characters that a shell would act upon. Outside quotes
// they are refused: nothing is expanded here, and who writes one means more
// than a word.
const shellMeaning = "$`;|&<>(){}[]*?~#!\n\r\x00"

// splitWords takes a command apart as a shell would that expands nothing: words
// are parted by spaces, and are quoted by '…', "…" and \. reason says why the
// text cannot be taken apart.
func splitWords(text string) (words []string, reason string) {
	s := splitter{rest: text}
	for s.rest != "" && s.reason == "" {
		s.next()
	}
	if s.reason == "" && s.begun {
		s.words = append(s.words, s.word.String())
	}
	if s.reason == "" && len(s.words) == 0 {
		s.reason = "it is empty"
	}
	return s.words, s.reason
}

type splitter struct {
	rest   string
	words  []string
	word   strings.Builder
	begun  bool // there is a word, be it empty
	reason string
}

// next takes one character, or one quoted part.
func (s *splitter) next() {
	c := s.rest[0]
	s.rest = s.rest[1:]
	switch {
	case c == ' ' || c == '\t':
		if s.begun {
			s.words = append(s.words, s.word.String())
			s.word.Reset()
			s.begun = false
		}
		return
	case c == '\'':
		s.quoted()
	case c == '"':
		s.double()
	case c == '\\':
		s.escaped()
	case strings.IndexByte(shellMeaning, c) >= 0:
		s.reason = "it has a " + string(c) + " outside quotes, which a shell would act upon"
	default:
		s.word.WriteByte(c)
	}
	s.begun = true
}

func (s *splitter) quoted() {
	part, rest, ok := strings.Cut(s.rest, "'")
	if !ok {
		s.reason = "a ' is not closed"
	}
	s.word.WriteString(part)
	s.rest = rest
}

func (s *splitter) double() {
	for s.rest != "" && s.reason == "" {
		c := s.rest[0]
		s.rest = s.rest[1:]
		switch c {
		case '"':
			return
		case '$', '`':
			s.reason = "it has a " + string(c) + " in double quotes, which a shell would act upon"
		case '\\':
			if s.rest != "" && strings.IndexByte("\"\\$`", s.rest[0]) >= 0 {
				c, s.rest = s.rest[0], s.rest[1:]
			}
		}
		s.word.WriteByte(c)
	}
	if s.reason == "" {
		s.reason = `a " is not closed`
	}
}

func (s *splitter) escaped() {
	if s.rest == "" {
		s.reason = `nothing follows its last \`
		return
	}
	s.word.WriteByte(s.rest[0])
	s.rest = s.rest[1:]
}
