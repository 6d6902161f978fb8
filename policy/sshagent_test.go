package policy

import (
	"strings"
	"testing"
)

// TestSSHAgent: the SSH agent implies network allow, and is refused where it cannot be kept.
func TestSSHAgent(t *testing.T) {
	key := "SHA256:" + strings.Repeat("A", 43)
	agent := func(change func(*Spec)) Spec {
		s := Spec{SSHAgent: &SSHAgent{}}
		if change != nil {
			change(&s)
		}
		return s
	}
	many := make([]string, 65)
	tests := []struct {
		name, want string // a part of the error
		spec       Spec
	}{
		{"alone", "", agent(nil)},
		{"with a rule", "", agent(func(s *Spec) { s.Network.Allow = []NetworkRule{{Host: "git.test"}} })},
		{"with keys", "", agent(func(s *Spec) { s.SSHAgent.Keys, s.SSHAgent.Sign = []string{key}, true })},
		{"without a network", "network none has no rules", agent(func(s *Spec) { s.Network.Mode = NetworkNone })},
		{"with the host's network", "network host has no rules", agent(func(s *Spec) { s.Network.Mode = NetworkHost })},
		{"at the landlock level", "can restrict ports, not names", agent(func(s *Spec) { s.Level = LevelLandlock })},
		{"in a container", "", agent(func(s *Spec) { s.Backend = BackendDocker })},
		{"in a container with another network", "network says something else", agent(func(s *Spec) { s.Backend, s.Docker = BackendDocker, &Docker{NetworkEnabled: true} })},
		{"with another backend", "hands no socket of the SSH agent in", agent(func(s *Spec) { s.Backend = BackendCodex })},
		{"a path", "not a fingerprint", agent(func(s *Spec) { s.SSHAgent.Keys = []string{"~/.ssh/id_ed25519"} })},
		{"MD5", "not a fingerprint", agent(func(s *Spec) { s.SSHAgent.Keys = []string{"MD5:" + strings.Repeat("00:", 16)} })},
		{"a short fingerprint", "not a fingerprint", agent(func(s *Spec) { s.SSHAgent.Keys = []string{key[:49]} })},
		{"a key twice", "it is there twice", agent(func(s *Spec) { s.SSHAgent.Keys = []string{key, key} })},
		{"many keys", "more than 64", agent(func(s *Spec) { s.SSHAgent.Keys = many })},
	}
	for _, tt := range tests {
		got, err := tt.spec.Resolve(Base{Dir: "/w"})
		switch {
		case tt.want == "" && (err != nil || got.Network.Mode != NetworkAllow || got.SSHAgent == nil):
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestSSHAgentCeiling: what a ceiling lets specs have of the SSH agent.
func TestSSHAgentCeiling(t *testing.T) {
	key, other := "SHA256:"+strings.Repeat("A", 43), "SHA256:"+strings.Repeat("A", 42)+"E"
	tests := []struct {
		name   string
		most   *SSHAgent
		asked  *SSHAgent
		fields string
	}{
		{"nothing", nil, nil, ""},
		{"not asked for", &SSHAgent{}, nil, ""},
		{"not allowed", nil, &SSHAgent{}, "ssh_agent"},
		{"allowed", &SSHAgent{}, &SSHAgent{}, ""},
		{"fewer keys", &SSHAgent{}, &SSHAgent{Keys: []string{key}}, ""},
		{"its keys", &SSHAgent{Keys: []string{key, other}}, &SSHAgent{Keys: []string{other}}, ""},
		{"all keys", &SSHAgent{Keys: []string{key}}, &SSHAgent{}, "ssh_agent.keys"},
		{"another key", &SSHAgent{Keys: []string{key}}, &SSHAgent{Keys: []string{key, other}}, "ssh_agent.keys[1]"},
		{"sign", &SSHAgent{}, &SSHAgent{Sign: true}, "ssh_agent.sign"},
		{"sign, allowed", &SSHAgent{Sign: true}, &SSHAgent{Sign: true}, ""},
	}
	for _, tt := range tests {
		c := &Ceiling{Workspace: []Place{{"/w", "rw"}}, Network: []string{NetworkNone, NetworkAllow}, SSHAgent: tt.most}
		_, err := c.Apply(Spec{Workspace: Workspace{Source: "/w"}, SSHAgent: tt.asked})
		var fields []string
		for _, e := range FieldErrors(err) {
			fields = append(fields, e.Field)
		}
		if got := strings.Join(fields, " "); got != tt.fields {
			t.Errorf("%s: refused %q, want %q", tt.name, got, tt.fields)
		}
	}
	if err := (&Ceiling{Workspace: []Place{{"/w", "rw"}}, SSHAgent: &SSHAgent{Keys: []string{"x"}}}).Validate(); err == nil ||
		!strings.Contains(err.Error(), "not a fingerprint") || !strings.Contains(err.Error(), "name allow in network too") && !strings.Contains(err.Error(), "network does not allow rules") {
		t.Errorf("an invalid ceiling: %v", err)
	}
	c, err := Spec{Workspace: Workspace{Source: "/w"}, SSHAgent: &SSHAgent{Keys: []string{key}}}.Ceiling()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Apply(Spec{Workspace: Workspace{Source: "/w"}, SSHAgent: &SSHAgent{Keys: []string{key}}}); err != nil {
		t.Errorf("below its own ceiling: %v", err)
	}
	if _, err := c.Apply(Spec{Workspace: Workspace{Source: "/w"}, SSHAgent: &SSHAgent{Keys: []string{key}, Sign: true}}); err == nil {
		t.Error("sign is below a ceiling without it")
	}
}
