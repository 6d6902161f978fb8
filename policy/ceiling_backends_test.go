package policy

import (
	"slices"
	"strings"
	"testing"
)

// all allows every backend, and the network of host.
func all(change func(*Ceiling)) func(*Ceiling) {
	return func(c *Ceiling) {
		c.Backends = Backends()
		if change != nil {
			change(c)
		}
	}
}

func TestCeilingOfBackends(t *testing.T) {
	docker := func(d Docker) func(*Spec) { return func(s *Spec) { s.Backend, s.Docker = "docker", &d } }
	codex := func(c Codex) func(*Spec) { return func(s *Spec) { s.Backend, s.Codex = "codex", &c } }
	wrapper := func(w Wrapper) func(*Spec) { return func(s *Spec) { s.Backend, s.Wrapper = "wrapper", &w } }
	backend := func(name string) func(*Spec) { return func(s *Spec) { s.Backend = name } }
	dockers := func(d DockerCeiling) func(*Ceiling) { return all(func(c *Ceiling) { c.Docker = &d }) }
	settings := all(func(c *Ceiling) { c.Codex = &CodexCeiling{ConfigOverrides: []string{"a.b", `c="x"`}} })
	wrappers := all(func(c *Ceiling) {
		c.Wrapper = &WrapperCeiling{Commands: [][]string{{"ssh", "a"}}, Agents: []string{"/opt/agent"}, Workspaces: []string{"/build/*"}}
	})
	no := false
	tests := []struct {
		name    string
		ceiling func(*Ceiling)
		spec    func(*Spec)
		rule    string // what refuses alone; empty: nothing does
	}{
		{"docker", all(nil), backend("docker"), ""},
		{"docker with defaults written", all(nil), docker(Docker{Binary: "docker", Image: DefaultImage, ReadOnlyRootFS: true}), ""},
		{"another engine", all(nil), docker(Docker{Binary: "podman"}), "docker.binary"},
		{"another engine, allowed", dockers(DockerCeiling{Binary: []string{"podman"}}), docker(Docker{Binary: "podman"}), ""},
		{"another image", all(nil), docker(Docker{Image: "debian"}), "docker.images"},
		{"another image, allowed", dockers(DockerCeiling{Images: []string{"debian:*"}}), docker(Docker{Image: "debian:12"}), ""},
		{"an image that begins alike", dockers(DockerCeiling{Images: []string{"debian:*"}}), docker(Docker{Image: "debian-evil"}), "docker.images"},
		{"a user", all(nil), docker(Docker{User: "root"}), "docker.users"},
		{"a user, allowed", dockers(DockerCeiling{Users: []string{"1000"}}), docker(Docker{User: "1000"}), ""},
		{"an argument", all(nil), docker(Docker{ExtraRunArgs: []string{"--privileged"}}), "docker.extra_run_args"},
		{"an argument, allowed", dockers(DockerCeiling{ExtraRunArgs: []string{"--init"}}), docker(Docker{ExtraRunArgs: []string{"--init"}}), ""},
		{"an argument that begins alike", dockers(DockerCeiling{ExtraRunArgs: []string{"--in*"}}), docker(Docker{ExtraRunArgs: []string{"--init"}}), "docker.extra_run_args"},
		{"a container that stays", all(nil), docker(Docker{RemoveContainerOnExit: &no}), "docker"},
		{"the engine's network", all(nil), docker(Docker{NetworkEnabled: true}), "network"},
		{"the engine's network, allowed", all(func(c *Ceiling) { c.Network = []string{"engine"} }), docker(Docker{NetworkEnabled: true}), ""},

		{"codex", all(nil), backend("codex"), ""},
		{"another codex", all(nil), codex(Codex{Binary: "/tmp/codex"}), "codex.binary"},
		{"a setting", all(nil), codex(Codex{ConfigOverrides: map[string]any{"a": 1}}), "codex.config_overrides"},
		{"a setting, allowed", settings, codex(Codex{ConfigOverrides: map[string]any{"a.b": 1, "c": "x"}}), ""},
		{"a setting of another value", settings, codex(Codex{ConfigOverrides: map[string]any{"c": "y"}}), "codex.config_overrides"},

		{"a wrapper", all(nil), wrapper(Wrapper{Command: []string{"ssh", "a"}}), "wrapper.commands"},
		{"a wrapper, allowed", wrappers, wrapper(Wrapper{Command: []string{"ssh", "a"}, Agent: "upload"}), ""},
		{"another host", wrappers, wrapper(Wrapper{Command: []string{"ssh", "b"}}), "wrapper.commands"},
		{"more arguments", wrappers, wrapper(Wrapper{Command: []string{"ssh", "a", "b"}}), "wrapper.commands"},
		{"an agent", wrappers, wrapper(Wrapper{Command: []string{"ssh", "a"}, Agent: "/tmp/agent"}), "wrapper.agents"},
		{"an agent, allowed", wrappers, wrapper(Wrapper{Command: []string{"ssh", "a"}, Agent: "/opt/agent"}), ""},
		{"a directory inside", wrappers, wrapper(Wrapper{Command: []string{"ssh", "a"}, Workspace: "/etc"}), "wrapper.workspaces"},
		{"a directory inside, allowed", wrappers, wrapper(Wrapper{Command: []string{"ssh", "a"}, Workspace: "/build/a"}), ""},

		{"host, with its network", all(nil), backend("host"), "network"},
		{"host, allowed", all(func(c *Ceiling) { c.Network = []string{"host"} }), backend("host"), ""},
		{"options of a backend that is not named", nil, func(s *Spec) { s.Docker = &Docker{ExtraRunArgs: []string{"--privileged"}} }, "docker.extra_run_args"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ceiling(tt.ceiling).Apply(spec(tt.spec))
			var rules []string
			if err != nil {
				for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
					rules = append(rules, e.(*CeilingError).Rule) //nolint:errorlint // as above
				}
			}
			rules = slices.Compact(rules)
			want := "ceiling." + tt.rule
			if got := strings.Join(rules, " "); got != want && (got != "" || tt.rule != "") {
				t.Errorf("refused by %q (%v), want %q", got, err, want)
			}
		})
	}
}

