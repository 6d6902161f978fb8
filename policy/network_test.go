package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCanonicalHost(t *testing.T) {
	for _, tt := range []struct{ host, want, reason string }{
		{"example.com", "example.com", ""},
		{"API.Example.COM.", "api.example.com", ""},
		{"*.example.com", "*.example.com", ""},
		{"**", "**", ""},
		{"one", "one", ""},
		{"_srv.a-b.x1", "_srv.a-b.x1", ""},
		{"xn--bcher-kva.example", "xn--bcher-kva.example", ""},
		{"1.example", "1.example", ""},
		{"192.0.2.1", "192.0.2.1", ""},
		{"10.1.2.3/8", "10.0.0.0/8", ""},
		{"10.1.2.3/32", "10.1.2.3/32", ""},
		{"0.0.0.0/0", "0.0.0.0/0", ""},
		{"169.254.169.254", "169.254.169.254", ""},
		{strings.Repeat("a.", 127), strings.Repeat("a.", 126) + "a", ""}, // with its last dot

		{"", "", "it is empty"},
		{".", "", "a part between dots is empty"},
		{"example..com", "", "a part between dots is empty"},
		{".example.com", "", "a part between dots is empty"},
		{"example.com..", "", "a part between dots is empty"},
		{"*.", "", `"*" can only be the whole first label`},
		{"*", "", `"*" can only be the whole first label`},
		{"***", "", `"*" can only be the whole first label`},
		{"**.example.com", "", `"*" can only be the whole first label`},
		{"*.*.com", "", `"*" can only be the whole first label`},
		{"a*.example.com", "", `"*" can only be the whole first label`},
		{"a.*.com", "", `"*" can only be the whole first label`},
		{"https://example.com/x", "", "it is a URL"},
		{"example.com/x", "", "it is neither a host name nor a network in CIDR notation"},
		{"10.0.0.0/33", "", "it is neither a host name nor a network in CIDR notation"},
		{"10.0.0.0/08", "", "it is neither a host name nor a network in CIDR notation"},
		{"example.com:443", "", "it has a port"},
		{"user@example.com", "", "a host name is letters, digits, hyphens, underscores and dots"},
		{"exa mple.com", "", "a host name is letters, digits, hyphens, underscores and dots"},
		{"example.com\x00.evil.example", "", "a host name is letters, digits, hyphens, underscores and dots"},
		{"example.com\n", "", "a host name is letters, digits, hyphens, underscores and dots"},
		{"bücher.example", "", "a host name is ASCII"},
		{"ехample.com", "", "a host name is ASCII"}, // with letters that look alike
		{"example。com", "", "a host name is ASCII"},
		{"\xff.example", "", "a host name is ASCII"},
		{"::1", "", "IPv6 addresses cannot be named"},
		{"::ffff:10.0.0.1", "", "IPv6 addresses cannot be named"},
		{"fe80::1%eth0", "", "IPv6 addresses cannot be named"},
		{"2001:db8::/32", "", "IPv6 addresses cannot be named"},
		{"127.0.0.1", "", "this is the sandbox's own loopback"},
		{"127.1.0.0/16", "", "this is the sandbox's own loopback"},
		{"0.0.0.0", "", "this is the sandbox's own loopback"},
		{"localhost", "", "this is the sandbox's own loopback"},
		{"a.LOCALHOST.", "", "this is the sandbox's own loopback"},
		{"*.localhost", "", "this is the sandbox's own loopback"},
		{"224.0.0.1", "", "there are no hosts at multicast and reserved addresses"},
		{"255.255.255.255", "", "there are no hosts at multicast and reserved addresses"},
		{"198.18.0.1", "", "inside, addresses of 198.18.0.0/15 stand for names"},
		{"198.19.0.0/16", "", "inside, addresses of 198.18.0.0/15 stand for names"},
		{"2130706433", "", "it is not an IPv4 address"},
		{"0x7f000001", "", "it is not an IPv4 address"},
		{"0177.0.0.1", "", "it is not an IPv4 address"},
		{"127.1", "", "it is not an IPv4 address"},
		{"1.2.3.4.5", "", "it is not an IPv4 address"},
		{"*.0.0.1", "", "it is not an IPv4 address"},
		{"example.123", "", "it is not an IPv4 address"},
		{strings.Repeat("a", 64) + ".example", "", "a part between dots is longer than 63 bytes"},
		{strings.Repeat("a.", 127) + "a", "", "it is longer than 253 bytes"},
	} {
		got, reason, hint := CanonicalHost(tt.host)
		if got != tt.want || reason != tt.reason {
			t.Errorf("%q is %q, %q; want %q, %q", tt.host, got, reason, tt.want, tt.reason)
		}
		if strings.ContainsFunc(hint, func(r rune) bool { return r < ' ' }) {
			t.Errorf("%q: the hint %q has control characters", tt.host, hint)
		}
		if again, reason, _ := CanonicalHost(got); got != "" && (again != got || reason != "") {
			t.Errorf("%q has the canonical form %q, and that has %q, %q", tt.host, got, again, reason)
		}
	}
	for host, want := range map[string]string{
		"https://u@api.example.com:8443/x?y": "name the host alone: api.example.com:8443",
		"http://example.com":                 "name the host alone: example.com",
		"example.com:443":                    "name the host alone: example.com",
	} {
		if _, _, hint := CanonicalHost(host); hint != want {
			t.Errorf("%q: hint %q, want %q", host, hint, want)
		}
	}
}

