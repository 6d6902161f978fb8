package policy

import (
	"strings"
	"testing"
)

// TestCeilingOf: who was given a spec may have what it says, and nothing more.
func TestCeilingOf(t *testing.T) {
	operators := map[string]Spec{
		"plain": {Workspace: Workspace{Source: "/srv/a"}},
		"written": {
			Level: LevelFull, Seccomp: "debug", Network: Network{Mode: "host"}, RootFS: "/images/a", AllowDegraded: []string{"swap"},
			Workspace: Workspace{Source: "/srv/a", Unprotected: []string{".git/hooks"}},
			Mounts:    []Mount{{Source: "/data", Mode: "ro"}, {Source: "/data", Target: "/x", Mode: "rw"}, {Source: "/lib2"}},
			Limits:    Limits{Memory: 1 << 30, Timeout: minute, Processes: 100},
		},
		"read-only": {Workspace: Workspace{Source: "/srv/a", Access: "ro"}},
		"copy":      {Workspace: Workspace{Source: "/srv/a", Mode: ModeCopy}},
		"landlock":  {Level: LevelLandlock, Workspace: Workspace{Source: "/srv/a"}},
		"docker": {Backend: BackendDocker, Workspace: Workspace{Source: "/srv/a"},
			Docker: &Docker{Image: "debian:12", User: "1000", NetworkEnabled: true, ExtraRunArgs: []string{"--init"}}},
		"host":    {Backend: BackendHost, Workspace: Workspace{Source: "/srv/a"}},
		"codex":   {Backend: BackendCodex, Workspace: Workspace{Source: "/srv/a"}, Codex: &Codex{ConfigOverrides: map[string]any{"a.b": true}}},
		"wrapper": {Backend: BackendWrapper, Wrapper: &Wrapper{Command: []string{"ssh", "box"}}},
	}
	ask := func(change func(*Spec)) func(Spec) Spec {
		return func(s Spec) Spec {
			s.Mounts = append([]Mount(nil), s.Mounts...)
			change(&s)
			return s
		}
	}
	tests := []struct {
		operator string
		asks     func(Spec) Spec
		fields   string // that are refused
	}{
		{"plain", ask(func(*Spec) {}), ""},
		{"plain", ask(func(s *Spec) { s.Workspace.Source = "/srv/a/below" }), ""},
		{"plain", ask(func(s *Spec) { s.Seccomp, s.Network.Mode, s.Level = "strict", "none", LevelFull }), ""},
		{"plain", ask(func(s *Spec) { s.Workspace = Workspace{Source: "/srv/a", Mode: ModeCopy} }), ""},
		{"plain", ask(func(s *Spec) { s.Workspace.Source = "/srv" }), "workspace.source"},
		{"plain", ask(func(s *Spec) { s.Workspace.Source = "" }), "workspace.source"},
		{"plain", ask(func(s *Spec) { s.Workspace.Source = "." }), "workspace.source"},
		{"plain", ask(func(s *Spec) { s.Workspace.Source = "/srv/a/../b" }), "workspace.source"},
		{"plain", ask(func(s *Spec) { s.Workspace.Unprotected = []string{"*"} }), "workspace.unprotected[0]"},
		{"plain", ask(func(s *Spec) { s.Mounts = []Mount{{Source: "/srv/a", Target: "/mnt/x"}} }), "mounts[0].source"},
		{"plain", ask(func(s *Spec) { s.Network.Mode = "host" }), "network"},
		{"plain", ask(func(s *Spec) { s.Backend = BackendHost }), "backend network"},
		{"plain", ask(func(s *Spec) { s.Backend, s.Level = BackendDocker, "" }), "backend"},
		{"plain", ask(func(s *Spec) { s.Level = LevelLandlock }), "level"},
		{"plain", ask(func(s *Spec) { s.Seccomp = "debug" }), "seccomp"},
		{"plain", ask(func(s *Spec) { s.RootFS = "/" }), "rootfs"},
		{"plain", ask(func(s *Spec) { s.AllowDegraded = []string{"memory", "cpus", "swap", "processes"} }), ""},
		{"plain", ask(func(s *Spec) { s.AllowDegraded = []string{"identity"} }), "allow_degraded[0]"},
		{"plain", ask(func(s *Spec) { s.AllowDegraded = []string{"namespaces"} }), "allow_degraded[0]"},
		{"written", ask(func(s *Spec) { s.AllowDegraded = []string{"memory"} }), "allow_degraded[0]"},
		{"written", ask(func(*Spec) {}), ""},
		{"written", ask(func(s *Spec) { s.Network.Mode, s.Seccomp, s.Mounts = "none", "", nil }), ""},
		{"written", ask(func(s *Spec) { s.Limits.Memory, s.Limits.Timeout = 1<<20, 0 }), ""},
		{"written", ask(func(s *Spec) { s.Limits.Memory = 2 << 30 }), "limits.memory"},
		{"written", ask(func(s *Spec) { s.Limits.Timeout = 2 * minute }), "limits.timeout"},
		{"written", ask(func(s *Spec) { s.Mounts[2].Mode = "rw" }), "mounts[2].source"},
		{"written", ask(func(s *Spec) { s.Mounts[2].Source = "/lib" }), "mounts[2].source"},
		{"written", ask(func(s *Spec) { s.RootFS = "" }), "rootfs"},
		{"read-only", ask(func(*Spec) {}), ""},
		{"read-only", ask(func(s *Spec) { s.Workspace.Access = "" }), "workspace.source"},
		{"copy", ask(func(*Spec) {}), ""},
		{"copy", ask(func(s *Spec) { s.Workspace.Mode = "" }), "workspace.source"},
		{"landlock", ask(func(*Spec) {}), ""},
		{"landlock", ask(func(s *Spec) { s.Level = "" }), ""},
		{"docker", ask(func(*Spec) {}), ""},
		{"docker", ask(func(s *Spec) { s.Docker = &Docker{Image: "debian:13"} }), "docker.image"},
		{"docker", ask(func(s *Spec) { s.Docker = &Docker{User: "0"} }), "docker.user"},
		{"docker", ask(func(s *Spec) { s.Docker = &Docker{ExtraRunArgs: []string{"--privileged"}} }), "docker.extra_run_args[0]"},
		{"docker", ask(func(s *Spec) { s.Network.Mode = "host" }), "network"},
		{"docker", ask(func(s *Spec) { s.Backend, s.Docker = "", nil }), "backend"},
		{"host", ask(func(*Spec) {}), ""},
		{"host", ask(func(s *Spec) { s.Backend = "" }), "backend"},
		{"codex", ask(func(*Spec) {}), ""},
		{"codex", ask(func(s *Spec) { s.Codex = &Codex{ConfigOverrides: map[string]any{"a.b": false}} }), `codex.config_overrides."a.b"`},
		{"wrapper", ask(func(*Spec) {}), ""},
		{"wrapper", ask(func(s *Spec) { s.Wrapper = &Wrapper{Command: []string{"ssh", "another"}} }), "wrapper.command"},
		{"wrapper", ask(func(s *Spec) { s.Wrapper = nil }), "workspace.source"},
		{"wrapper", ask(func(s *Spec) { s.Workspace.Source = "/" }), "workspace.source"},
	}
	for _, tt := range tests {
		operator := operators[tt.operator]
		c, err := operator.Ceiling()
		if err != nil {
			t.Fatalf("%s: %v", tt.operator, err)
		}
		asked := tt.asks(operator)
		_, err = c.Apply(asked)
		var fields []string
		for _, e := range FieldErrors(err) {
			fields = append(fields, e.Field)
		}
		if got := strings.Join(fields, " "); got != tt.fields {
			t.Errorf("%s, asked for %+v: refused %q, want %q", tt.operator, asked, got, tt.fields)
		}
	}
}

// TestCeilingOfDefaults: what a spec leaves open and a ceiling fills is the
// operator's, and a spec with sources that are not absolute has no ceiling.
func TestCeilingOfDefaults(t *testing.T) {
	operator := Spec{Workspace: Workspace{Source: "/srv/a"}, Limits: Limits{Memory: 1 << 30}, Redaction: []Redaction{ParseRedaction("email")}}
	c, err := operator.Ceiling()
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Apply(Spec{Workspace: Workspace{Source: "/srv/a"}})
	if err != nil || got.Limits.Memory != 1<<30 || len(got.Redaction) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := c.PassEnv("HOME"); err == nil {
		t.Error("a variable of the host's is handed on")
	}
	for _, s := range []Spec{{}, {Workspace: Workspace{Source: "rel"}}, {Workspace: Workspace{Source: "/a"}, Mounts: []Mount{{Source: "~/x"}}}} {
		if c, err := s.Ceiling(); err == nil {
			t.Errorf("%+v has the ceiling %+v", s, c)
		}
	}
}
