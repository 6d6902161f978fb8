package table

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/testkit/egresstest"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/network"
	"github.com/paddock-dev/paddock/op/internal/sandbox"
	"github.com/paddock-dev/paddock/policy"
)

// byName is the linux backend with a process of the test's own for the network.
type byName struct {
	backend.Backend
	process *egresstest.Process
}

type namedSandbox struct {
	backend.Sandbox
	network policy.Network
	process *egresstest.Process
}

func (b byName) Start(ctx context.Context, req backend.Request) (backend.Sandbox, error) {
	network := req.Spec.Network
	req.Spec.Network = policy.Network{Mode: policy.NetworkNone}
	s, err := b.Backend.Start(ctx, req)
	if err != nil || network.Mode != policy.NetworkAllow {
		return s, err
	}
	return namedSandbox{s, network, b.process}, nil
}

func (s namedSandbox) Egress() *egress.Client { return s.process.Client() }

func (s namedSandbox) Isolation() policy.Isolation {
	i := s.Sandbox.Isolation()
	i.Network, i.Egress = policy.NetworkAllow, s.network.Egress("gateway")
	return i
}

// reaching is a door that lasts, whose sandboxes reach hosts by name.
func reaching(t *testing.T, rules ...string) (*op.Env, *egresstest.Process) {
	t.Helper()
	env := lasting(t)
	allow, _, err := op.NetworkRules(rules, nil)
	if err != nil {
		t.Fatal(err)
	}
	n, err := policy.Network{Allow: allow, Deny: []policy.NetworkDenial{{Host: "telemetry.example.com", Reason: "not needed"}}}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	process := egresstest.New(n)
	env.Default.Network, env.Options.Backend = n, byName{linux.New(), process}
	return env, process
}