func TestParseNetworkRule(t *testing.T) {
	for _, tt := range []struct {
		text string
		want NetworkRule
		err  string
	}{
		{"example.com", NetworkRule{Host: "example.com"}, ""},
		{"Example.com:8443", NetworkRule{Host: "example.com", Ports: []Port{8443}}, ""},
		{"*.example.com:80,443,22", NetworkRule{Host: "*.example.com", Ports: []Port{80, 443, 22}}, ""},
		{"10.0.0.0/8:5432", NetworkRule{Host: "10.0.0.0/8", Ports: []Port{5432}}, ""},
		{"", NetworkRule{}, "it is empty"},
		{":443", NetworkRule{}, "it is empty"},
		{"example.com:", NetworkRule{}, "a port must be a number from 1 to 65535"},
		{"example.com:0", NetworkRule{}, "a port must be a number from 1 to 65535"},
		{"example.com:65536", NetworkRule{}, "a port must be a number from 1 to 65535"},
		{"example.com:80,", NetworkRule{}, "a port must be a number from 1 to 65535"},
		{"example.com:+80", NetworkRule{}, "it is not HOST or HOST:PORT[,PORT]"},
		{"example.com:https", NetworkRule{}, "it is not HOST or HOST:PORT[,PORT]"},
		{"example.com:80:90", NetworkRule{}, "it is not HOST or HOST:PORT[,PORT]"},
		{"[::1]:443", NetworkRule{}, "IPv6 addresses cannot be named"},
		{"::1", NetworkRule{}, "IPv6 addresses cannot be named"},
		{"[2001:db8::1]:443", NetworkRule{}, "IPv6 addresses cannot be named"},
		{"[2001:db8::1]", NetworkRule{}, "IPv6 addresses cannot be named"},
		{"https://example.com", NetworkRule{}, "it is a URL"},
		{"localhost:3000", NetworkRule{}, "this is the sandbox's own loopback"},
	} {
		got, err := ParseNetworkRule(tt.text)
		reason := ""
		if found := FieldErrors(err); len(found) == 1 && found[0].Field == "network.allow" && found[0].Value == tt.text {
			reason = found[0].Reason
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || reason != tt.err || (err == nil) != (tt.err == "") {
			t.Errorf("%q: %v, want %q %s", tt.text, err, tt.err, diff)
		}
	}
}

// allowing returns a network with rules in their short form.
func allowing(rules ...string) Network {
	var n Network
	for _, text := range rules {
		rule, err := ParseNetworkRule(text)
		if err != nil {
			panic(err)
		}
		n.Allow = append(n.Allow, rule)
	}
	return n
}

func TestResolveNetwork(t *testing.T) {
	limits := NetworkLimits{Connections: DefaultConnections}
	for _, tt := range []struct {
		name     string
		in, want Network
	}{
		{"nothing", Network{}, Network{Mode: NetworkNone}},
		{"rules imply the mode", Network{Allow: []NetworkRule{{Host: "Example.com."}}},
			Network{Mode: NetworkAllow, Allow: []NetworkRule{{Host: "example.com", Ports: DefaultPorts()}}, Limits: limits}},
		{"no host yet", Network{Mode: NetworkAllow, Allow: []NetworkRule{}}, Network{Mode: NetworkAllow, Limits: limits}},
		{"all of it", Network{Mode: NetworkAllow, Allow: []NetworkRule{{Host: "10.1.1.1/8", Ports: []Port{5432, 5432, 80}}},
			Deny: []NetworkDenial{{Host: "*.Example.com", Reason: "not needed: set DO_NOT_TRACK=1"}}, Limits: NetworkLimits{Connections: 4096, BytesOut: GiB}},
			Network{Mode: NetworkAllow, Allow: []NetworkRule{{Host: "10.0.0.0/8", Ports: []Port{5432, 80}}},
				Deny: []NetworkDenial{{Host: "*.example.com", Reason: "not needed: set DO_NOT_TRACK=1"}}, Limits: NetworkLimits{Connections: 4096, BytesOut: GiB}}},
	} {
		before, _ := json.Marshal(tt.in)
		got, err := Spec{Network: tt.in}.Resolve(testBase)
		if diff := cmp.Diff(tt.want, got.Network); err != nil || diff != "" {
			t.Errorf("%s: %v %s", tt.name, err, diff)
			continue
		}
		if after, _ := json.Marshal(tt.in); string(after) != string(before) {
			t.Errorf("%s: Resolve changed the receiver: %s, before %s", tt.name, after, before)
		}
		again, err := got.Resolve(Base{})
		if diff := cmp.Diff(got, again); diff != "" || err != nil {
			t.Errorf("%s: Resolve is not idempotent: %v %s", tt.name, err, diff)
		}
		text, err := json.Marshal(got.Network)
		var read Network
		if err == nil {
			err = json.Unmarshal(text, &read)
		}
		if diff := cmp.Diff(got.Network, read); diff != "" || err != nil {
			t.Errorf("%s: %s does not give the network back: %v %s", tt.name, text, err, diff)
		}
		if got.Network.Mode == NetworkAllow {
			alone, err := tt.in.Resolve()
			if diff := cmp.Diff(got.Network, alone); diff != "" || err != nil {
				t.Errorf("%s: Network.Resolve gives something else: %v %s", tt.name, err, diff)
			}
		}
	}
}

func TestResolveNetworkRefuses(t *testing.T) {
	var wide Network
	for port := range Port(61) {
		wide.Allow = append(wide.Allow, NetworkRule{Host: "a.example", Ports: []Port{port + 1000}})
	}
	many := func(n int, host string) Network { return Network{Allow: slicesOf(n, NetworkRule{Host: host})} }
	for _, tt := range []struct {
		spec  Spec
		want  string
		hint  string
		count int
	}{
		{Spec{Network: Network{Allow: []NetworkRule{}}}, "cannot use network.allow: it is empty, and opens nothing", "name a host, or use `network` none", 1},
		{Spec{Network: Network{Mode: NetworkNone, Allow: allowing("a.example").Allow}}, "cannot use network.allow: network none uses no rules", "use `network` allow, or leave them out", 1},
		{Spec{Network: Network{Mode: NetworkHost, Deny: []NetworkDenial{{Host: "a.example"}}}}, "cannot use network.deny: network host uses no rules", "use `network` allow, or leave them out", 1},
		{Spec{Network: Network{Limits: NetworkLimits{Connections: 1}}}, "cannot use network.limits: network none uses no rules", "use `network` allow, or leave them out", 1},
		{Spec{Network: Network{Deny: []NetworkDenial{{Host: "a.example"}}}}, "cannot use network.deny: no rule opens what it would close", "open hosts with `network.allow`, or leave it out", 1},
		{Spec{Network: Network{Allow: []NetworkRule{{Host: "a.example", Ports: []Port{80, 0}}}}}, `cannot use network.allow[0].ports[1] "0": a port must be from 1 to 65535`, "", 1},
		{Spec{Network: Network{Allow: []NetworkRule{{Host: "a.example", Ports: []Port{70000}}}}}, `cannot use network.allow[0].ports[0] "70000": a port must be from 1 to 65535`, "", 1},
		{Spec{Network: wide}, "cannot use network.allow: the rules name more than 60 different ports", "each needs a socket of its own: name fewer", 1},
		{Spec{Network: many(100_000, "a.example")}, "cannot use network.allow: it has more than 1024 entries", `"*.example.com" is every name below example.com`, 1},
		{Spec{Network: many(1000, "a b")}, `cannot use network.allow[0].host "a b": a host name is letters, digits, hyphens, underscores and dots`, "", maxRefused + 1},
		{Spec{Network: Network{Allow: allowing("**").Allow, Deny: slicesOf(1025, NetworkDenial{Host: "a.example"})}}, "cannot use network.deny: it has more than 1024 entries", `"*.example.com" is every name below example.com`, 1},
		{Spec{Network: Network{Allow: allowing("**").Allow, Deny: []NetworkDenial{{Host: "a.example", Reason: "a\nb"}}}}, `cannot use network.deny[0].reason "a\nb": it must be one line of at most 256 bytes that can be printed`, "", 1},
		{Spec{Network: Network{Allow: allowing("**").Allow, Deny: []NetworkDenial{{Host: "a.example", Reason: strings.Repeat("a", 257)}}}}, `cannot use network.deny[0].reason "` + strings.Repeat("a", 80) + `"…: it must be one line of at most 256 bytes that can be printed`, "", 1},
		{Spec{Network: Network{Allow: allowing("**").Allow, Limits: NetworkLimits{Connections: 4097}}}, `cannot use network.limits.connections "4097": it must be at most 4096`, "", 1},
		{Spec{Network: Network{Allow: allowing("**").Allow, Limits: NetworkLimits{BytesOut: -1}}}, `cannot use network.limits.bytes_out: it must not be negative`, "", 1},
		{Spec{Level: LevelLandlock, Network: allowing("a.example")}, `cannot use network.allow[0] "a.example": the landlock level can restrict ports, not names`, "use `level` full, or leave `network.allow` out", 1},
		{Spec{Level: LevelLandlock, Network: Network{Mode: NetworkAllow}}, `cannot use network "allow": the landlock level can restrict ports, not names`, "use `level` full, or `network` none", 1},
		{Spec{Backend: BackendHost, Network: allowing("a.example")}, `cannot use network "allow": commands use the host's network`, "use backend linux or docker, or leave it out: commands reach what this host reaches, its 127.0.0.1 too", 1},
		{Spec{Backend: BackendHost, Network: Network{HostPorts: []Port{5432}}}, `cannot use network "allow": commands use the host's network`, "use backend linux or docker, or leave it out: commands reach what this host reaches, its 127.0.0.1 too", 1},
		{Spec{Backend: BackendWrapper, Wrapper: &Wrapper{Command: []string{"ssh", "host"}}, Network: Network{HostPorts: []Port{5432}}}, `cannot use network "allow": the wrapper decides about the network`, "use backend linux or docker, which keep rules, or leave it out, and bound the network in `wrapper.command`", 1},
		{Spec{Backend: BackendCodex, Network: allowing("a.example")}, `cannot use network "allow": backend codex cannot open single hosts`, "use backend linux or docker, or `network` none or host", 1},
		{Spec{Backend: BackendDocker, Docker: &Docker{NetworkEnabled: true}, Network: allowing("a.example")}, `cannot use docker.network_enabled "true": network says something else: "allow"`, "leave one of the two out", 1},
	} {
		_, err := tt.spec.Resolve(testBase)
		found := FieldErrors(err)
		if len(found) != tt.count || found[0].Error() != tt.want || found[0].Hint != tt.hint {
			text := fmt.Sprint(err)
			t.Errorf("%d errors, %.600s\nwant %d, %s", len(found), text, tt.count, tt.want)
		}
	}
}

func slicesOf[T any](n int, of T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = of
	}
	return all
}

