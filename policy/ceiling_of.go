package policy

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// Ceiling is the most that somebody may ask for who was given this spec, and
// nothing else: its workspace with what is below it, its mounts, its network, its
// backend with the options that are written, its limits. What is stricter than
// the spec may be asked for too: no network, level "full", profiles "default" and
// "strict". Variables of the host's environment are not handed on.
//
// Sources must be absolute, as [Spec.Resolve] makes them. Rules for commands are
// not a ceiling's matter: specs that are to keep them begin with this one.
func (s Spec) Ceiling() (*Ceiling, error) {
	backend := cmp.Or(s.Backend, DefaultBackend)
	c := &Ceiling{
		Backends:      []string{backend},
		Levels:        words(LevelFull, s.Level),
		Seccomp:       words("default", "strict", s.Seccomp),
		RootFS:        []string{cmp.Or(s.RootFS, RootHost)},
		Unprotected:   slices.Clone(s.Workspace.Unprotected),
		Network:       words("none", cmp.Or(s.Network, defaultNetwork(s))),
		AllowDegraded: words(append(harmless(s.Limits), s.AllowDegraded...)...),
		Redaction:     slices.Clone(s.Redaction),
		Limits:        s.Limits,
	}
	if w := s.Workspace; w.Source != "" {
		mode := "rw"
		if w.Access == "ro" || w.Mode == ModeCopy {
			mode = "ro" // a copy only reads its source
		}
		c.Workspace = []Place{{w.Source, mode}}
	}
	c.Mounts = places(s.Mounts)
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

// harmless are the limits that may be weaker than asked for, because one need not
// ask for them at all.
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

// words are those that are written, each once.
func words(list ...string) []string {
	var all []string
	for _, word := range list {
		if word != "" && !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	return all
}

// places are the sources of mounts, each with the most that one of them allows.
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
	// Only what is written is allowed: an image's name may end in no "*" here.
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

// exactly allows one word, where it is written, and the default alone where not.
func exactly(word string) []string {
	if word == "" {
		return nil
	}
	return []string{word}
}