func TestNetworkOperations(t *testing.T) {
	env, process := reaching(t, "api.example.com", "*.example.org:8443")
	show := well[network.NetworkOutput](t, env, "network_show", nil)
	if show.Sandbox != "default" || len(show.Network.Allow) != 2 || show.Network.Limits.Connections != policy.DefaultConnections {
		t.Errorf("%+v", show)
	}
	process.Add(egress.Record{Kind: egress.KindDenied, Host: "evil.example", Reason: "no rule opens it"})
	ran := well[exec.ExecAnswer](t, env, "exec", map[string]any{"command": "true"})
	if len(ran.Denials) != 0 {
		t.Errorf("a denial of before belongs to %+v", ran.Denials)
	}
	show = well[network.NetworkOutput](t, env, "network_set", map[string]any{"allow": []string{"B.example", "10.0.0.0/8:5432"}, "deny": []string{"c.b.example"}})
	want := policy.Network{Mode: policy.NetworkAllow, Limits: policy.NetworkLimits{Connections: policy.DefaultConnections},
		Allow: []policy.NetworkRule{{Host: "b.example", Ports: policy.DefaultPorts()}, {Host: "10.0.0.0/8", Ports: []policy.Port{5432}}},
		Deny:  []policy.NetworkDenial{{Host: "c.b.example"}}}
	if diff := cmp.Diff(want, process.Rules()) + cmp.Diff(want, show.Network); diff != "" {
		t.Error(diff)
	}
	status := well[sandbox.SandboxStatusOutput](t, env, "sandbox_status", nil)
	if status.Network != policy.NetworkAllow || !cmp.Equal(status.Isolation.Egress.Allow, []string{"b.example", "10.0.0.0/8:5432"}) {
		t.Errorf("%+v, %+v", status.Network, status.Isolation.Egress)
	}
	log := well[network.NetworkLogOutput](t, env, "network_log", map[string]any{"limit": 1})
	if log.Older != 1 || len(log.Records) != 1 || log.Records[0].Kind != egress.KindRules {
		t.Errorf("%+v", log)
	}
	if log = well[network.NetworkLogOutput](t, env, "network_log", map[string]any{"after": 2}); len(log.Records) != 0 {
		t.Errorf("%+v", log)
	}
	show = well[network.NetworkOutput](t, env, "network_add", map[string]any{"allow": []string{"x.example", "B.example:443"}})
	want.Allow = append(want.Allow, policy.NetworkRule{Host: "x.example", Ports: policy.DefaultPorts()})
	if diff := cmp.Diff(want, show.Network); diff != "" {
		t.Error(diff)
	}
	process.Add(egress.Record{Kind: egress.KindConnection, Host: "x.example", Port: 443, Sent: 1, Received: 2}, egress.Record{Kind: egress.KindConnection, Host: "b.example", Port: 443},
		egress.Record{Kind: egress.KindConnection, Host: "b.example", Port: 443}, egress.Record{Kind: egress.KindRules})
	observed := well[network.NetworkOutput](t, env, "network_show", map[string]any{"observed": true})
	if diff := cmp.Diff([]paddock.Observed{{Host: "x.example", Port: 443, Connections: 1, Sent: 1, Received: 2}, {Host: "b.example", Port: 443, Connections: 2}}, observed.Observed); diff != "" {
		t.Error(diff)
	}
	const seen = 2 // set, and add
	if show.Revision != seen || observed.Revision != seen {
		t.Errorf("revisions %d and %d", show.Revision, observed.Revision)
	}
	_, err := try[network.NetworkOutput](t.Context(), t, env, "network_set", map[string]any{"none": true, "if_revision": seen - 1})
	if err == nil || err.Error() != `cannot use if_revision "1": others have changed the rules since, which are those of revision 2 now, and these were not set` || !strings.HasPrefix(op.HintOf(err), "look at them first: paddock network show ") {
		t.Errorf("rules that nobody has seen: %v (%s)", err, op.HintOf(err))
	}
	if diff := cmp.Diff(want, process.Rules()); diff != "" {
		t.Error(diff)
	}
	well[network.NetworkOutput](t, env, "network_set", map[string]any{"none": true, "if_revision": seen})
	if n := process.Rules(); n.Mode != policy.NetworkAllow || len(n.Allow)+len(n.Deny) != 0 {
		t.Errorf("%+v", n)
	}
	before := process.Rules()
	for _, tt := range []struct {
		fields    map[string]any
		err, hint string
	}{
		{map[string]any{}, "cannot use allow: no rule is given, and the rules are replaced as a whole", "name each host that stays open; `none` closes all of them"},
		{map[string]any{"none": true, "allow": []string{"a.example"}}, "cannot use none: with rules it says two things", "leave one of the two out"},
		{map[string]any{"allow": []string{"a.example", "https://b.example"}}, `cannot use network.allow "https://b.example": it is a URL`, "name the host alone: b.example"},
		{map[string]any{"deny": []string{"a b"}}, `cannot use network.deny "a b": a host name is letters, digits, hyphens, underscores and dots`, ""},
		{map[string]any{"deny": []string{"a.example"}}, "cannot use network.deny: no rule opens what it would close", "open hosts with `network.allow`, or leave it out"},
	} {
		_, err := try[network.NetworkOutput](t.Context(), t, env, "network_set", tt.fields)
		if err == nil || err.Error() != tt.err || op.HintOf(err) != tt.hint {
			t.Errorf("%v: %v (%s), want %s", tt.fields, err, op.HintOf(err), tt.err)
		}
	}
	if diff := cmp.Diff(before, process.Rules()); diff != "" {
		t.Errorf("what was refused has changed the rules: %s", diff)
	}
}