func TestNetworkJSON(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Network
		ok   bool
	}{
		{`"none"`, Network{Mode: NetworkNone}, true},
		{`{"mode":"allow","allow":[{"host":"a.example","ports":[443]}]}`, Network{Mode: NetworkAllow, Allow: []NetworkRule{{Host: "a.example", Ports: []Port{443}}}}, true},
		{`{"mode":"allow","hosts":[]}`, Network{}, false},
		{`{"allow":[{"host":"a.example","prots":[443]}]}`, Network{}, false},
		{`{"allow":[{"host":"a.example","ports":[-1]}]}`, Network{}, false},
		{`{"allow":["a.example"]}`, Network{}, false},
		{`7`, Network{}, false},
	} {
		var got Network
		err := json.Unmarshal([]byte(tt.text), &got)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.text, err)
		}
		if diff := cmp.Diff(tt.want, got); tt.ok && diff != "" {
			t.Errorf("%s: %s", tt.text, diff)
		}
	}
	if text, err := json.Marshal(Spec{}); err != nil || strings.Contains(string(text), "network") {
		t.Errorf("an empty spec is %s, %v", text, err)
	}
	if text, err := json.Marshal(Network{Mode: NetworkHost}); err != nil || string(text) != `"host"` {
		t.Errorf("a mode alone is %s, %v", text, err)
	}
}

