package paddock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/testkit/egresstest"
	"github.com/paddock-dev/paddock/policy"
)

// openNamedFake opens a sandbox without walls whose network has rules.
func openNamedFake(t *testing.T, network Network) (*Sandbox, *egresstest.Process) {
	t.Helper()
	fake := &fakeBackend{t: t, proved: true, egress: egresstest.New(network)}
	agent := executable(t, t.TempDir(), "agent")
	s, err := Open(t.Context(), Spec{Network: network}, Options{Backend: fake, Agent: agent, StateDir: t.TempDir(), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, fake.egress
}

func rulesFor(hosts ...string) Network {
	var n Network
	for _, host := range hosts {
		n.Allow = append(n.Allow, NetworkRule{Host: host})
	}
	return n
}

// denials runs a command that fails, and returns what was refused meanwhile.
func denials(t *testing.T, s *Sandbox, argv ...string) []Denial {
	t.Helper()
	err := s.Command(t.Context(), argv[0], argv[1:]...).Run()
	failed := (*ExitError)(nil)
	if !errors.As(err, &failed) {
		t.Fatalf("%q: %v", argv, err)
	}
	return failed.Denials
}

func TestDenialsOfTheNetwork(t *testing.T) {
	network := rulesFor("api.example.com", "*.wild.example", "10.0.0.0/8")
	network.Deny = []NetworkDenial{{Host: "telemetry.wild.example", Reason: "not needed: set DO_NOT_TRACK=1"}}
	s, process := openNamedFake(t, network)
	process.Add(egress.Record{Kind: egress.KindDenied, Host: "before.example", Reason: "no rule opens it"})
	for _, tt := range []struct {
		asked []string // host, port, rule, reason
		want  Denial
	}{
		{[]string{"evil.example", "0", "", "no rule opens it"},
			Denial{Layer: "network", Rule: "allow", Object: "evil.example", Hint: "no rule opens it; `network.allow` evil.example opens it"}},
		{[]string{"", "0", egress.RuleSSHAgent, egress.SSHNoSign},
			Denial{Layer: "network", Rule: "ssh_agent", Object: "the SSH agent", Hint: egress.SSHNoSign + "; `ssh_agent`=sign allows them"}},
		{[]string{"", "0", egress.RuleSSHAgent, "known_hosts has the key " + egress.SSHNoHost},
			Denial{Layer: "network", Rule: "ssh_agent", Object: "the SSH agent", Hint: "known_hosts has the key " + egress.SSHNoHost + "; `network.allow` HOST:22 opens a host, and one login outside makes it known"}},
		{[]string{"evil.example", "443", "", "no rule opens it"},
			Denial{Layer: "network", Rule: "allow", Object: "evil.example:443", Hint: "no rule opens it; `network.allow` evil.example opens it"}},
		{[]string{"api.example.com", "22", "api.example.com", "no rule opens its port 22"},
			Denial{Layer: "network", Rule: "api.example.com", Object: "api.example.com:22", Hint: "no rule opens its port 22; `network.allow` api.example.com:22 opens it"}},
		{[]string{"telemetry.wild.example", "0", "telemetry.wild.example", "not needed: set DO_NOT_TRACK=1"},
			Denial{Layer: "network", Rule: "telemetry.wild.example", Object: "telemetry.wild.example", Hint: "not needed: set DO_NOT_TRACK=1; leaving out `network.deny` telemetry.wild.example opens it"}},
		{[]string{"192.0.2.1", "443", "", "no rule opens this address, and hosts are reached by name"},
			Denial{Layer: "network", Rule: "allow", Object: "192.0.2.1:443", Hint: "no rule opens this address, and hosts are reached by name; `network.allow` 192.0.2.1 opens it"}},
		{[]string{"169.254.169.254", "80", "", "no rule opens this address, and hosts are reached by name"},
			Denial{Layer: "network", Rule: "allow", Object: "169.254.169.254:80", Hint: "no rule opens this address, and hosts are reached by name"}},
		{[]string{"api.example.com", "443", "api.example.com", "it asked for other.example in its TLS hello"},
			Denial{Layer: "network", Rule: "api.example.com", Object: "api.example.com:443", Hint: "it asked for other.example in its TLS hello"}},
		{[]string{"::1", "443", "", "no rule opens this address"},
			Denial{Layer: "network", Rule: "allow", Object: "::1:443", Hint: "no rule opens this address"}},
		{[]string{"a\x1b[31m`x`\n.example", "0", "", "it cannot be the name of a host"},
			Denial{Layer: "network", Rule: "allow", Object: "a\\x1b[31m`x`\\n.example", Hint: "it cannot be the name of a host"}},
	} {
		got := denials(t, s, append([]string{"ask"}, tt.asked...)...)
		if diff := cmp.Diff([]Denial{tt.want}, got); diff != "" {
			t.Errorf("%q: %s", tt.asked, diff)
		}
	}
	if got := denials(t, s, "say", "", "curl: (6) Could not resolve host: nowhere.example", "6"); len(got) != 0 {
		t.Errorf("a network with rules is said to be missing: %+v", got)
	}
}

// TestDenialsOfPlainHTTP: where a rule has a secret for a host, or looks into its requests, a
// refusal of plain HTTP says that these go over https, whether the kernel has refused it or not.
func TestDenialsOfPlainHTTP(t *testing.T) {
	narrow := func(host string, port policy.Port) NetworkRule {
		return NetworkRule{Host: host, Ports: []policy.Port{port}, HTTP: []policy.HTTPRule{{Methods: []string{"GET"}}}}
	}
	s, process := openNamedFake(t, Network{Allow: []NetworkRule{narrow("narrow.example", 8443), {Host: "plain.example", Ports: []policy.Port{80}}}})
	// It has a secret later: the rules of this moment count.
	rules := process.Rules()
	secret := narrow("api.example.com", 443)
	secret.Secret = &policy.NetworkSecret{Name: "API_TOKEN", Header: "Authorization", Format: "Bearer {}"}
	if err := s.SetNetwork(t.Context(), Network{Allow: append(rules.Allow, secret)}); err != nil {
		t.Fatal(err)
	}
	const (
		goes  = "a rule has a secret for it, which goes over https alone: use https://api.example.com"
		reads = "a rule says which requests it gets, and reads them over https alone: use https://narrow.example:8443"
	)
	curl := func(host string) string {
		return "curl: (7) Failed to connect to " + host + " port 80 after 0 ms: Couldn't connect to server"
	}
	for _, tt := range []struct {
		command []string
		want    Denial
	}{
		{[]string{"ask", "API.example.com", "80", "api.example.com", "no rule opens its port 80"},
			Denial{Layer: "network", Rule: "api.example.com", Object: "API.example.com:80", Hint: "no rule opens its port 80; " + goes}},
		{[]string{"ask", "narrow.example", "80", "narrow.example", "no rule opens its port 80"},
			Denial{Layer: "network", Rule: "narrow.example", Object: "narrow.example:80", Hint: "no rule opens its port 80; " + reads}},
		{[]string{"ask", "plain.example", "443", "plain.example", "no rule opens its port 443"},
			Denial{Layer: "network", Rule: "plain.example", Object: "plain.example:443", Hint: "no rule opens its port 443; `network.allow` plain.example opens it"}},
		{[]string{"say", "", curl("api.example.com"), "7"},
			Denial{Layer: "network", Rule: "port", Object: "api.example.com", Hint: goes, Guess: true}},
		{[]string{"say", "", `Get "http://narrow.example/x": dial tcp 198.18.0.3:80: connect: connection refused`, "1"},
			Denial{Layer: "network", Rule: "port", Object: "narrow.example", Hint: reads, Guess: true}},
		{[]string{"say", "", curl("other.example"), "7"},
			Denial{Layer: "network", Rule: "port", Object: "other.example:80", Hint: "a host refuses every port that no rule names: `network.allow` other.example:80 opens it", Guess: true}},
		{[]string{"say", "", "dial tcp 198.18.0.7:8443: connect: connection refused", "1"},
			Denial{Layer: "network", Rule: "port", Hint: "a host refuses every port that no rule names: `network.allow` HOST:PORT opens it", Guess: true}},
		{[]string{"say", "", "curl: (7) Failed to connect to host.paddock.internal port 15433 after 0 ms: Couldn't connect to server", "7"},
			Denial{Layer: "network", Rule: "port", Object: "host.paddock.internal:15433", Hint: "`network.host_ports` 15433 opens it", Guess: true}},
		{[]string{"say", "", "Error: connect ECONNREFUSED ::1:5432", "1"},
			Denial{Layer: "network", Rule: "port", Object: "[::1]:5432", Hint: "::1 is the sandbox's own, where nothing listens at that port; `network.host_ports` 5432 lets it reach that port of the host, as host.paddock.internal", Guess: true}},
	} {
		_, err := s.Command(t.Context(), tt.command[0], tt.command[1:]...).Output() // with what it says of errors
		failed := (*ExitError)(nil)
		if !errors.As(err, &failed) {
			t.Fatalf("%q: %v", tt.command, err)
		}
		if diff := cmp.Diff([]Denial{tt.want}, failed.Denials); diff != "" {
			t.Errorf("%q: %s", tt.command, diff)
		}
	}
}

func TestDenialsNameTheFileThatNamesTheHost(t *testing.T) {
	s, _ := openNamedFake(t, rulesFor("a.example"))
	lock := filepath.Join(s.Spec().Workspace.Source, "package-lock.json")
	if err := os.WriteFile(lock, []byte(`{"resolved": "https://files.example/x.tgz"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	want := []Denial{{Layer: "network", Rule: "allow", Object: "files.example", Hint: "no rule opens it; `network.allow` files.example opens it; package-lock.json of the workspace names it"}}
	if diff := cmp.Diff(want, denials(t, s, "ask", "files.example", "0", "", "no rule opens it")); diff != "" {
		t.Error(diff)
	}
}

func TestAddNetwork(t *testing.T) {
	s, process := openNamedFake(t, rulesFor("a.example"))
	deny := []NetworkDenial{{Host: "telemetry.b.example"}}
	for range 2 { // the second time adds nothing
		if err := s.AddNetwork(t.Context(), rulesFor("*.B.example", "a.example").Allow, deny); err != nil {
			t.Fatal(err)
		}
	}
	want := Network{Mode: "allow", Allow: []NetworkRule{{Host: "a.example"}, {Host: "*.b.example", Ports: []policy.Port{443, 80}}}, Deny: deny, Limits: policy.NetworkLimits{Connections: 256}}
	want.Allow[0].Ports = want.Allow[1].Ports
	if diff := cmp.Diff(want, process.Rules()); diff != "" {
		t.Error(diff)
	}
	if err := s.AddNetwork(t.Context(), rulesFor("https://c.example").Allow, nil); err == nil || !strings.Contains(err.Error(), "URL") {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff(want, process.Rules()); diff != "" {
		t.Errorf("after rules that cannot be used: %s", diff)
	}
	var adding sync.WaitGroup
	for _, host := range []string{"c.example", "d.example", "e.example", "f.example"} {
		adding.Go(func() {
			if err := s.AddNetwork(t.Context(), rulesFor(host).Allow, nil); err != nil {
				t.Error(err)
			}
		})
	}
	adding.Wait()
	if got := process.Rules().Allow; len(got) != 6 {
		t.Errorf("of those who add at the same time, some are lost: %v", got)
	}
}

// TestAddNetworkBeside: a wider rule beside one that looks into requests of a host is added once,
// and closes nothing of the host's.
func TestAddNetworkBeside(t *testing.T) {
	s, process := openNamedFake(t, rulesFor("b.example"))
	narrow := NetworkRule{Host: "api.example.com", Ports: []policy.Port{443}, HTTP: []policy.HTTPRule{{Methods: []string{"GET"}}}}
	for _, added := range [][]NetworkRule{{narrow}, rulesFor("*.example.com").Allow, rulesFor("*.example.com").Allow, rulesFor("**").Allow, rulesFor("**").Allow, {narrow}} {
		if err := s.AddNetwork(t.Context(), added, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddNetwork(t.Context(), []NetworkRule{{Host: "api.example.com", Ports: []policy.Port{443}}}, nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, rule := range process.Rules().Allow {
		got = append(got, rule.Host)
	}
	if want := []string{"b.example", "api.example.com", "*.example.com", "**"}; !cmp.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if rules := process.Rules().Allow; len(rules[1].HTTP) != 1 {
		t.Errorf("%+v", rules[1])
	}
}

// TestChangeNetwork: what is made of rules that others replace meanwhile is made of theirs again.
func TestChangeNetwork(t *testing.T) {
	s, process := openNamedFake(t, rulesFor("a.example"))
	var saw []string
	if err := s.ChangeNetwork(t.Context(), func(now egress.State) (Network, error) {
		n := now.Network.Clone()
		if saw = append(saw, n.Allow[0].Host); len(saw) == 1 {
			if err := s.SetNetwork(t.Context(), rulesFor("b.example")); err != nil {
				t.Error(err)
			}
		}
		n.Allow = append(n.Allow, rulesFor("c.example").Allow...)
		return n, nil
	}); err != nil {
		t.Fatal(err)
	}
	if rules := process.Rules().Allow; len(saw) != 2 || saw[1] != "b.example" || len(rules) != 2 || rules[0].Host != "b.example" || rules[1].Host != "c.example" {
		t.Errorf("after %q: %+v", saw, rules)
	}
	before, own := process.Rules(), errors.New("the caller's own")
	if err := s.ChangeNetwork(t.Context(), func(egress.State) (Network, error) { return Network{}, own }); !errors.Is(err, own) {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff(before, process.Rules()); diff != "" {
		t.Error(diff)
	}
}

func TestDenialsOfTheNetworkAreBounded(t *testing.T) {
	s, process := openNamedFake(t, rulesFor("a.example"))
	c := s.Command(t.Context(), "wait", "ready")
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 5))
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		r := egress.Record{Kind: egress.KindDenied, Host: strings.Repeat("a", i+1) + ".invalid", Reason: "no rule opens it"}
		process.Add(r, egress.Record{Kind: egress.KindConnection, Host: "a.example"}, r)
	}
	if err := c.Signal("TERM"); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	got := c.Result().Denials
	if len(got) != maxNetworkDenials+1 || got[0].Count != 2 || got[maxNetworkDenials].Object != "8 more" {
		t.Errorf("%d denials: %+v", len(got), got)
	}
}

func TestACommandThatSucceedsHasDenialsOfTheNetwork(t *testing.T) {
	s, process := openNamedFake(t, rulesFor("a.example"))
	c := s.Command(t.Context(), "cat")
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	process.Add(egress.Record{Kind: egress.KindDenied, Host: "b.example", Count: 3})
	for _, reason := range []string{"method", "path", "method"} { // of requests each reason
		process.Add(egress.Record{Kind: egress.KindDenied, Host: "a.example", Port: 443, Rule: "a.example", Method: "GET", Reason: reason})
	}
	_ = in.Close()
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	want := []Denial{{Layer: "network", Rule: "allow", Object: "b.example", Hint: "`network.allow` b.example opens it", Count: 3},
		{Layer: "network", Rule: "a.example", Object: "a.example:443", Hint: "method", Count: 2},
		{Layer: "network", Rule: "a.example", Object: "a.example:443", Hint: "path"}}
	if diff := cmp.Diff(want, c.Result().Denials); diff != "" {
		t.Error(diff)
	}
}

func TestTheProcessOfTheNetworkHasEnded(t *testing.T) {
	s, process := openNamedFake(t, rulesFor("a.example"))
	process.Kill()
	if got := denials(t, s, "say", "", "", "1"); len(got) != 1 || got[0].Layer != "network" || !strings.Contains(got[0].Hint, "no host can be reached") {
		t.Errorf("%+v", got)
	}
	_, err := s.Network(t.Context())
	own := (*Error)(nil)
	if !errors.As(err, &own) || own.Message != "cannot look at the network: cannot reach the egress process: connection refused" || !strings.Contains(own.Hint, "open a new one") {
		t.Errorf("%v", err)
	}
}

func TestSetNetwork(t *testing.T) {
	s, process := openNamedFake(t, rulesFor("a.example"))
	if got := s.Isolation().Egress; got == nil || !cmp.Equal(got.Allow, []string{"a.example"}) || got.How != "gateway" {
		t.Errorf("at first: %+v", got)
	}
	if err := s.SetNetwork(t.Context(), rulesFor("B.Example.", "c.example")); err != nil {
		t.Fatal(err)
	}
	want := []NetworkRule{{Host: "b.example", Ports: policy.DefaultPorts()}, {Host: "c.example", Ports: policy.DefaultPorts()}}
	if diff := cmp.Diff(want, process.Rules().Allow); diff != "" {
		t.Error(diff)
	}
	if got := s.Isolation().Egress; !cmp.Equal(got.Allow, []string{"b.example", "c.example"}) {
		t.Errorf("after that: %+v", got)
	}
	err := s.SetNetwork(t.Context(), rulesFor("d.example", "https://e.example"))
	if found := policy.FieldErrors(err); len(found) != 1 || found[0].Error() != `cannot use network.allow[1].host "https://e.example": it is a URL` {
		t.Errorf("%v", err)
	}
	if err := s.SetNetwork(t.Context(), Network{Mode: policy.NetworkHost}); err == nil || !strings.Contains(err.Error(), "its mode cannot") {
		t.Errorf("another mode: %v", err)
	}
	process.Refuse(&egress.Error{Message: "port 53 is taken", Hint: "name another"})
	err = s.SetNetwork(t.Context(), rulesFor("d.example"))
	own := (*Error)(nil)
	if !errors.As(err, &own) || own.Message != "cannot change the network: port 53 is taken" || own.Hint != "name another" {
		t.Errorf("%v", err)
	}
	state, err := s.Network(t.Context())
	if err != nil || !cmp.Equal(state.Network.Allow, want) {
		t.Errorf("%+v, %v", state, err)
	}
}

// Rules that another process has changed are in the isolation of the next result.
func TestIsolationHasRulesThatOthersChanged(t *testing.T) {
	s, process := openNamedFake(t, rulesFor("a.example"))
	c := s.Command(t.Context(), "cat")
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	changed, err := rulesFor("b.example").Resolve()
	if err == nil {
		_, err = process.Client().Set(t.Context(), changed)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := s.Isolation().Egress; !cmp.Equal(got.Allow, []string{"b.example"}) {
		t.Errorf("%+v", got)
	}
}

func TestNetworkLog(t *testing.T) {
	s, process := openNamedFake(t, rulesFor("a.example"))
	process.Add(egress.Record{Kind: egress.KindConnection, Host: "a.example", Sent: 3}, egress.Record{Kind: egress.KindDenied, Host: "b.example"})
	var got []string
	err := s.NetworkLog(t.Context(), 1, false, func(r egress.Record) error {
		got = append(got, r.Kind+" "+r.Host)
		return nil
	})
	if err != nil || !cmp.Equal(got, []string{"denied b.example"}) {
		t.Errorf("%q, %v", got, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	got = nil
	err = s.NetworkLog(ctx, 0, true, func(r egress.Record) error {
		if got = append(got, r.Host); len(got) == 2 {
			process.Add(egress.Record{Kind: egress.KindDenied, Host: "c.example"})
		}
		if len(got) == 3 {
			stop()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || !cmp.Equal(got, []string{"a.example", "b.example", "c.example"}) {
		t.Errorf("%q, %v", got, err)
	}
	own := errors.New("enough")
	if err := s.NetworkLog(t.Context(), 0, true, func(egress.Record) error { return own }); !errors.Is(err, own) || err.Error() != "enough" {
		t.Errorf("%v", err)
	}
}

func TestASandboxWithoutRules(t *testing.T) {
	s, _ := openFake(t, Spec{})
	for _, err := range []error{
		func() error { _, err := s.Network(t.Context()); return err }(),
		s.SetNetwork(t.Context(), rulesFor("a.example")),
		s.NetworkLog(t.Context(), 0, false, nil),
	} {
		own := (*Error)(nil)
		if !errors.As(err, &own) || !strings.HasSuffix(own.Message, "of sandbox fake: it has network none, without rules") || own.Hint == "" {
			t.Errorf("%v", err)
		}
	}
}