// Below a ceiling rules lie in it, and what the operator closed stays closed.
func TestNetworkSetBelowACeiling(t *testing.T) {
	env, process := reaching(t, "api.example.com", "*.example.org:8443")
	ceiling, err := env.Default.Ceiling()
	if err != nil {
		t.Fatal(err)
	}
	log := audit.At(filepath.Join(t.TempDir(), "audit"), audit.Options{})
	defer log.Close()
	env.Ceiling, env.Audit = ceiling, log
	show := well[network.NetworkOutput](t, env, "network_add", map[string]any{"allow": []string{"b.example.org:8443"}})
	if n := show.Network; len(n.Allow) != len(process.Rules().Allow) || len(n.Deny) != 1 {
		t.Errorf("%+v", n)
	}
	if _, err := try[network.NetworkOutput](t.Context(), t, env, "network_add", map[string]any{"allow": []string{"evil.example"}}); !errors.As(err, new(*policy.CeilingError)) {
		t.Errorf("a rule that the ceiling does not contain is added: %v", err)
	}
	show = well[network.NetworkOutput](t, env, "network_set", map[string]any{"allow": []string{"a.example.org:8443"}})
	if n := show.Network; len(n.Allow) != 1 || len(n.Deny) != 1 || n.Deny[0].Host != "telemetry.example.com" {
		t.Errorf("%+v", n)
	}
	for _, rule := range []string{"**", "evil.example", "api.example.com:22", "10.0.0.1", "*.example.com"} {
		_, err := try[network.NetworkOutput](t.Context(), t, env, "network_set", map[string]any{"allow": []string{rule}})
		found := (*policy.CeilingError)(nil)
		if !errors.As(err, &found) || found.Rule != "ceiling.network_rules" || found.Hint != "what may be asked for: api.example.com, *.example.org:8443; `ceiling.network.allow` "+policy.ShellWord(rule)+" opens it" {
			t.Errorf("%s: %v", rule, err)
		}
	}
	if _, err := try[network.NetworkOutput](t.Context(), t, env, "network_set", map[string]any{"spec_file": "/etc/passwd"}); !errors.As(err, new(*policy.CeilingError)) {
		t.Errorf("a file of the host: %v", err)
	}
	if n := process.Rules(); len(n.Allow) != 1 || n.Allow[0].Host != "a.example.org" {
		t.Errorf("%+v", n)
	}
	denied := 0
	reader, err := audit.Open(log.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for {
		e, err := reader.Next()
		if err != nil {
			break
		}
		if e.Record.Op == "network_set" && e.Record.Outcome == audit.OutcomeDenied {
			denied++
		}
	}
	if denied != 6 {
		t.Errorf("%d calls are recorded as denied", denied)
	}
}

// Fields of rules are shown where a ceiling leaves a choice, and words that it does not allow
// are not.
func TestNetworkFieldsWithinACeiling(t *testing.T) {
	create := operation(t, "sandbox_create")
	for _, tt := range []struct {
		ceiling policy.Ceiling
		want    []string
		not     []string
	}{
		{policy.Ceiling{}, nil, []string{`"network"`, `"allow"`, `"deny"`}},
		{policy.Ceiling{Network: []string{"none", "host"}}, []string{`"enum":["none","host"]`}, []string{`"allow":`, `"deny"`}},
		{policy.Ceiling{Network: []string{"none", "allow"}, NetworkRules: []policy.NetworkRule{{Host: "a.example"}}}, []string{`"enum":["none","allow"]`, `"allow":`, `"deny":`}, nil},
	} {
		schema := string(create.InputSchemaWithin(&tt.ceiling))
		for _, text := range tt.want {
			if !strings.Contains(schema, text) {
				t.Errorf("%+v: no %s in %s", tt.ceiling.Network, text, schema)
			}
		}
		for _, text := range tt.not {
			if strings.Contains(schema, text) {
				t.Errorf("%+v: %s in %s", tt.ceiling.Network, text, schema)
			}
		}
	}
}

func TestNetworkOfASandboxWithoutRules(t *testing.T) {
	env := lasting(t)
	own := (*paddock.Error)(nil)
	if _, err := try[network.NetworkOutput](t.Context(), t, env, "network_show", nil); !errors.As(err, &own) || !strings.Contains(own.Message, "it has network none, without rules") {
		t.Errorf("%v", err)
	}
	env = &op.Env{Options: env.Options}
	if _, err := try[network.NetworkOutput](t.Context(), t, env, "network_show", nil); err == nil || err.Error() != "cannot use sandbox: no sandbox is named" {
		t.Errorf("%v", err)
	}
}

func TestNetworkLogFollows(t *testing.T) {
	env, process := reaching(t, "api.example.com")
	process.Add(egress.Record{Kind: egress.KindConnection, Host: "api.example.com", Port: 443, Sent: 2048, Received: 5})
	signals := make(chan string, 1)
	out := &countingWriter{at: func(n int) {
		switch n {
		case 1:
			process.Add(egress.Record{Kind: egress.KindDenied, Host: "a\x1b[2Jb", Reason: "no rule opens it", Count: 2}, egress.Record{Kind: egress.KindRules})
		case 3:
			signals <- "SIGINT"
		}
	}}
	_, err := operation(t, "network_log").Call(t.Context(), env, []byte(`{"follow":true}`), &op.Stream{Stdout: out, Signals: signals})
	want := "2026-01-02T03:04:05Z  connection  api.example.com:443  2KiB sent, 5B received in 0s\n" +
		"2026-01-02T03:04:05Z  denied      a\\x1b[2Jb  no rule opens it; 2 times\n" +
		"2026-01-02T03:04:05Z  rules       replaced\n"
	if diff := cmp.Diff(want, out.text); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := operation(t, "network_log").Call(t.Context(), env, []byte(`{"follow":true}`), nil); err == nil || err.Error() != "cannot follow the network's log: the output is one JSON object" {
		t.Errorf("%v", err)
	}
}

// countingWriter calls at after each write, with their number.
type countingWriter struct {
	text string
	at   func(n int)
	n    int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.text += string(p)
	w.n++
	w.at(w.n)
	return len(p), nil
}