func TestACeilingContainsRules(t *testing.T) {
	for _, tt := range []struct {
		most, rule string
		want       bool
	}{
		{"a.example", "a.example", true},
		{"A.Example.", "a.example", true},
		{"a.example", "b.a.example", false},
		{"a.example", "*.a.example", false},
		{"*.a.example", "b.a.example", true},
		{"*.a.example", "c.b.a.example", true},
		{"*.a.example", "*.b.a.example", true},
		{"*.a.example", "*.a.example", true},
		{"*.a.example", "a.example", false},
		{"*.a.example", "ba.example", false},
		{"*.a.example", "*.ba.example", false},
		{"*.a.example", "**", false},
		{"**", "**", true},
		{"**", "intranet", false}, // "**" does not match it either
		{"**", "a.example", true},
		{"**", "*.example", true},
		{"**", "10.0.0.5", false},
		{"**", "10.0.0.0/8", false},
		{"10.0.0.0/8", "10.2.3.4", true},
		{"10.0.0.0/8", "10.2.0.0/16", true},
		{"10.2.0.0/16", "10.0.0.0/8", false},
		{"10.0.0.0/8", "11.0.0.1", false},
		{"10.0.0.5", "10.0.0.5/32", true},
		{"10.0.0.0/8", "a.example", false},
		{"0.0.0.0/0", "**", false},
		{"a.example", "a.example:443", true},
		{"a.example", "a.example:22", false},
		{"a.example:22", "a.example", false},
		{"a.example:22", "a.example:22", true},
		{"a.example:22,443,80", "a.example", true},
		{"a.example:22,80", "a.example:80,22", true},
		{"a.example:22,80", "a.example:80,22,443", false},
	} {
		ceiling := &Ceiling{Workspace: []Place{{Source: "/srv", Mode: "rw"}}, Network: []string{NetworkNone, NetworkAllow}, NetworkRules: allowing(tt.most).Allow}
		spec := Spec{Workspace: Workspace{Source: "/srv"}, Network: allowing(tt.rule)}
		_, err := ceiling.Apply(spec)
		found := FieldErrors(err)
		if (err == nil) != tt.want || !tt.want && (len(found) != 1 || found[0].Field != "network.allow[0]" || !strings.HasPrefix(found[0].Hint, "what may be asked for: "+allowing(tt.most).Allow[0].String()+"; ")) {
			t.Errorf("%s in %s: %v, want %v", tt.rule, tt.most, err, tt.want)
		}
		if opens := ceiling.Opens(spec.Network.Allow); (opens == nil) != tt.want {
			t.Errorf("Opens of %s in %s: %v", tt.rule, tt.most, opens)
		}
	}
}