func TestUploadedAgentNeedsNoPlaceForAWorkspace(t *testing.T) {
	c := ceiling(all(func(c *Ceiling) { c.Wrapper = &WrapperCeiling{Commands: [][]string{{"ssh", "a"}, {"bwrap"}}} }))
	if _, err := c.Apply(Spec{Backend: "wrapper", Wrapper: &Wrapper{Command: []string{"ssh", "a"}}}); err != nil {
		t.Error(err)
	}
	if _, err := c.Apply(Spec{Backend: "wrapper", Wrapper: &Wrapper{Command: []string{"bwrap"}}}); err == nil {
		t.Error("a wrapper that shares the host's files needs no workspace")
	}
}

func TestCeilingOfBackendsIsValidated(t *testing.T) {
	tests := []struct {
		change func(*Ceiling)
		want   string
	}{
		{func(c *Ceiling) { c.Docker = &DockerCeiling{} }, "cannot use docker: backends does not allow backend docker"},
		{all(func(c *Ceiling) { c.Docker = &DockerCeiling{Images: []string{""}} }), "cannot use docker.images[0]: it is empty"},
		{all(func(c *Ceiling) { c.Codex = &CodexCeiling{ConfigOverrides: make([]string, 1025)} }), "cannot use codex.config_overrides: it has more than 1024 entries"},
		{all(func(c *Ceiling) { c.Wrapper = &WrapperCeiling{Commands: [][]string{{}}} }), "cannot use wrapper.commands[0]: it is empty"},
		{all(func(c *Ceiling) { c.Wrapper = &WrapperCeiling{Commands: make([][]string, 1025)} }), "cannot use wrapper.commands: it has more than 1024 entries"},
	}
	for _, tt := range tests {
		err := ceiling(tt.change).Validate()
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}
