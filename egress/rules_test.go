package egress_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

func network(rules ...string) policy.Network {
	n := policy.Network{Mode: policy.NetworkAllow}
	for _, text := range rules {
		if host, ok := strings.CutPrefix(text, "!"); ok {
			n.Deny = append(n.Deny, policy.NetworkDenial{Host: host, Reason: "because"})
			continue
		}
		rule, err := policy.ParseNetworkRule(text)
		if err != nil {
			panic(err)
		}
		n.Allow = append(n.Allow, rule)
	}
	return n
}

func TestTable(t *testing.T) {
	table := egress.NewTable(network("api.test", "api.test:8443", "*.wild.test:443", "deep.a.wild.test:22", "**:9000", "db:5432",
		"10.0.0.5:5432", "10.1.0.0/16:80,81", "!bad.wild.test", "!*.worse.wild.test", "!10.1.2.0/24", "!10.0.0.6"))
	for _, tt := range []struct {
		host string
		port uint16
		want string // the rule that opens it, or the reason
	}{
		{"api.test", 443, "api.test"},
		{"api.test", 80, "api.test"},
		{"api.test", 8443, "api.test"},
		{"api.test", 9000, "**"},
		{"api.test", 22, "no rule opens its port 22"},
		{"www.api.test", 443, "no rule opens its port 443"}, // of **
		{"wild.test", 443, "no rule opens its port 443"},
		{"a.wild.test", 443, "*.wild.test"},
		{"b.a.wild.test", 443, "*.wild.test"},
		{"deep.a.wild.test", 22, "deep.a.wild.test"},
		{"deep.a.wild.test", 443, "*.wild.test"},
		{"xwild.test", 443, "no rule opens its port 443"},
		{"bad.wild.test", 443, "because"},
		{"bad.wild.test", 9000, "because"},
		{"x.bad.wild.test", 443, "*.wild.test"},
		{"worse.wild.test", 443, "*.wild.test"},
		{"x.worse.wild.test", 443, "because"},
		{"db", 5432, "db"},
		{"db", 9000, "no rule opens its port 9000"},
		{"other", 9000, "no rule opens it"},
		{"any.test", 9000, "**"},
		{"10.0.0.5", 5432, "10.0.0.5"},
		{"10.0.0.5", 9000, "no rule opens its port 9000"},
		{"10.0.0.6", 5432, "because"},
		{"10.0.0.7", 5432, "no rule opens this address"},
		{"10.1.1.1", 81, "10.1.0.0/16"},
		{"10.1.2.3", 81, "because"},
		{"1.1.1.1", 9000, "no rule opens this address"},
	} {
		var d egress.Decision
		if address, err := netip.ParseAddr(tt.host); err == nil {
			d = table.Address(address, tt.port)
		} else {
			d = table.Name(tt.host, tt.port)
			if known := table.Known(tt.host); d.Open && !known.Open || !known.Open && known.Reason == "" {
				t.Errorf("%s: %+v, and asking for it: %+v", tt.host, d, known)
			}
		}
		got := d.Rule
		if !d.Open {
			got = d.Reason
		}
		if d.Open == (d.Reason != "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s:%d: %+v, want %s", tt.host, tt.port, d, tt.want)
		}
	}
	for name, open := range map[string]bool{
		"api.test": true, "any.test": true, "db": true, "other": false, "bad.wild.test": false, "x.worse.wild.test": false,
	} {
		if table.Known(name).Open != open {
			t.Errorf("asking for %s: %+v", name, table.Known(name))
		}
	}
	if got := table.Ports(); !slices.Equal(got, []uint16{22, 80, 81, 443, 5432, 8443, 9000}) {
		t.Errorf("the ports are %v", got)
	}
	for address, want := range map[string]string{"10.0.0.5": "true true", "10.1.1.1": "true false", "10.2.0.1": "false false"} {
		port := uint16(80)
		if address == "10.0.0.5" {
			port = 5432
		}
		named, exactly := table.Names(netip.MustParseAddr(address), port)
		if got := fmt.Sprint(named, exactly); got != want {
			t.Errorf("a rule names %s: %s, want %s", address, got, want)
		}
	}
	if d := egress.NewTable(network("db", "a.test", "!**")).Known("db"); d.Open {
		t.Error("a denial of everything leaves db open")
	}
	if d := egress.NewTable(network()).Known("a.test"); d.Open {
		t.Error("without rules a name is open")
	}
}

