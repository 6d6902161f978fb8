package policy

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParsePublish(t *testing.T) {
	for text, want := range map[string]string{
		"3000": "3000", "8080:3000": "8080:3000", "3000/tcp": "3000", "127.0.0.1:8080:3000": "127.0.0.1:8080:3000", "127.0.0.1:8080:3000/tcp": "127.0.0.1:8080:3000",
		"0.0.0.0:80:3000": "0.0.0.0:80:3000", "127.0.0.1::3000": "127.0.0.1::3000", "[::1]:8080:3000": "[::1]:8080:3000", "::1:8080:3000": "[::1]:8080:3000", "65535:65535": "65535:65535",
		"::ffff:127.0.0.1:8080:3000": "127.0.0.1:8080:3000", "[::]::3000": "[::]::3000",
		"": "", "0": "", "65536": "", "-1": "", "+1": "", " 3000": "", "3000 ": "", "3000:": "", ":3000": "", "8080:": "", "0:3000": "", "a:3000": "", "3000-3010": "", "8000-8010:3000-3010": "",
		"localhost:8080:3000": "", "3000/udp": "", "3000/": "", "3000/tcp/tcp": "", "127.0.0.1:8080": "", "[::1%lo]:8080:3000": "", "any": "", "::": "", "[::1]": "", "1.2.3:80:80": "", "8080:3000\n": "",
	} {
		p, err := ParsePublish(text)
		field := (*FieldError)(nil)
		switch {
		case want == "" && (!errors.As(err, &field) || field.Field != "network.publish" || field.Value != text || field.Reason == ""):
			t.Errorf("%q: %+v, %v", text, p, err)
		case want != "" && (err != nil || p.String() != want):
			t.Errorf("%q is %s, %v, want %s", text, p, err, want)
		}
		if again, err := ParsePublish(want); want != "" && (err != nil || again != p) {
			t.Errorf("%q is %+v, and %q %+v", text, p, want, again)
		}
	}
}

func FuzzParsePublish(f *testing.F) {
	for _, text := range []string{"3000", "8080:3000", "127.0.0.1:8080:3000/tcp", "[::1]::3000", "any", "::"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePublish(text)
		if err != nil {
			return
		}
		if p.Guest < 1 || p.Guest > 65535 || p.Host > 65535 {
			t.Fatalf("%q: %+v", text, p)
		}
		if again, err := ParsePublish(p.String()); err != nil || again != p {
			t.Fatalf("%q is %+v, and %q %+v, %v", text, p, p.String(), again, err)
		}
	})
}

// What is published, and the ports of the host, in a spec.
func TestPorts(t *testing.T) {
	spec := func(change func(*Spec)) Spec {
		s := Spec{Workspace: Workspace{Source: "/srv"}}
		change(&s)
		return s
	}
	network := func(n Network) Spec { return spec(func(s *Spec) { s.Network = n }) }
	for _, tt := range []struct {
		spec Spec
		mode string
		want string // the network resolved, or the refusal
	}{
		{network(Network{Publish: []string{"3000/tcp", "8080:3000", "any"}}), "none", "3000 8080:3000 any"},
		{network(Network{Mode: "host", Publish: []string{"3000"}}), "host", "3000"},
		{network(Network{HostPorts: []Port{5432, 5432, 80}}), "allow", "[5432 80]"},
		{network(Network{Mode: "none", HostPorts: []Port{80}}), "", "cannot use network.host_ports: network none uses no rules"},
		{network(Network{HostPorts: []Port{0}}), "", `cannot use network.host_ports[0] "0": a port must be from 1 to 65535`},
		{network(Network{HostPorts: []Port{65536}}), "", `cannot use network.host_ports[0] "65536": a port must be from 1 to 65535`},
		{network(Network{Publish: []string{"3000", "x"}}), "", `cannot use network.publish[1] "x": a port must be a number from 1 to 65535`},
		{network(Network{Publish: []string{"8080:1", "8080:2"}}), "", `cannot use network.publish[1] "8080:2": its port of the host is there twice`},
		{network(Network{Publish: slicesOf(65, "3000")}), "", "cannot use network.publish: it has more than 64 entries"},
		{network(Network{Allow: []NetworkRule{{Host: "host.paddock.internal"}}}), "", `cannot use network.allow[0].host "host.paddock.internal": this is the host's own loopback`},
		{spec(func(s *Spec) { s.Level, s.Network.Publish = LevelLandlock, []string{"3000"} }), "", `cannot use network.publish "3000": at the landlock level network none leaves no sockets to listen with`},
		{spec(func(s *Spec) { s.Backend, s.Network.Publish = BackendCodex, []string{"3000"} }), "", `cannot use network.publish "3000": behind the sandbox of codex network none leaves no sockets to listen with`},
		{spec(func(s *Spec) { s.Backend, s.Network.HostPorts = BackendCodex, []Port{80} }), "", `cannot use network "allow": backend codex cannot open single hosts`},
	} {
		r, err := tt.spec.Resolve(Base{Dir: "/", Home: "/"})
		if tt.mode == "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v: %v, want %s", tt.spec.Network, err, tt.want)
			}
			continue
		}
		got := strings.Join(r.Network.Publish, " ")
		if len(r.Network.HostPorts) > 0 {
			text, _ := json.Marshal(r.Network.HostPorts)
			got = strings.ReplaceAll(string(text), ",", " ")
		}
		if err != nil || r.Network.Mode != tt.mode || got != tt.want {
			t.Errorf("%+v: %+v, %v", tt.spec.Network, r.Network, err)
		}
		text, err := json.Marshal(r.Network)
		var again Network
		if err == nil {
			err = json.Unmarshal(text, &again)
		}
		if err != nil || !slices.Equal(again.Publish, r.Network.Publish) || !slices.Equal(again.HostPorts, r.Network.HostPorts) || again.Mode != tt.mode {
			t.Errorf("%s is read as %+v, %v", text, again, err)
		}
	}
	if _, err := (Network{Publish: []string{"3000"}, HostPorts: []Port{80}}).Resolve(); err == nil {
		t.Error("rules that are replaced publish ports")
	}
	if e := (Network{Mode: "allow", HostPorts: []Port{80, 22}}).Egress("gateway"); !slices.Equal(e.Allow, []string{"host.paddock.internal:80", "host.paddock.internal:22"}) {
		t.Errorf("isolation says %q", e.Allow)
	}
}