func TestACeilingOfRules(t *testing.T) {
	spec := Spec{Workspace: Workspace{Source: "/srv"}, Network: allowing("a.example", "*.b.example:22")}
	ceiling, err := spec.Ceiling()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		network Network
		fields  string
	}{
		{spec.Network, ""},
		{Network{Mode: NetworkNone}, ""},
		{allowing("x.b.example:22"), ""},
		{Network{Mode: NetworkHost}, "network"},
		{allowing("a.example", "c.example", "d.example"), "network.allow[1] network.allow[2]"},
		{Network{Allow: slicesOf(1024, NetworkRule{Host: "c.example"})}, strings.Join(indices("network.allow", maxRefused), " ")},
	} {
		_, err := ceiling.Apply(Spec{Workspace: Workspace{Source: "/srv"}, Network: tt.network})
		var got []string
		for _, e := range FieldErrors(err) {
			got = append(got, e.Field)
		}
		if strings.Join(got, " ") != tt.fields {
			t.Errorf("%+v: %v, want %s", tt.network, err, tt.fields)
		}
	}
	plain, err := Spec{Workspace: Workspace{Source: "/srv"}}.Ceiling()
	if err != nil {
		t.Fatal(err)
	}
	_, err = plain.Apply(spec)
	if found := FieldErrors(err); len(found) != 3 || found[0].Field != "network" || found[1].Hint != "no host may be asked for; `ceiling.network.allow` "+spec.Network.Allow[0].Host+" opens it" {
		t.Errorf("without a network: %v", err)
	}
	for _, tt := range []struct {
		ceiling Ceiling
		want    string
	}{
		{Ceiling{NetworkRules: allowing("a.example").Allow}, "cannot use network_rules: network does not allow them"},
		{Ceiling{Network: []string{NetworkAllow}, NetworkRules: []NetworkRule{{Host: "a b"}}}, `cannot use network_rules[0].host "a b": a host name is letters, digits, hyphens, underscores and dots`},
		{Ceiling{Network: []string{NetworkAllow}, NetworkRules: slicesOf(1025, NetworkRule{Host: "a.example"})}, "cannot use network_rules: it has more than 1024 entries"},
	} {
		tt.ceiling.Workspace = []Place{{Source: "/srv"}}
		if err := tt.ceiling.Validate(); err == nil || err.Error() != tt.want {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

// indices returns the names of the first n entries of a list.
func indices(list string, n int) (all []string) {
	for i := range n {
		all = append(all, index(list, i))
	}
	return all
}

// FuzzCanonicalHost checks that a canonical host is one, that it cannot hide anything, and that
// a ceiling which opens it opens only what its own words say.
func FuzzCanonicalHost(f *testing.F) {
	for _, seed := range []string{"a.example", "*.A.example.", "**", "10.0.0.1/8", "::1", "a b", "https://a@b:1/c", "xn--", "0x1", "a\x00b", "198.18.0.1", "a.example:443,80"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		host, reason, hint := CanonicalHost(text)
		if (host == "") == (reason == "") {
			t.Fatalf("%q: %q, %q", text, host, reason)
		}
		if strings.ContainsFunc(reason+hint, func(r rune) bool { return r < ' ' || r == 127 }) {
			t.Errorf("%q: %q, %q", text, reason, hint)
		}
		if host == "" {
			return
		}
		if again, _, _ := CanonicalHost(host); again != host {
			t.Errorf("%q: %q, then %q", text, host, again)
		}
		if strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.*/") != "" || len(host) > 255 {
			t.Errorf("%q: %q", text, host)
		}
		rule := NetworkRule{Host: host}
		if parsed, err := ParseNetworkRule(rule.String()); err != nil || parsed.Host != host {
			t.Errorf("%q: %+v, %v", host, parsed, err)
		}
		if !rule.contains(rule) {
			t.Errorf("%q does not contain itself", host)
		}
		if all := (NetworkRule{Host: "**"}); all.contains(rule) != (!IsAddress(host) && (host == "**" || strings.Contains(host, "."))) {
			t.Errorf("%q in **: %v", host, all.contains(rule))
		}
	})
}