func TestCanonicalName(t *testing.T) {
	long := strings.Repeat("a", 63)
	for name, want := range map[string]string{
		"api.test":                      "api.test",
		"API.Test.":                     "api.test",
		"a_b-c.test":                    "a_b-c.test",
		"1.2.3.x":                       "1.2.3.x",
		"db":                            "db",
		long + ".test":                  long + ".test",
		"xn--pi-7lc.test":               "xn--pi-7lc.test",
		"":                              "",
		".":                             "",
		"..":                            "",
		".test":                         "",
		"a..test":                       "",
		"a.test..":                      "",
		long + "a.test":                 "",
		strings.Repeat("a.", 127) + "x": "",
		"1.2.3.4":                       "",
		"127.1":                         "",
		"2130706433":                    "",
		"0x7f000001":                    "",
		"0x7f.1":                        "",
		"0177.0.0.1":                    "",
		"a.0x1":                         "",
		"localhost":                     "",
		"x.LOCALHOST":                   "",
		"[::1]":                         "",
		"::1":                           "",
		"::ffff:1.2.3.4":                "",
		"a b.test":                      "",
		"a\x00.test":                    "",
		"a\n.test":                      "",
		"u@a.test":                      "",
		"a.test:80":                     "",
		"*.test":                        "",
		"\u0430pi.test":                 "",
		"\u212Aapi.test":                "", // the Kelvin sign, which is k in lower case
		"a.test\xff":                    "",
	} {
		if got, ok := egress.CanonicalName(name); got != want || ok != (want != "") {
			t.Errorf("%q is %q, %v; want %q", name, got, ok, want)
		}
	}
}

// FuzzCanonicalName checks that no name is canonical that rules could not have.
func FuzzCanonicalName(f *testing.F) {
	for _, name := range []string{"api.test", "API.test.", "1.2.3.4", "0x7f.1", "a\x00b.test", "localhost", "a..b", "\u212A.test"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, ok := egress.CanonicalName(name)
		if !ok {
			return
		}
		if again, ok := egress.CanonicalName(got); !ok || again != got {
			t.Errorf("%q is %q, which is %q", name, got, again)
		}
		if canonical, reason, _ := policy.CanonicalHost(got); reason != "" || canonical != got {
			t.Errorf("%q is %q, and no rule can name it: %s", name, got, reason)
		}
	})
}

func TestCheck(t *testing.T) {
	good := network("api.test", "*.wild.test:22", "**", "10.0.0.0/8", "!bad.test")
	if err := egress.Check(good); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*policy.Network){
		"invalid mode":        func(n *policy.Network) { n.Mode = policy.NetworkNone },
		`written as "a.test"`: func(n *policy.Network) { n.Allow[0].Host = "A.test" },
		"allow[1].host":       func(n *policy.Network) { n.Allow[1].Host = "*.*.test" },
		"10.0.0.0/8":          func(n *policy.Network) { n.Allow[3].Host = "10.1.0.0/8" },
		"deny[0].host":        func(n *policy.Network) { n.Deny[0].Host = "bad\x00.test" },
		"allow[0].ports[0]":   func(n *policy.Network) { n.Allow[0].Ports = []policy.Port{0} },
		"more rules":          func(n *policy.Network) { n.Allow = make([]policy.NetworkRule, 100_000) },
		"limits.bytes_out":    func(n *policy.Network) { n.Limits.BytesOut = -1 },
	} {
		n := network("api.test", "*.wild.test:22", "**", "10.0.0.0/8", "!bad.test")
		change(&n)
		if err := egress.Check(n); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v; want an error that says %s", err, what)
		}
	}
}

func BenchmarkKnown(b *testing.B) {
	var rules []string
	for i := range 1024 {
		rules = append(rules, fmt.Sprintf("*.host%d.test", i))
	}
	table := egress.NewTable(network(rules...))
	for b.Loop() {
		table.Known("a.b.c.host1000.test")
	}
}