// What a ceiling allows of ports.
func TestCeilingOfPorts(t *testing.T) {
	for _, tt := range []struct {
		most, publish string
		want          bool
	}{
		{"", "3000", false}, {"", "any", false},
		{"3000", "3000", true}, {"3000", "8080:3000", true}, {"3000", "3001", false}, {"3000", "any", false},
		{"3000", "127.0.0.1:8080:3000", false}, {"3000", "0.0.0.0::3000", false},
		{"8080:3000", "3000", true}, {"8080:3000", "8081:3000", true},
		{"0.0.0.0:80:3000", "0.0.0.0:80:3000", true}, {"0.0.0.0:80:3000", "0.0.0.0:81:3000", false}, {"0.0.0.0:80:3000", "3000", true},
		{"any", "3000", true}, {"any", "80:1", true}, {"any", "any", true}, {"any", "0.0.0.0:80:3000", false}, {"any", "127.0.0.1::3000", false},
	} {
		c := &Ceiling{Workspace: []Place{{Source: "/srv", Mode: "rw"}}}
		if tt.most != "" {
			c.Publish = []string{tt.most}
		}
		_, err := c.Apply(Spec{Workspace: Workspace{Source: "/srv"}, Network: Network{Publish: []string{tt.publish}}})
		refused := (*CeilingError)(nil)
		if tt.want != (err == nil) || err != nil && (!errors.As(err, &refused) || refused.Rule != "ceiling.publish" || refused.Field != "network.publish[0]") {
			t.Errorf("%s under %q: %v", tt.publish, tt.most, err)
		}
		if err := c.Publishes(tt.publish); tt.want != (err == nil) {
			t.Errorf("Publishes of %s under %q: %v", tt.publish, tt.most, err)
		}
	}
	for text, want := range map[string]string{
		"8080:3001":       "what may be published: 3000; `ceiling.network.publish` 8080:3001 allows it",
		"127.0.0.1::3000": "what may be published: 3000; leave the address out",
		"any":             "what may be published: 3000",
	} {
		if found := FieldErrors((&Ceiling{Publish: []string{"3000"}}).Publishes(text)); len(found) != 1 || found[0].Hint != want {
			t.Errorf("%s: %v, want %s", text, found, want)
		}
	}
	spec := Spec{Workspace: Workspace{Source: "/srv"}, Network: Network{HostPorts: []Port{5432}, Publish: []string{"any", "0.0.0.0:80:3000"}}}
	c, err := spec.Ceiling()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Apply(spec); err != nil {
		t.Errorf("the spec's own ceiling: %v", err)
	}
	if err := errors.Join(c.ReachesHost([]Port{5432}), (*Ceiling)(nil).ReachesHost([]Port{1}), (*Ceiling)(nil).Publishes("1")); err != nil {
		t.Error(err)
	}
	if err := c.ReachesHost([]Port{5432, 22, 80}); len(FieldErrors(err)) != 2 {
		t.Error(err)
	}
	for _, bad := range []Ceiling{{HostPorts: []Port{80}}, {HostPorts: []Port{0}, Network: []string{"allow"}}, {Publish: []string{"x"}}} {
		bad.Workspace = []Place{{Source: "/srv"}}
		if bad.Validate() == nil {
			t.Errorf("%+v is a ceiling", bad)
		}
	}
}