// TestObserve: mode "observe" opens every public name besides its rules, and is for operators
// alone: no ceiling can have it.
func TestObserve(t *testing.T) {
	spec := Spec{Workspace: Workspace{Source: "/srv"}, Network: Network{Mode: NetworkObserve, Allow: []NetworkRule{{Host: "10.0.0.5", Ports: []Port{5432}}}}}
	got, err := spec.Resolve(Base{})
	if err != nil {
		t.Fatal(err)
	}
	want := Network{Mode: NetworkObserve, Limits: NetworkLimits{Connections: DefaultConnections},
		Allow: []NetworkRule{{Host: "10.0.0.5", Ports: []Port{5432}}, {Host: "**", Ports: []Port{443, 80, 22}}}}
	if diff := cmp.Diff(want, got.Network); diff != "" {
		t.Error(diff)
	}
	again, err := got.Resolve(Base{})
	if diff := cmp.Diff(want, again.Network); err != nil || diff != "" {
		t.Errorf("resolved again: %v, %s", err, diff)
	}
	if _, err := got.Network.Resolve(); err == nil || !strings.Contains(err.Error(), "mode") {
		t.Errorf("a sandbox with rules can be made one that observes: %v", err)
	}
	if _, err := spec.Ceiling(); err == nil || !strings.Contains(err.Error(), "for the operator alone") {
		t.Errorf("its ceiling: %v", err)
	}
	most := &Ceiling{Workspace: []Place{{Source: "/srv", Mode: "rw"}}, Network: []string{NetworkNone, NetworkAllow, NetworkHost}, NetworkRules: []NetworkRule{{Host: "**", Ports: []Port{443, 80, 22, 5432}}, {Host: "0.0.0.0/0", Ports: []Port{5432}}}}
	if _, err := most.Apply(spec); err == nil || !strings.Contains(err.Error(), `"observe"`) {
		t.Errorf("below a ceiling with all else: %v", err)
	}
	most.Network = append(most.Network, NetworkObserve)
	if err := most.Validate(); err == nil {
		t.Error("a ceiling can have it")
	}
	for mode, want := range map[string]string{"example.com": "`network.allow` example.com opens one host", "bridge": "", "a b.c": ""} {
		_, err := Spec{Workspace: Workspace{Source: "/srv"}, Network: Network{Mode: mode}}.Resolve(Base{})
		if all := FieldErrors(err); len(all) != 1 || all[0].Hint != want {
			t.Errorf("mode %q: %v, hint %q", mode, err, all[0].Hint)
		}
	}
}
